"""Haze: one scattering model for synthesis and training, and the kinds of haze that a training recipe mixes."""
