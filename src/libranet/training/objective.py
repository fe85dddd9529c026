"""The training objective, put together from its terms."""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError
from libranet.losses.charbonnier import charbonnier
from libranet.losses.lie import LieTerms, lie_regulariser
from libranet.losses.perceptual import DINOV2_HUB_ID, DinoV2Features, FeatureExtractor, PerceptualLoss, VggFeatures
from libranet.models.libranet import Grids
from libranet.training.config import LossConfig

COLOUR_CELL, STEADY_CELL = 16, 8
"""Pixels, each way, over which colours are averaged for the colour term, and errors for the steady term."""


@dataclass(frozen=True)
class LossTerms:
    """One step's loss and what it is made of. All scalars, unweighted but for the total."""

    total: Tensor
    pixel: Tensor
    colour: Tensor
    steady: Tensor
    perceptual: Tensor
    lie: LieTerms

    def scalars(self) -> dict[str, float]:
        """For the log."""
        terms = {name: getattr(self, name) for name in ("total", "pixel", "colour", "steady", "perceptual")}
        terms["lie"] = self.lie.total
        terms |= {f"lie_{name}": getattr(self.lie, name) for name in ("identity", "spatial", "temporal", "guide")}
        return {name: float(value.detach()) for name, value in terms.items()}


class Predicted(Protocol):
    """What the loss looks at: a `Restoration`, or what the fused training pass gives."""

    @property
    def image(self) -> Tensor: ...  # [B, 3, H, W] in [0, 1]
    @property
    def grids(self) -> Grids: ...


class Objective:
    """Charbonnier, perceptual term and Lie regulariser, and our colour and steady terms, weighted as configured."""

    def __init__(self, config: LossConfig, device: torch.device) -> None:
        self.config = config
        extractor = _build_extractor(config)
        self.perceptual = None if extractor is None else PerceptualLoss(extractor).to(device)

    @property
    def warning(self) -> str:
        """What a reader of the log and of the checkpoint must know; empty if nothing."""
        if self.perceptual is None:
            return 'trained WITHOUT a perceptual term (perceptual = "none"): not the paper\'s objective'
        if self.config.perceptual != "dinov2":
            return f"perceptual term over {self.config.perceptual} features instead of the paper's DINOv2"
        return ""

    def __call__(
        self,
        prediction: Predicted,
        clear: Tensor,  # [B, 3, H, W]
    ) -> LossTerms:
        c = self.config
        pixel = charbonnier(prediction.image, clear, epsilon=c.charbonnier_epsilon)
        colour = steady = perceptual = pixel.new_zeros(())
        if c.colour_weight:
            means = (F.avg_pool2d(image.float(), COLOUR_CELL) for image in (prediction.image, clear))
            colour = charbonnier(*means, epsilon=c.charbonnier_epsilon)
        if c.steady_weight:
            error = F.avg_pool2d(prediction.image.float() - clear, STEADY_CELL)
            steady = charbonnier(error[0::2], error[1::2], epsilon=c.charbonnier_epsilon)
        if self.perceptual is not None:
            perceptual = self.perceptual(*_same_square(prediction.image, clear, c.perceptual_crop))
        lie = lie_regulariser(prediction.grids, c.lie)
        total = pixel + c.perceptual_weight * perceptual + c.lie_weight * lie.total
        total = total + c.colour_weight * colour + c.steady_weight * steady
        return LossTerms(total, pixel, colour, steady, perceptual, lie)


def _same_square(a: Tensor, b: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Cut the same random square out of two batches of images; side 0 keeps them whole."""
    height, width = a.shape[-2:]
    if side == 0 or side >= min(height, width):
        return a, b
    # The place stays on the device: a recorded step draws it anew.
    rows, columns = (
        torch.randint(size - side + 1, (), device=a.device) + torch.arange(side, device=a.device)
        for size in (height, width)
    )
    return tuple(image.index_select(-2, rows).index_select(-1, columns) for image in (a, b))  # type: ignore[return-value]


def _build_extractor(config: LossConfig) -> FeatureExtractor | None:
    if config.perceptual == "none":
        return None
    if config.perceptual == "dinov2":
        return DinoV2Features(config.perceptual_source or DINOV2_HUB_ID)
    if not config.perceptual_source:
        raise InputError(f'perceptual = "{config.perceptual}" needs perceptual_source, the path of its weights')
    return VggFeatures(
        config.perceptual_source, depth=16 if config.perceptual == "vgg16" else 19, taps=config.perceptual_taps
    )
