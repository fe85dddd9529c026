"""The training objective: pixel loss, perceptual loss, Lie regulariser, and our colour and consistency terms."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError
from libranet.extension import is_own, load_own
from libranet.losses.perceptual import DINOV2_HUB_ID, DinoV2Features, FeatureExtractor, PerceptualLoss, VggFeatures
from libranet.network.base import Predicted
from libranet.network.libranet import Grids

COLOUR_CELL, CONSISTENCY_CELL = 16, 8
"""Pixels, each way, over which the colour term averages colours, and the consistency term errors."""
HAZE = 0.04  # change by haze from which on its direction counts
CONTRAST_SCALE, CONTRAST_CELL = 4, 8
"""The contrast term looks at frames reduced by this much, in cells of so many of their pixels."""
FLAT = 0.01  # deviation of luma up to which a place counts as flat


@dataclass(frozen=True)
class LieWeights:
    """How much each penalty counts inside the Lie regulariser. The defaults are the paper's."""

    identity: float = 0.01
    """Keeps the matrices near zero, hence the transforms near the identity."""
    spatial: float = 0.05
    """Keeps neighbouring cells alike."""
    temporal: float = 0.10
    """Keeps the planes of consecutive frames alike."""
    guide: float = 0.02
    """Keeps the red-guided and the green-guided grid alike."""


@dataclass(frozen=True)
class ExtraTerm:
    """A term of your own."""

    term: str = ""
    """`package.module:function`, called with the prediction (`libranet.network.base.Predicted`) and the clear images,
    [B, 3, H, W]; or a class, called without arguments, whose objects are."""
    weight: float = 1.0
    name: str = ""  # its key in the log; by default the function's or class's name

    def __post_init__(self) -> None:
        if not is_own(self.term):
            raise InputError(f"expected term = package.module:name in [[loss.extra]], got {self.term!r}")

    @property
    def key(self) -> str:
        return self.name or self.term.partition(":")[2]


@dataclass(frozen=True)
class FogWeights:
    """Terms that keep a network from doing little where dense fog leaves it unsure. None is in the paper."""

    contrast: float = 0.0
    """Weight of the contrast term: how far the logarithms of local contrast are apart, in the frame and in the reduced
    frame that the colour field alone restores. A network that is not sure what is behind dense haze makes the pixel
    loss small by guessing little contrast; this term asks for as much as the truth has."""
    leftover: float = 0.0
    """How much more haze that is left counts than haze that is cleared too far, 0 to 1. Where a network cannot know, it
    then clears rather more than half. Of haze made on the fly only what looks like real footage is judged so: that of
    data sets can be known."""

    def __post_init__(self) -> None:
        if not 0 <= self.leftover <= 1:
            raise InputError(f"expected loss.fog.leftover from 0 to 1, got {self.leftover}")


@dataclass(frozen=True)
class LossConfig:
    """Which terms the objective has, and their weights."""

    perceptual: Literal["none", "dinov2", "vgg16", "vgg19"] = "dinov2"
    """Feature extractor of the perceptual term; "none" trains without it, and the checkpoint says so."""
    perceptual_source: str = ""
    """Path of its weights, or a hub id for DINOv2. Empty means the hub's DINOv2 ViT-S/14."""
    perceptual_taps: int = 5  # blocks of VGG that count, from the image on
    perceptual_crop: int = 0
    """Side of the square in the middle on which the perceptual term looks; 0 looks at the whole crop."""
    perceptual_weight: float = 0.04
    pixel_weight: float = 1.0
    extra: tuple[ExtraTerm, ...] = field(default_factory=tuple)
    """Terms of your own, added to the others: [[loss.extra]] in a recipe, once for each."""
    lie_weight: float = 0.2
    lie: LieWeights = field(default_factory=LieWeights)
    """Weights of the four penalties inside the Lie regulariser."""
    fog: FogWeights = field(default_factory=FogWeights)
    """Terms for dense fog, where a network cannot know what is hidden."""
    charbonnier_epsilon: float = 1e-3
    colour_weight: float = 0.0
    """Weight of the pixel loss between means over 16x16 pixels; not in the paper. Texture hides a wrong colour from the
    pixel loss, not from this one."""
    field_weight: float = 0.0
    """Weight of the pixel loss of the reduced frame that the colour field alone restores; not in the paper. Without it
    the refiner may learn to clear haze by itself, which no filter over time and no analysis of the grids can see."""
    consistency_weight: float = 0.0
    """Weight of temporal consistency: how much the errors of consecutive frames differ, as means over 8x8 pixels; not
    in the paper. Above 0 a batch consists of pairs of consecutive frames, and its size has to be even."""

    def __post_init__(self) -> None:
        if not 1 <= self.perceptual_taps <= 5:
            raise InputError(f"expected perceptual_taps from 1 to 5, got {self.perceptual_taps}")
        if self.perceptual_crop < 0:
            raise InputError(f"expected perceptual_crop of at least 0, got {self.perceptual_crop}")
        keys = [term.key for term in self.extra]
        if taken := (set(keys) & _LOG_KEYS) | {key for key in keys if keys.count(key) > 1}:
            raise InputError(f"two terms of the loss are called {min(taken)!r}: set another name in [[loss.extra]]")


