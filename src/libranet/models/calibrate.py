"""Making a strength permanent."""

import torch

from libranet.models.libranet import LiBrANet


@torch.no_grad()
def bake_strength(model: LiBrANet, strength: float) -> None:
    """Change the weights so that the network at strength 1 does what it did at `strength`.

    Strength multiplies what the last layers of the grid heads and of the refiner give, so it can go into their weights.
    """
    for part in (model.chromatic, model.temporal):
        if part is not None:
            part.head.project.weight.mul_(strength)
            part.head.project.bias.mul_(strength)  # type: ignore[union-attr]
    if model.refiner is not None:
        model.refiner.project.weight.mul_(strength)
        model.refiner.project.bias.mul_(strength)  # type: ignore[union-attr]
