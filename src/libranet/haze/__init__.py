"""Haze: sources of clean video, depth, flow, and the scattering model that fogs them."""
