"""Everything that defines a training run, as frozen dataclasses. `recipe.py` fills them from TOML."""

from dataclasses import dataclass, field
from typing import Literal

from libranet.errors import InputError
from libranet.losses.lie import LieWeights
from libranet.models.libranet import LiBrANetConfig
from libranet.training.haze_config import HazeConfig

Precision = Literal["fp32", "bf16", "fp16"]
Perceptual = Literal["none", "dinov2", "vgg16", "vgg19"]


@dataclass(frozen=True)
class OptimiserConfig:
    """AdamW with linear warm-up and a cosine to the end."""

    lr: float = 1.5e-4
    """Peak learning rate."""
    weight_decay: float = 1e-4
    """Decay of weight tensors; biases, norms and the temporal position have none."""
    warmup: float = 0.025
    """Share of all steps in which the learning rate rises. The paper's 5 of 200 epochs."""
    final_lr: float = 0.0
    """Learning rate at the last step, as a share of the peak."""
    clip: float = 1.0
    """Largest norm of the gradient."""

    def __post_init__(self) -> None:
        if not (self.lr > 0 and self.clip > 0):
            raise InputError(f"expected positive lr and clip, got lr={self.lr} and clip={self.clip}")
        if not (0 <= self.warmup < 1 and 0 <= self.final_lr <= 1):
            raise InputError(f"expected warmup and final_lr in [0, 1], got {self.warmup} and {self.final_lr}")


@dataclass(frozen=True)
class LossConfig:
    """The objective: pixel + lie_weight * Lie regulariser, and the same with perceptual, colour and steady."""

    perceptual: Perceptual = "dinov2"
    """Feature extractor of the perceptual term; "none" trains without it, and the checkpoint says so."""
    perceptual_source: str = ""
    """Path of its weights, or a hub id for DINOv2. Empty means the hub's DINOv2 ViT-S/14."""
    perceptual_taps: int = 5
    """How many of VGG's five blocks are compared."""
    perceptual_crop: int = 0
    """Side of the random square on which features are compared; 0 takes the whole crop, as the paper does."""
    perceptual_weight: float = 0.04
    lie_weight: float = 0.2
    lie: LieWeights = field(default_factory=LieWeights)
    """Weights of the four penalties inside the Lie regulariser."""
    charbonnier_epsilon: float = 1e-3
    colour_weight: float = 0.0
    """Weight of the pixel loss between means over 16x16 pixels; not in the paper. Texture hides a wrong colour from the
    pixel loss, not from this one."""
    steady_weight: float = 0.0
    """Weight of how much the errors of consecutive frames differ, as means over 8x8 pixels; not in the paper. Above 0 a
    batch consists of pairs of consecutive frames, and its size has to be even."""


@dataclass(frozen=True)
class PhotoSourceConfig:
    """Clear photos and rendered scenes on the device, hazed on the fly."""

    folders: tuple[str, ...] = ()
    """Folders of clear photos (JPEG or PNG)."""
    depth: str = ""
    """Folder of depth maps `<folder name>__<photo stem>.png`, 0 near to 255 far; photos without one get priors."""
    scenes: int = 0
    """Procedural scenes to render before training, with exact depth."""
    scene_views: int = 1
    """Frames rendered of each scene."""
    scene_share: float = 0.25
    """Share of the samples that come from rendered scenes, where both kinds are there."""
    lines: int = 720
    """Height to which photos are brought; a crop covers most of it, so the encoder sees nearly the whole photo."""
    haze: HazeConfig = field(default_factory=HazeConfig)


@dataclass(frozen=True)
class PairedSourceConfig:
    """A data set on disk with hazy and clear frames."""

    path: str = ""
    """Folder of the data set."""
    layout: Literal["uhv4k", "revide", "hazeworld", "folders"] = "uhv4k"
    """Which layout the folder has."""
    workers: int = 4
    """Processes that read and decode."""


@dataclass(frozen=True)
class ValidationConfig:
    """Pairs on which checkpoints are compared. With several folders, the mean of the folders' means decides."""

    hazy: tuple[str, ...] = ()
    """Folders of hazy images; none means no validation."""
    clear: tuple[str, ...] = ()
    """Folders of the clear images of the same names, one for each."""
    limit: int = 0
    """How many pairs of each folder to use; 0 means all."""

    def __post_init__(self) -> None:
        if len(self.hazy) != len(self.clear):
            raise InputError(
                f"expected as many clear as hazy folders in [validation], got {len(self.clear)} and {len(self.hazy)}"
            )


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    name: str = "run"
    seed: int = 0
    steps: int = 1000
    """Optimiser steps; 0 with `epochs` given means that many passes over a paired data set."""
    epochs: int = 0
    """Passes over a paired data set, used when `steps` is 0."""
    batch: int = 16
    """Samples per step, over all processes."""
    crops: tuple[tuple[int, int], ...] = ((512, 512),)
    """(height, width) of training crops; with several, each step takes the next one."""
    precision: Precision = "bf16"
    ema: float = 0.999
    """Decay of the averaged weights, which are the ones that count."""
    fused: bool = True
    """Train on our kernels, in a CUDA graph, where GPU and network allow; `libranet doctor` says whether they do."""
    pivot: float = 0.0
    """Grey level about which the heads learn the affine transform (`centred_heads`); 0 learns it about black."""
    log_every: int = 20
    checkpoint_every: int = 500
    validate_every: int = 500
    """Steps between validations and pictures."""
    max_bad_steps: int = 10
    """Consecutive steps with a non-finite loss after which the run stops."""
    init_from: str = ""
    """A checkpoint to start from."""
    model: LiBrANetConfig = field(default_factory=LiBrANetConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    photos: PhotoSourceConfig | None = None
    paired: PairedSourceConfig | None = None
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    def __post_init__(self) -> None:
        if (self.photos is None) == (self.paired is None):
            raise InputError("expected exactly one of [photos] and [paired] in a recipe")
        if self.steps <= 0 and (self.paired is None or self.epochs <= 0):
            raise InputError(
                f"expected steps, or epochs over a paired set, got steps={self.steps}, epochs={self.epochs}"
            )
        for name in ("batch", "log_every", "checkpoint_every", "validate_every", "max_bad_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if not self.crops or any(len(crop) != 2 or min(crop) < 32 for crop in self.crops):
            raise InputError(f"expected crops as [height, width] of at least 32, got {self.crops}")
        if self.loss.steady_weight and (self.photos is None or self.batch % 2):
            raise InputError(f"expected [photos] and an even batch with loss.steady_weight, got batch={self.batch}")
        if not 0 <= self.ema < 1:
            raise InputError(f"expected ema in [0, 1), got {self.ema}")
