"""Grid heads that learn the affine transform about a grey level instead of about black.

A hazy pixel lies near the airlight, far from black. There the matrix and the translation of A I + b change the image
in almost the same way, and gradient descent settles on the translation alone. Predicting b' with b = b' - pivot M 1,
that is I + M (I - pivot) + b' to first order, separates contrast from brightness. The change is linear in the heads'
last convolutions, so a checkpoint holds ordinary weights: `fold_heads` folds the pivot into them.
"""

import copy

import torch
from torch import Tensor

from libranet.models import LiBrANet, Network
from libranet.models.layers import COEFFICIENTS, GridHead


class CentredHead(GridHead):
    """A head that computes the same as an ordinary one and whose translations are relative to the pivot."""

    def __init__(self, head: GridHead, *, bins: int, pivot: float) -> None:
        """Take over the weights of an ordinary head; `bins` is how many cells its grids have along the guide."""
        super().__init__(*_sizes(head))
        self.bins, self.pivot = bins, pivot
        _take_over(self, head, bins=bins, amount=pivot)

    def forward(self, features: Tensor) -> Tensor:
        return _shift_translations(super().forward(features), self.bins, -self.pivot, dim=1)

    def fold(self) -> GridHead:
        """Return an ordinary head that computes the same."""
        plain = GridHead(*_sizes(self))
        _take_over(plain, self, bins=self.bins, amount=-self.pivot)
        return plain


def centre_heads(model: LiBrANet, pivot: float) -> None:
    """Put centred heads in the place of the network's heads. What the network computes stays the same."""
    if model.chromatic is not None:
        model.chromatic.head = CentredHead(model.chromatic.head, bins=model.chromatic.bins, pivot=pivot)
    if model.temporal is not None:
        model.temporal.head = CentredHead(model.temporal.head, bins=1, pivot=pivot)


def fold_heads(model: Network) -> Network:
    """Return a copy with ordinary heads that computes the same; a network without such heads is returned as it is."""
    if not isinstance(model, LiBrANet):
        return model
    plain = copy.deepcopy(model)
    for field in (plain.chromatic, plain.temporal):
        if field is not None and isinstance(field.head, CentredHead):
            field.head = field.head.fold()
    return plain


def _sizes(head: GridHead) -> tuple[int, int, int, float]:
    """The arguments a head was made with."""
    return head.expand.in_channels, head.expand.out_channels, head.project.out_channels, head.dropout.p


def _take_over(head: GridHead, other: GridHead, *, bins: int, amount: float) -> None:
    """Copy another head's weights, with translations shifted by `amount` times the matrix's row sums."""
    head.to(other.project.weight.device).train(other.training).requires_grad_(other.project.weight.requires_grad)
    state = other.state_dict()
    for name in ("project.weight", "project.bias"):
        state[name] = _shift_translations(state[name], bins, amount, dim=0)
    head.load_state_dict(state)


def _shift_translations(coefficients: Tensor, bins: int, amount: float, *, dim: int) -> Tensor:
    """Add `amount` times the matrix's row sums to the translation, along an axis of (grids, 12, bins) channels."""
    parts = coefficients.unflatten(dim, (-1, COEFFICIENTS, bins))
    axis = dim + 1
    matrix, translation = parts.narrow(axis, 0, 9), parts.narrow(axis, 9, 3)
    moved = translation + amount * matrix.unflatten(axis, (3, 3)).sum(dim=axis + 1)
    return torch.cat([matrix, moved], dim=axis).flatten(dim, dim + 2)
