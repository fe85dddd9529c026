"""Grid heads that learn the affine transform about a grey level instead of about black.

A hazy pixel lies near the airlight, far from black: there the matrix and the translation of A I + b change the picture
in almost the same way, and gradient descent settles on the translation alone. Predicting b' with b = b' - pivot M 1,
that is I + M (I - pivot) + b' to first order, separates contrast from brightness. It is linear in the heads' last
convolutions, so a checkpoint holds ordinary weights: `uncentred` folds the pivot into them.
"""

import copy

import torch
from torch import Tensor

from libranet.models.fields import COEFFICIENTS, GridHead
from libranet.models.libranet import LiBrANet


class CentredHead(GridHead):
    """A head whose translations are relative to the pivot."""

    pivot: float
    bins: int

    def forward(self, features: Tensor) -> Tensor:
        return shift_translations(super().forward(features), self.bins, -self.pivot, dim=1)


def shift_translations(coefficients: Tensor, bins: int, amount: float, *, dim: int) -> Tensor:
    """Add `amount` times the matrix's row sums to the translation, along an axis of (grids, 12, bins) channels."""
    parts = coefficients.unflatten(dim, (-1, COEFFICIENTS, bins))
    axis = dim + 1
    matrix, translation = parts.narrow(axis, 0, 9), parts.narrow(axis, 9, 3)
    moved = translation + amount * matrix.unflatten(axis, (3, 3)).sum(dim=axis + 1)
    return torch.cat([matrix, moved], dim=axis).flatten(dim, dim + 2)


def centre_heads(model: LiBrANet, pivot: float) -> LiBrANet:
    """Make the heads relative to the pivot, in place, without changing what the network computes."""
    for head, bins in _heads(model):
        _shift_weights(head, bins, pivot)
        head.__class__ = CentredHead
        head.pivot, head.bins = pivot, bins  # type: ignore[assignment]
    return model


def uncentred(model: LiBrANet) -> LiBrANet:
    """A copy with ordinary heads that computes the same."""
    plain = copy.deepcopy(model)
    for head, bins in _heads(plain):
        if isinstance(head, CentredHead):
            _shift_weights(head, bins, -head.pivot)
            head.__class__ = GridHead  # type: ignore[assignment]
    return plain


def _heads(model: LiBrANet) -> list[tuple[GridHead, int]]:
    heads: list[tuple[GridHead, int]] = []
    if model.chromatic is not None:
        heads.append((model.chromatic.head, model.chromatic.bins))
    if model.temporal is not None:
        heads.append((model.temporal.head, 1))
    return heads


@torch.no_grad()
def _shift_weights(head: GridHead, bins: int, amount: float) -> None:
    for parameter in (head.project.weight, head.project.bias):
        assert parameter is not None
        parameter.copy_(shift_translations(parameter, bins, amount, dim=0))
