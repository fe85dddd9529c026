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
from libranet.losses.fog_density import FogDensity, by_gain_and_offset
from libranet.losses.perceptual import DINOV2_HUB_ID, DinoV2Features, FeatureExtractor, PerceptualLoss, VggFeatures
from libranet.network.base import Predicted
from libranet.network.libranet import Grids

COLOUR_CELL, CONSISTENCY_CELL = 16, 8
"""Pixels, each way, over which the colour term averages colours, and the consistency term errors."""
TINY = 1e-8
CLEAR = (0.15, 0.4)
"""FADE under which nobody sees fog, and over which some is seen: no truth asks for less, or is content with more."""


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

    density: float = 0.0
    """Weight of the density term: by how much the logarithm of FADE, the fog that people see, exceeds the truth's. A
    network that is not sure what is behind dense haze makes the pixel loss small by guessing little contrast; this
    term asks it to clear as far as the truth is clear. Of haze made on the fly only what looks like real footage is
    judged so."""
    structure: float = 0.0
    """Weight of the structure term: how much of a frame is no gain and offset of the hazy one. It stands against the
    density term, and goes with it."""
    reduce: int = 2
    """How many times smaller the frames are made on which the density is judged: at full size, the blocks of a codec
    and noise would be worth enlarging."""
    density_source: str = ""
    """Path of FADE's parameters."""

    def __post_init__(self) -> None:
        if self.structure and not self.density:
            raise InputError(f"loss.fog.structure is {self.structure} without loss.fog.density: set both, or neither")
        if self.reduce < 1:
            raise InputError(f"expected loss.fog.reduce of at least 1, got {self.reduce}")


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
    density: Tensor
    structure: Tensor
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
        self.density = FogDensity(config.fog.density_source).to(device) if config.fog.density else None
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
        hazy: Tensor | None = None,  # [B, 3, H, W], the frames that were restored: `fog.density` asks for them
        filmed: Tensor | None = None,  # [B], 1 where they look like real footage; None counts as all
    ) -> LossTerms:
        c = self.config
        pixel = charbonnier(prediction.image, clear, epsilon=c.charbonnier_epsilon)
        colour = field_error = density = structure = consistency = perceptual = pixel.new_zeros(())
        if c.colour_weight:
            means = (F.avg_pool2d(image.float(), COLOUR_CELL) for image in (prediction.image, clear))
            colour = charbonnier(*means, epsilon=c.charbonnier_epsilon)
        if c.field_weight and prediction.small is not None:
            wanted = F.interpolate(clear, size=prediction.small.shape[-2:], mode="area")
            field_error = charbonnier(prediction.small, wanted, epsilon=c.charbonnier_epsilon)
        if self.density is not None and hazy is not None:
            density, structure = _fog_terms(self.density, prediction.image, clear, hazy, filmed, reduce=c.fog.reduce)
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
        total = total + c.fog.density * density + c.fog.structure * structure
        extra = {key: _scalar(key, term(prediction, clear)) for key, (_, term) in self.extra.items()}
        for key, value in extra.items():
            total = total + self.extra[key][0] * value
        return LossTerms(total, pixel, colour, field_error, density, structure, consistency, perceptual, lie, extra)

    def _middle(self, images: Tensor) -> Tensor:  # [B, 3, h, w]
        """The part of the images that the perceptual term looks at."""
        side = self.config.perceptual_crop
        if not side:
            return images
        top, left = (max(length - side, 0) // 2 for length in images.shape[-2:])
        return images[..., top : top + side, left : left + side]


def charbonnier(prediction: Tensor, target: Tensor, *, epsilon: float = 1e-3) -> Tensor:  # []
    """Mean of sqrt(difference^2 + epsilon^2): L1 with a rounded tip."""
    dtype = torch.promote_types(prediction.dtype, torch.float32)  # sixteen bits cannot hold epsilon squared
    difference = prediction.to(dtype) - target.to(dtype)
    return torch.sqrt(difference.square() + epsilon**2).mean()


def _fog_terms(
    density: FogDensity,
    prediction: Tensor,  # [B, 3, H, W]
    clear: Tensor,  # [B, 3, H, W]
    hazy: Tensor,  # [B, 3, H, W]
    filmed: Tensor | None,  # [B]
    *,
    reduce: int,
) -> tuple[Tensor, Tensor]:  # [] each
    """Excess density and invented structure, means over the batch."""
    # Sixteen bits cannot hold the variances of grey levels.
    with torch.autocast(prediction.device.type, enabled=False):
        prediction, clear, hazy = (images.float() for images in (prediction, clear, hazy))
        unexplained = (prediction - by_gain_and_offset(prediction, hazy).detach()).mean(dim=1)
        structure = (unexplained.square().mean(dim=(1, 2)) + TINY).sqrt()
        prediction, clear, hazy = (F.avg_pool2d(images, reduce) for images in (prediction, clear, hazy))
        with torch.no_grad():
            wanted = density(clear, where=clear).clamp(*CLEAR).log()
        # Only what comes of the hazy frame counts: noise and painted texture look clear to FADE as well.
        found = density(by_gain_and_offset(prediction, hazy), where=clear)
        excess = F.relu(found.clamp_min(CLEAR[0]).log() - wanted)
    if filmed is not None:
        excess, structure = excess * filmed, structure * filmed
    return excess.mean(), structure.mean()


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
