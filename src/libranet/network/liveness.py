"""Is every part of a network alive? A field whose head is dead gives the same grid for every input."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.network.layers import GridHead
from libranet.network.libranet import LiBrANet

LIVE_ABOVE = -1.0
"""A unit counts as live if its value before GELU exceeds this somewhere; below -4, GELU and its slope are zero."""
MIN_LIVE = 0.9  # share of live units under which a part counts as dead
MIN_REACHED = 0.8
"""Share of parameters with a gradient under which a part counts as dead. A few never have one, such as key biases."""


@torch.no_grad()
def live_units(
    model: LiBrANet,
    frames: Tensor,  # [B, T, 3, H, W] in [0, 1], or [B, 1, 3, H, W] with `still`
    *,
    still: bool = False,
) -> dict[str, float]:
    """The share of live hidden units in the head of each field, over some windows: the more varied, the fairer."""
    with _highest_values(model) as found:
        model.predict_grids(frames, still=still)
    return {name: float((highest > LIVE_ABOVE).float().mean()) for name, highest in found.items()}


@torch.no_grad()
def neighbour_effect(model: LiBrANet, frames: Tensor) -> float:  # [B, T, 3, H, W] in [0, 1], B at least 2
    """Mean change of the output, in levels of 255, when the neighbours come from the next window of the batch."""
    middle = frames.shape[1] // 2
    wrong = frames.roll(1, 0)
    wrong[:, middle] = frames[:, middle]
    return float((model(frames) - model(wrong)).abs().mean()) * 255


def gradient_share(model: LiBrANet, frames: Tensor) -> float:  # [B, T, 3, H, W] in [0, 1]
    """The share of the parameters that the output's error reaches: those with a gradient that is not zero."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with torch.enable_grad():
        error = (model.predict(frames).image - frames[:, frames.shape[1] // 2]).square().mean()
        gradients = torch.autograd.grad(error, parameters, allow_unused=True)
    reached = sum(int(gradient.count_nonzero()) for gradient in gradients if gradient is not None)
    return reached / sum(parameter.numel() for parameter in parameters)


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


@contextmanager
def _highest_values(model: LiBrANet) -> Iterator[dict[str, Tensor]]:
    """Note the highest value of every hidden unit before its activation while the block runs."""
    found: dict[str, Tensor] = {}
    fields = {"chromatic": model.chromatic, "temporal": model.temporal}
    hooks = [
        _unit_layer(field.head).register_forward_hook(
            lambda _, __, out, name=name: found.__setitem__(name, out.detach().float().amax(dim=(0, 2, 3)))
        )
        for name, field in fields.items()
        if field is not None
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _unit_layer(head: GridHead) -> torch.nn.Module:
    """The last layer before the head's activation."""
    layers = [layer for name, layer in head.named_children() if name not in ("dropout", "project")]
    return layers[-1]
