"""The atmospheric scattering model and the nine haze regimes of UHV-4K.

hazy = clear * t + airlight * (1 - t) with the transmission t = exp(-beta * depth). The functions are batched,
differentiable torch for any device. Synthesis, haze on the fly in training and the checks of a data set all call them.
A regime is one of three densities with one of three airlights; it stays fixed over a clip.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from libranet.errors import InputError

PAPER_HAZY_PSNR = 13.19
"""Mean PSNR in dB of the paper's hazy frames against their ground truth; the regimes are chosen to come near it."""
WAVELENGTHS = (0.61, 0.55, 0.46)
"""Typical wavelengths of the red, green and blue channel in micrometres."""


@dataclass(frozen=True)
class Regime:
    """A density and an airlight."""

    name: str
    beta: float
    """Scattering per unit of normalised depth, which runs from 0 (near) to 1 (far)."""
    airlight: tuple[float, float, float]
    """Colour of the haze in RGB, 0 to 1."""

    def betas(self, angstrom: float = 0.0) -> tuple[float, ...]:
        """Return one beta, or one per channel: beta ~ wavelength ** -angstrom (0 in fog, about 1.3 in thin haze)."""
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


def transmission(
    depth: Tensor,  # [B, 1, H, W], [B, H, W], or of windows [B, T, 1, H, W]; >= 0
    beta: Tensor | float,  # scalar, [B], or [B, 3] for a different scattering per colour channel
) -> Tensor:  # as depth, with three channels where beta has them
    """Compute the share of the scene's light that arrives: t = exp(-beta * depth)."""
    if depth.dim() == 3:
        depth = depth.unsqueeze(1)
    if depth.dim() not in (4, 5) or depth.shape[-3] != 1:
        raise InputError(f"expected depth as [B, 1, H, W] or [B, H, W], got {tuple(depth.shape)}")
    coefficient = torch.as_tensor(beta, dtype=depth.dtype, device=depth.device)
    if coefficient.dim() == 1:
        coefficient = coefficient.unsqueeze(1)
    if coefficient.dim() not in (0, 2) or (coefficient.dim() == 2 and coefficient.shape[1] not in (1, 3)):
        raise InputError(f"expected beta as a scalar, [B] or [B, 3], got {tuple(coefficient.shape)}")
    if coefficient.dim() == 2:
        coefficient = _over_pixels(coefficient, depth)
    return torch.exp(-coefficient * depth)


def add_haze(
    clear: Tensor,  # [B, 3, H, W], or windows [B, T, 3, H, W], in [0, 1]
    t: Tensor,  # the same with three channels or one, in (0, 1]
    airlight: Tensor | float,  # scalar, [B], [3], [B, 3], or one colour per pixel as `clear`; in [0, 1]
    *,
    noise: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:  # as clear, in [0, 1]
    """Add haze to clear frames, then sensor noise of the standard deviation `noise`."""
    light = _as_channels(airlight, clear)
    hazy = torch.lerp(light.expand_as(clear), clear, t.expand_as(clear).to(clear.dtype))
    if noise:
        grain = torch.randn(clear.shape, generator=generator, dtype=clear.dtype, device=clear.device)
        hazy = hazy + grain * noise
    return hazy.clamp(0.0, 1.0)


def airlight_sums(hazy: Tensor, clear: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:  # [B, 3] each, double
    """Return numerator and denominator of the least-squares airlight over all pixels that are not clipped.

    Sum both over parts of a frame, or over frames, before dividing. A denominator of 0 means that no pixel has haze.
    """
    veil = (1.0 - t).expand_as(clear)
    weight = veil * ((hazy > 0.5 / 255) & (hazy < 254.5 / 255))
    excess = hazy - torch.addcmul(clear, clear, veil, value=-1.0)
    # Millions of float32 products are summed in double precision, which costs no memory.
    return (weight * excess).sum((-2, -1), dtype=torch.float64), (weight * veil).sum((-2, -1), dtype=torch.float64)


def assign_regimes(count: int, seed: int) -> list[Regime]:
    """Draw a regime per clip: each block of nine clips has every regime once, in an order fixed by the seed."""
    rng = np.random.default_rng((seed, 9))
    order: list[int] = []
    while len(order) < count:
        order += rng.permutation(len(REGIMES)).tolist()
    return [REGIMES[i] for i in order[:count]]


def _as_channels(value: Tensor | float, like: Tensor) -> Tensor:
    """Reshape an airlight to broadcast over frames. Three numbers are always one colour, also in a batch of three."""
    light = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    if light.dim() == 0 or light.shape == like.shape:
        return light
    if light.dim() == 1:
        light = light[None] if light.shape[0] == 3 else light[:, None]
    if light.dim() == 2 and light.shape[1] in (1, 3) and light.shape[0] in (1, like.shape[0]):
        return _over_pixels(light, like)
    raise InputError(f"expected an airlight as a scalar, [B], [3] or [B, 3], got {tuple(light.shape)}")


def _over_pixels(value: Tensor, like: Tensor) -> Tensor:  # [B, C] -> [B, C, 1, 1] or, for windows, [B, 1, C, 1, 1]
    return value.view(value.shape[0], *[1] * (like.dim() - 4), value.shape[1], 1, 1)
