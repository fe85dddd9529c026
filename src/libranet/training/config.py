"""Everything that defines a training run, as frozen dataclasses. `recipe.py` fills them from TOML."""

from dataclasses import dataclass, field
from typing import Literal

from libranet.errors import InputError
from libranet.extension import is_own, lab
from libranet.haze.kinds import HazeConfig
from libranet.losses.objective import LossConfig
from libranet.network.config import LiBrANetConfig


@dataclass(frozen=True)
class PhotoSourceConfig:
    """Clear photos and rendered scenes on the device, hazed on the fly."""

    folders: tuple[str, ...] = ()  # folders of clear photos (JPEG, PNG or WebP)
    depth: str = ""
    """Folder of depth maps `<folder name>__<photo stem>.png`, 0 near to 255 far; photos without one get priors."""
    scenes: int = 0  # procedural scenes to render before training, with exact depth
    scene_views: int = 1  # frames rendered of each scene
    density: str = ""
    """Folder of grey density maps for banks of haze; without it banks lie over the ground only."""
    lines: int = 720
    """Height to which photos are brought; a crop covers most of it, so the encoder sees nearly the whole photo."""
    haze: HazeConfig = field(default_factory=HazeConfig)


@dataclass(frozen=True)
class PairedSourceConfig:
    """A dataset on disk with hazy and clear frames."""

    path: str = ""  # folder of the dataset
    hazy: str = ""
    clear: str = ""  # in place of `path`: the folders of the two sides, under any names
    opener: str = ""
    """Your own reader, `package.module:function`: called with `path`, it returns clips (`libranet.data.PairedClip`) or
    a torch dataset of {"hazy": [T, 3, h, w], "clear": [3, h, w]} in [0, 1]. `layout` is not used then."""
    layout: Literal["uhv4k", "folders", "packed"] = "uhv4k"
    """Which layout the folder has; `folders` is any pair of sides, such as hazy/ and gt/ or input/ and target/, also
    in REVIDE and HazeWorld, and `packed` is what `libranet data pack` made."""
    workers: int = 4  # processes that read and decode

    def __post_init__(self) -> None:
        if bool(self.hazy) != bool(self.clear):
            raise InputError(f"expected both sides in [paired], got hazy={self.hazy!r} and clear={self.clear!r}")
        if self.hazy and (self.path or self.opener):
            raise InputError(f"expected hazy and clear, or a path, in [paired], got {self.hazy} and {self.path}")
        if self.opener and not is_own(self.opener):
            raise InputError(f"expected opener = package.module:function in [paired], got {self.opener!r}")

    @property
    def place(self) -> str:
        """The dataset in words."""
        return f"{self.hazy} and {self.clear}" if self.hazy else self.path or self.opener


@dataclass(frozen=True)
class ValidationConfig:
    """Pairs on which checkpoints are compared. With several folders, the mean of the folders' means decides."""

    hazy: tuple[str, ...] = ()  # folders of hazy images; none means no validation
    clear: tuple[str, ...] = ()  # folders of the clear images of the same names, one for each
    held_out: float = 0.0
    """Share of the clips of a [paired] set, at least one, that are validated on, as video, and never trained on."""
    frames: int = 5  # frames of each held-out clip, from its middle

    def __post_init__(self) -> None:
        if not (0 <= self.held_out < 1 and self.frames >= 1):
            raise InputError(
                f"expected held_out in [0, 1) and frames of at least 1, got {self.held_out} and {self.frames}"
            )
        if len(self.hazy) != len(self.clear):
            raise InputError(
                f"expected as many clear as hazy folders in [validation], got {len(self.clear)} and {len(self.hazy)}"
            )


@dataclass(frozen=True)
class OptimiserConfig:
    """An optimiser with linear warm-up and a cosine to the end."""

    kind: Literal["adamw", "muon"] = "adamw"
    """AdamW is the paper's; Muon (`training.muon`) learns more from few samples."""
    lr: float = 1.5e-4  # peak learning rate
    weight_decay: float = 1e-4
    """Decay of weight tensors; biases, norms and the temporal position have none."""
    warmup: float = 0.025
    """Share of all steps in which the learning rate rises. The paper's 5 of 200 epochs."""
    final_lr: float = 0.0  # learning rate at the last step, as a share of the peak
    clip: float = 1.0  # largest norm of the gradient
    ema: float = 0.999  # decay of the averaged weights, which are the ones that count
    pivot: float = 0.0
    """Grey level about which the heads learn the affine transform (`training_heads`); 0 learns it about black."""
    head_norm: bool = True
    """Whether heads train with a batch normalisation, folded on saving; False is as the paper writes them."""
    max_bad_steps: int = 10  # consecutive steps with a non-finite loss after which the run stops

    def __post_init__(self) -> None:
        if not (self.lr > 0 and self.clip > 0):
            raise InputError(f"expected positive lr and clip, got lr={self.lr} and clip={self.clip}")
        if not (0 <= self.warmup < 1 and 0 <= self.final_lr <= 1):
            raise InputError(f"expected warmup and final_lr in [0, 1], got {self.warmup} and {self.final_lr}")
        if not 0 <= self.ema < 1:
            raise InputError(f"expected ema in [0, 1), got {self.ema}")
        if self.pivot and not self.head_norm:
            raise InputError(f"expected pivot = 0 for heads without head_norm, got {self.pivot}")
        if self.max_bad_steps < 1:
            raise InputError(f"expected max_bad_steps of at least 1, got {self.max_bad_steps}")


