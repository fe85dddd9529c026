"""Is every part of a network alive? Windows that need no data, and what `export_weights.py` refuses."""

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.lab.analysis.liveness import MIN_REACHED, gradient_share, neighbour_effect
from libranet.network import LiBrANet
from libranet.network.liveness import MIN_LIVE, live_units


def probe_windows(
    model: LiBrANet, *, count: int = 4, size: tuple[int, int] = (96, 128), seed: int = 0
) -> Tensor:  # [count, T, 3, H, W] in [0, 1]
    """Varied windows that need no data: random scenes of three scales that move, under haze that grows with height."""
    generator = torch.Generator().manual_seed(seed)
    height, width = size
    step, length = 2, model.config.window

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    scenes = torch.zeros(count, 3, height, width + step * (length - 1))
    for share, cells in ((0.5, 4), (0.3, 12), (0.2, 40)):
        scenes += share * F.interpolate(rand(count, 3, cells, cells), size=scenes.shape[-2:], mode="bilinear")
    windows = torch.stack([scenes[..., step * t : step * t + width] for t in range(length)], dim=1)
    depth = torch.linspace(1.0, 0.1, height)[:, None].expand(height, width)
    transmission = torch.exp(-3.0 * rand(count, 1, 1, 1, 1) * depth)
    airlight = 0.5 + 0.5 * rand(count, 1, 3, 1, 1)
    return windows * transmission + airlight * (1.0 - transmission)


def why_dead(model: LiBrANet) -> str | None:
    """Say in one sentence which part of a trained network is dead, or None. Takes seconds."""
    windows = probe_windows(model)
    for name, share in live_units(model, windows).items():
        if share < MIN_LIVE:
            return f"the {name} field is dead: {share:.0%} of its head's hidden units are live, expected {MIN_LIVE:.0%}"
    if model.temporal is not None and model.config.window > 1 and neighbour_effect(model, windows[:2]) == 0.0:
        return "the temporal field is dead: other neighbours change not one bit of the output"
    share = gradient_share(model, windows[:1])
    if share < MIN_REACHED:
        return f"a part is dead: {share:.0%} of the parameters have a gradient, expected {MIN_REACHED:.0%}"
    return None
