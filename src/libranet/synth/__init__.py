"""Haze and the data made with it: the scattering model, depth, flow, sources, checks and the UHV-4K pipeline."""
