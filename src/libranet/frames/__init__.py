"""Frames as samples in memory: layout, meaning, and the way from any of them to RGB and back."""

from libranet.frames.color import ColorConverter
from libranet.frames.format import ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.frames.values import check_values

__all__ = ["ColorConverter", "ColorSpec", "FrameFormat", "Frames", "PixelLayout", "check_values"]
