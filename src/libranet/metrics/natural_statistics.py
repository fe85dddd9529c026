"""Statistics of natural pictures that NIQE and BRISQUE share.

Both normalise the luminance by its local mean and deviation (MSCN coefficients) and describe these coefficients, and
products of neighbours, by the parameters of an asymmetric generalised Gaussian distribution (AGGD).
"""

from typing import Literal

import torch
from torch import Tensor

_SHAPES = torch.arange(200, 10_000, dtype=torch.float64) / 1000
"""Candidates for the shape parameter, 0.2 to 10, as in the published code of both measures."""


def luminance(
    image: Tensor,  # [3, H, W] in [0, 1]
) -> Tensor:  # [H, W] in [0, 255]
    """BT.601 luma on the 8-bit scale, not rounded."""
    weights = image.new_tensor((0.299, 0.587, 0.114))[:, None, None]
    return (image * weights).sum(dim=0) * 255.0


def gaussian_taps(device: torch.device) -> Tensor:  # [7], sums to one
    """The 7-tap window of deviation 7/6 that both measures smooth with."""
    offsets = torch.arange(-3, 4, device=device, dtype=torch.float64)
    taps = torch.exp(-0.5 * (offsets / (7 / 6)).square())
    return (taps / taps.sum()).float()


def smooth(
    image: Tensor,  # [H + 6, W + 6], padded by 3 as the measure wants it
) -> Tensor:  # [H, W]
    """Separable smoothing as sums of shifted maps."""
    taps = gaussian_taps(image.device).tolist()
    for axis in (0, 1):
        length = image.shape[axis] - 6
        image = sum(tap * image.narrow(axis, shift, length) for shift, tap in enumerate(taps))  # type: ignore[assignment]
    return image


def fit_aggd(
    samples: Tensor,  # [..., N]
    *,
    zeros: Literal["right", "neither"] = "right",
    count: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # [...] each: shape, mean, left and right deviation
    """Fit the AGGD by matching moments; the deviations are root mean squares of the two sides.

    The published codes differ in which side a zero counts for, and in whether products that reach over the border
    count as zeros: `count` is the number of samples with them.
    """
    x = samples.double()
    squares, total = x.square(), count or x.shape[-1]
    left = _masked_mean(squares, x < 0).sqrt()
    right = _masked_mean(squares, x >= 0 if zeros == "right" else x > 0).sqrt()
    ratio = left / right.clamp_min(1e-300)
    moment = (x.abs().sum(-1) / total).square() / (squares.sum(-1) / total).clamp_min(1e-300)
    wanted = moment * (ratio**3 + 1) * (ratio + 1) / (ratio.square() + 1).square()
    shape = _nearest_shape(wanted)
    g1, g2, g3 = (torch.lgamma(k / shape) for k in (1.0, 2.0, 3.0))
    mean = (right - left) * torch.exp((g1 - g3) / 2 + g2 - g1)
    return shape, mean, left, right


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum(-1) / mask.sum(-1).clamp_min(1)


def _nearest_shape(wanted: Tensor) -> Tensor:
    """Invert gamma(2/a)^2 / (gamma(1/a) gamma(3/a)), which grows with a, on the grid of candidates."""
    shapes = _SHAPES.to(wanted.device)
    moments = torch.exp(2 * torch.lgamma(2 / shapes) - torch.lgamma(1 / shapes) - torch.lgamma(3 / shapes))
    wanted = wanted.nan_to_num(nan=float(moments[-1]), posinf=float(moments[-1])).contiguous()
    above = torch.searchsorted(moments, wanted).clamp(1, len(shapes) - 1)
    nearer_below = (wanted - moments[above - 1]).abs() <= (moments[above] - wanted).abs()
    return shapes[torch.where(nearer_below, above - 1, above)]