@dataclass(frozen=True)
class LieTerms:
    """The unweighted penalties, for the log, and their weighted sum, for the loss. All scalars."""

    identity: Tensor
    spatial: Tensor
    temporal: Tensor
    guide: Tensor
    total: Tensor


@dataclass(frozen=True)
class LossTerms:
    """One step's loss and its terms. All scalars, unweighted but for the total."""

    total: Tensor
    pixel: Tensor
    colour: Tensor
    field: Tensor
    contrast: Tensor
    consistency: Tensor
    perceptual: Tensor
    lie: LieTerms
    extra: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    """Terms of the user's own by their keys in the log."""

    def scalars(self) -> dict[str, float]:
        terms = vars(self) | {f"lie_{name}": value for name, value in vars(self.lie).items()}
        terms["lie"] = terms.pop("lie_total")
        terms |= terms.pop("extra")
        return {name: float(value.detach()) for name, value in terms.items()}


class Objective:
    """The weighted sum of the configured terms."""

    def __init__(self, config: LossConfig, device: torch.device) -> None:
        self.config = config
        extractor = _build_extractor(config)
        self.perceptual = None if extractor is None else PerceptualLoss(extractor).to(device)
        self.extra = {term.key: (term.weight, _own_term(term.term, device)) for term in config.extra}

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
        hazy: Tensor | None = None,  # [B, 3, H, W], the frames that were restored: `fog.leftover` asks for them
        filmed: Tensor | None = None,  # [B], 1 where they look like real footage; None counts as all
    ) -> LossTerms:
        c = self.config
        weights = None
        if hazy is not None and c.fog.leftover:
            weights = _leftover(hazy, clear, c.fog.leftover)
            weights = weights if filmed is None else weights * filmed.view(-1, 1, 1, 1)
        pixel = charbonnier(prediction.image, clear, epsilon=c.charbonnier_epsilon, lean=weights)
        colour = field_error = contrast = consistency = perceptual = pixel.new_zeros(())
        if c.colour_weight:
            means = (F.avg_pool2d(image.float(), COLOUR_CELL) for image in (prediction.image, clear))
            lean = None if weights is None else F.avg_pool2d(weights, COLOUR_CELL)
            colour = charbonnier(*means, epsilon=c.charbonnier_epsilon, lean=lean)
        if c.field_weight and prediction.small is not None:
            wanted = F.interpolate(clear, size=prediction.small.shape[-2:], mode="area")
            field_error = charbonnier(prediction.small, wanted, epsilon=c.charbonnier_epsilon)
        if c.fog.contrast:
            contrast = _contrast_error(prediction, clear)
        if c.consistency_weight:
            error = F.avg_pool2d(prediction.image.float() - clear, CONSISTENCY_CELL)
            consistency = charbonnier(error[0::2], error[1::2], epsilon=c.charbonnier_epsilon)
        if self.perceptual is not None:
            perceptual = self.perceptual(*(self._middle(image) for image in (prediction.image, clear)))
        lie = (
            LieTerms(*[pixel.new_zeros(())] * 5)
            if prediction.grids is None
            else lie_regulariser(prediction.grids, c.lie)
        )
        weighted = pixel if c.pixel_weight == 1.0 else c.pixel_weight * pixel
        total = weighted + c.perceptual_weight * perceptual + c.lie_weight * lie.total
        total = total + c.colour_weight * colour + c.field_weight * field_error + c.consistency_weight * consistency
        total = total if not c.fog.contrast else total + c.fog.contrast * contrast
        extra = {key: _scalar(key, term(prediction, clear)) for key, (_, term) in self.extra.items()}
        for key, value in extra.items():
            total = total + self.extra[key][0] * value
        return LossTerms(total, pixel, colour, field_error, contrast, consistency, perceptual, lie, extra)

    def _middle(self, images: Tensor) -> Tensor:  # [B, 3, h, w]
        """The part of the images that the perceptual term looks at."""
        side = self.config.perceptual_crop
        if not side:
            return images
        top, left = (max(length - side, 0) // 2 for length in images.shape[-2:])
        return images[..., top : top + side, left : left + side]


def charbonnier(
    prediction: Tensor, target: Tensor, *, epsilon: float = 1e-3, lean: Tensor | None = None
) -> Tensor:  # []
    """Mean of sqrt(difference^2 + epsilon^2): L1 with a rounded tip.

    Args:
        lean: Relative excess, in [-1, 1], of the weight of positive differences over that of negative ones.
    """
    dtype = torch.promote_types(prediction.dtype, torch.float32)  # sixteen bits cannot hold epsilon squared
    difference = prediction.to(dtype) - target.to(dtype)
    distance = torch.sqrt(difference.square() + epsilon**2)
    return (distance if lean is None else distance * (1 + lean * difference.detach().sign())).mean()


def _leftover(hazy: Tensor, clear: Tensor, weight: float) -> Tensor:  # [B, 3, H, W] in [-weight, weight]
    """Which way haze moved each pixel; an error that points there is haze that was left."""
    haze = F.avg_pool2d(F.pad(hazy.float() - clear, (4, 4, 4, 4), mode="replicate"), 9, stride=1)
    return weight * torch.tanh(haze / HAZE)


def _contrast_error(prediction: Predicted, clear: Tensor) -> Tensor:  # []
    wanted = _log_contrast(F.avg_pool2d(clear.float(), CONTRAST_SCALE))
    found = [F.avg_pool2d(_unsaturated(prediction.image), CONTRAST_SCALE)]
    if prediction.small is not None and prediction.small.shape[-2:] == found[0].shape[-2:]:
        found.append(_unsaturated(prediction.small))
    return torch.stack([(_log_contrast(image) - wanted).abs().mean() for image in found]).mean()


def _unsaturated(image: Tensor) -> Tensor:
    """The image, without gradients where it is black or white: more contrast cannot be had there, and the clamp, which
    lets gradients through, would take pixels ever farther out for it."""
    image = image.float()
    return torch.where((image > 0) & (image < 1), image, image.detach())


def _log_contrast(image: Tensor) -> Tensor:  # [B, 3, h, w] -> [B, 1, n, m]
    """The logarithm of luma's standard deviation in overlapping cells."""
    red, green, blue = image.unbind(1)
    luma = (0.299 * red + 0.587 * green + 0.114 * blue)[:, None]
    luma = luma - F.avg_pool2d(luma, CONTRAST_CELL + 1, 1, CONTRAST_CELL // 2, count_include_pad=False)
    variance = F.avg_pool2d(luma.square(), CONTRAST_CELL, CONTRAST_CELL // 2)
    return 0.5 * (variance + FLAT**2).log()


def lie_regulariser(grids: Grids, weights: LieWeights | None = None) -> LieTerms:
    """Penalise the bilateral grids of a batch, before the Cayley map.

    Each penalty is a mean over the entries it looks at, so its weight does not depend on the size of the grids. A
    variant without one of the fields has no penalty where that field is missing.
    """
    weights = weights or LieWeights()
    chromatic = None if grids.chromatic is None else grids.chromatic.float()  # [B, 2, 12, D, gh, gw]
    temporal = None if grids.temporal is None else grids.temporal.float()  # [B, 12, T, gh, gw]
    present = [grid for grid in (chromatic, temporal) if grid is not None]
    zero = present[0].new_zeros(())

    matrices = [] if chromatic is None else [chromatic[:, :, :9]]
    matrices += [] if temporal is None else [temporal[:, :9]]
    identity = torch.stack([m.square().mean() for m in matrices]).mean()
    spatial = torch.stack([_mean_square_step(grid, -1) + _mean_square_step(grid, -2) for grid in present]).mean()
    along_time = zero if temporal is None else _mean_square_step(temporal, 2)
    guide = zero if chromatic is None else (chromatic[:, 0] - chromatic[:, 1]).abs().mean()
    total = (
        weights.identity * identity + weights.spatial * spatial + weights.temporal * along_time + weights.guide * guide
    )
    return LieTerms(identity, spatial, along_time, guide, total)


def _mean_square_step(grid: Tensor, dim: int) -> Tensor:  # []
    """Mean squared difference of neighbours along one axis; an axis of length one has none."""
    return grid.diff(dim=dim).square().mean() if grid.shape[dim] > 1 else grid.new_zeros(())


_LOG_KEYS = {f.name for f in fields(LossTerms)} | {f"lie_{f.name}" for f in fields(LieTerms)} | {"psnr"}


def _own_term(name: str, device: torch.device) -> Callable[[Predicted, Tensor], Tensor]:
    found = load_own(name)
    made = found() if isinstance(found, type) else found
    if not callable(made):
        raise InputError(f"expected {name} to be a function or a class with __call__, got {type(made).__name__}")
    return made.to(device) if isinstance(made, torch.nn.Module) else made


def _scalar(key: str, value: Tensor) -> Tensor:  # []
    if not isinstance(value, Tensor) or value.numel() != 1:
        found = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"expected the loss term {key} to return one number as a tensor, got {found}")
    return value.reshape(())


def _build_extractor(config: LossConfig) -> FeatureExtractor | None:
    if config.perceptual == "none":
        return None
    if config.perceptual == "dinov2":
        return DinoV2Features(config.perceptual_source or DINOV2_HUB_ID)
    if not config.perceptual_source:
        raise InputError(f'perceptual = "{config.perceptual}" needs perceptual_source, the path of its weights')
    depth: Literal[16, 19] = 16 if config.perceptual == "vgg16" else 19
    return VggFeatures(config.perceptual_source, depth=depth, taps=config.perceptual_taps)
