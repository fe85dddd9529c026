"""The atmospheric scattering model, hazy = clear * t + airlight * (1 - t) with t = exp(-beta * depth), and back.

Everything is plain broadcasting torch: batched, differentiable, on any device. Training makes haze on the fly with it
and the UHV-4K pipeline writes its files with it.
"""

import torch
from torch import Tensor

from libranet.errors import InputError

MIN_TRANSMISSION = 0.02
"""The least transmission that is inverted: below it a rounding step of the hazy frame would grow fifty-fold."""


def transmission(
    depth: Tensor,  # [B, 1, H, W] or [B, H, W], >= 0
    beta: Tensor | float,  # scalar, [B], or [B, 3] for a different scattering per colour channel
) -> Tensor:  # [B, 1, H, W], or [B, 3, H, W] with a beta per channel
    """How much of the scene's light arrives: t = exp(-beta * depth)."""
    if depth.dim() == 3:
        depth = depth.unsqueeze(1)
    if depth.dim() != 4 or depth.shape[1] != 1:
        raise InputError(f"expected depth as [B, 1, H, W] or [B, H, W], got {tuple(depth.shape)}")
    coefficient = torch.as_tensor(beta, dtype=depth.dtype, device=depth.device)
    if coefficient.dim() == 1:
        coefficient = coefficient.unsqueeze(1)
    if coefficient.dim() not in (0, 2) or (coefficient.dim() == 2 and coefficient.shape[1] not in (1, 3)):
        raise InputError(f"expected beta as a scalar, [B] or [B, 3], got {tuple(coefficient.shape)}")
    if coefficient.dim() == 2:
        coefficient = coefficient[:, :, None, None]
    return torch.exp(-coefficient * depth)


def add_haze(
    clear: Tensor,  # [B, 3, H, W] in [0, 1]
    t: Tensor,  # [B, 1, H, W] or [B, 3, H, W] in (0, 1]
    airlight: Tensor | float,  # scalar, [B], [3] or [B, 3] in [0, 1]
    *,
    noise: float | Tensor = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:  # [B, 3, H, W] in [0, 1]
    """Lay haze over clear frames. `noise` is the standard deviation of sensor noise, a scalar or [B], added after."""
    light = _as_channels(airlight, clear)
    hazy = torch.lerp(light.expand_as(clear), clear, t.expand_as(clear).to(clear.dtype))
    sigma = torch.as_tensor(noise, dtype=clear.dtype, device=clear.device)
    if bool((sigma != 0).any()):
        grain = torch.randn(clear.shape, generator=generator, dtype=clear.dtype, device=clear.device)
        hazy = hazy + grain * (sigma[:, None, None, None] if sigma.dim() == 1 else sigma)
    return hazy.clamp(0.0, 1.0)


def remove_haze(
    hazy: Tensor,  # [B, 3, H, W] in [0, 1]
    t: Tensor,  # [B, 1, H, W] or [B, 3, H, W] in (0, 1]
    airlight: Tensor | float,  # scalar, [B], [3] or [B, 3] in [0, 1]
    *,
    floor: float = MIN_TRANSMISSION,
) -> Tensor:  # [B, 3, H, W] in [0, 1]
    """Invert `add_haze` where t is known; transmissions under `floor` are taken as `floor`."""
    light = _as_channels(airlight, hazy)
    return ((hazy - light) / t.to(hazy.dtype).clamp_min(floor) + light).clamp(0.0, 1.0)


def estimate_airlight(
    hazy: Tensor,  # [B, 3, H, W] in [0, 1]
    clear: Tensor,  # [B, 3, H, W] in [0, 1]
    t: Tensor,  # [B, 1, H, W] or [B, 3, H, W] in (0, 1]
) -> Tensor:  # [B, 3]; NaN where no pixel carries haze
    """Solve the model for the airlight by least squares over all pixels that are not clipped."""
    numerator, denominator = airlight_sums(hazy, clear, t)
    return numerator / denominator


def airlight_sums(hazy: Tensor, clear: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:  # [B, 3] each, double
    """The two sums whose ratio is the airlight. Add them up over parts of a frame, or over frames, before dividing."""
    veil = (1.0 - t).expand_as(clear)
    weight = veil * ((hazy > 0.5 / 255) & (hazy < 254.5 / 255))
    excess = hazy - torch.addcmul(clear, clear, veil, value=-1.0)
    # Millions of float32 products are summed in double precision, which costs no memory.
    return (weight * excess).sum((-2, -1), dtype=torch.float64), (weight * veil).sum((-2, -1), dtype=torch.float64)


def _as_channels(value: Tensor | float, like: Tensor) -> Tensor:
    """Bring an airlight to [B or 1, 3 or 1, 1, 1]. Three numbers are always one colour, also in a batch of three."""
    light = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    if light.dim() == 0:
        return light.reshape(1, 1, 1, 1)
    if light.dim() == 1 and light.shape[0] == 3:
        return light.reshape(1, 3, 1, 1)
    if light.dim() == 1 and light.shape[0] == like.shape[0]:
        return light.reshape(-1, 1, 1, 1)
    if light.dim() == 2 and light.shape[1] == 3 and light.shape[0] in (1, like.shape[0]):
        return light[:, :, None, None]
    raise InputError(f"expected an airlight as a scalar, [B], [3] or [B, 3], got {tuple(light.shape)}")
