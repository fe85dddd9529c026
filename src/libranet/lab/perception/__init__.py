"""Frozen networks that judge restored frames for the paper's tables: detectors, a segmenter, MUSIQ."""