@dataclass(frozen=True)
class TeacherConfig:
    """A larger network whose output is mixed into the truth, so that a smaller one learns from it."""

    checkpoint: str = ""  # a path, or `base`; empty for none
    share: float = 0.5  # share of its output in what the network is compared with

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise InputError(f"expected a teacher's share from 0 to 1, got {self.share}")


@dataclass(frozen=True)
class IntervalConfig:
    """Steps from one log line, validation with example images, or checkpoint to the next."""

    log: int = 20
    validation: int = 500
    checkpoint: int = 500

    def __post_init__(self) -> None:
        if min(self.log, self.validation, self.checkpoint) < 1:
            raise InputError(f"expected intervals of at least 1 step, got {self}")


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    name: str = "run"
    seed: int = 0
    steps: int = 1000
    """Optimiser steps; 0 with `epochs` given means that many passes over a paired dataset."""
    epochs: int = 0
    """Passes over a paired dataset, used when `steps` is 0."""
    batch: int = 16
    """Samples per step, over all processes."""
    accumulate: int = 1
    """Parts of the batch that are computed one after another and need less memory, over all processes; a power of two.
    With 2 or more, the result does not depend on the number of processes that share them."""
    crops: tuple[tuple[int, int], ...] = ((512, 512),)
    """(height, width) of training crops; with several, each step takes the next one."""
    precision: Literal["fp32", "bf16", "fp16"] = "bf16"
    fused: bool = True
    """Train on our kernels, in a CUDA graph, where GPU and network allow; `libranet doctor` says whether they do."""
    init_from: str = ""
    """A checkpoint to start from: a path, `base` or `small`. A recipe without [model] takes its network, too."""
    peer: str = ""
    """Train this network instead of LiBrA-Net, with the same data, optimiser and loss, without the Lie term: a name of
    `libranet.lab.peers`, or your own as `package.module:Class`."""
    model: LiBrANetConfig = field(default_factory=LiBrANetConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    photos: PhotoSourceConfig | None = None
    paired: PairedSourceConfig | None = None
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    every: IntervalConfig = field(default_factory=IntervalConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    @property
    def window(self) -> int:
        """Frames per window."""
        if self.peer:
            return int(lab("peers.table").find_peer(self.peer).build_on_meta().config.window)
        return self.model.window

    @property
    def outputs(self) -> int:
        """Consecutive windows of each sample: temporal consistency needs two."""
        return 2 if self.loss.consistency_weight > 0 else 1

    @property
    def still(self) -> bool:
        """Whether every window is one frame, which is then made and encoded once."""
        return self.photos is not None and self.photos.haze.geometry.still_probability == 1

    def __post_init__(self) -> None:
        if self.peer and not lab("peers.table").find_peer(self.peer).trainable:
            raise InputError(f"{self.peer} has no weights to train: choose another peer")
        if (self.photos is None) == (self.paired is None):
            raise InputError("expected exactly one of [photos] and [paired] in a recipe")
        if self.validation.held_out and self.paired is None:
            raise InputError("validation.held_out keeps clips of a [paired] set out of training, and there is none")
        if self.steps <= 0 and (self.paired is None or self.epochs <= 0):
            raise InputError(
                f"expected steps, or epochs over a paired dataset, got steps={self.steps}, epochs={self.epochs}"
            )
        if min(self.batch, self.accumulate) < 1:
            raise InputError(f"expected batch and accumulate of at least 1, got {self.batch} and {self.accumulate}")
        if not self.crops or any(len(crop) != 2 or min(crop) < 32 for crop in self.crops):
            raise InputError(f"expected crops as [height, width] of at least 32, got {self.crops}")
        if self.loss.consistency_weight and (self.photos is None or self.batch % 2):
            raise InputError(
                f"expected [photos] and an even batch with loss.consistency_weight, got batch={self.batch}"
            )
