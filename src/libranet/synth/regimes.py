"""The nine haze regimes: three densities times three airlights, each held fixed over a clip."""

from dataclasses import dataclass

import numpy as np

PAPER_HAZY_PSNR = 13.19
"""Mean PSNR in dB of the paper's hazy frames against their ground truth; the table below is chosen to come near it."""

WAVELENGTHS = (0.61, 0.55, 0.46)
"""Typical wavelengths of the red, green and blue channel in micrometres."""


@dataclass(frozen=True)
class Regime:
    """One (beta, airlight) pair."""

    name: str
    beta: float
    """Scattering per unit of normalised depth, which runs from 0 (near) to 1 (far)."""
    airlight: tuple[float, float, float]
    """Colour of the haze in RGB, 0 to 1."""

    def betas(self, angstrom: float = 0.0) -> tuple[float, ...]:
        """One beta, or one per channel: beta grows with wavelength ** -angstrom (0 in fog, about 1.3 in thin haze)."""
        if angstrom == 0.0:
            return (self.beta,)
        return tuple(self.beta * (wavelength / WAVELENGTHS[1]) ** -angstrom for wavelength in WAVELENGTHS)


TIERS = (("thin", 0.75), ("medium", 1.3), ("dense", 2.15))
AIRLIGHTS = (
    ("grey", (0.76, 0.77, 0.79)),
    ("white", (0.90, 0.91, 0.92)),
    ("warm", (0.90, 0.86, 0.79)),
)
REGIMES = tuple(Regime(f"{tier}-{light}", beta, colour) for tier, beta in TIERS for light, colour in AIRLIGHTS)


def assign_regimes(count: int, seed: int) -> list[Regime]:
    """A regime per clip: every block of nine clips has each regime once, in an order drawn from the seed."""
    rng = np.random.default_rng((seed, 9))
    order: list[int] = []
    while len(order) < count:
        order += rng.permutation(len(REGIMES)).tolist()
    return [REGIMES[i] for i in order[:count]]
