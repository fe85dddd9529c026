"""Paired haze video from clear sources: depth, scattering, regimes, checks and the UHV-4K pipeline."""
