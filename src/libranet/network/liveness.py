"""Are the heads of a network alive? A field whose head is dead gives the same grid for every input."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from libranet.network.layers import GridHead
from libranet.network.libranet import LiBrANet

LIVE_ABOVE = -1.0
"""A unit counts as live if its value before GELU exceeds this somewhere; below -4, GELU and its slope are zero."""
MIN_LIVE = 0.9  # share of live units under which a part counts as dead


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
