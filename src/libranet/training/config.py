"""Everything that defines a training run, as frozen dataclasses. `recipe.py` fills them from TOML."""

from dataclasses import dataclass, field, fields
from typing import Literal

from libranet.errors import InputError
from libranet.extension import lab
from libranet.losses.objective import LossConfig
from libranet.network.config import LiBrANetConfig

Range = tuple[float, float]
"""(low, high), both included."""
AT_MOST_ONE = {"white_balance_std", "shading", "aspect_jitter"}
"""Settings that may not exceed 1, besides probabilities."""


@dataclass(frozen=True)
class _HazeGroup:
    """A group of haze settings: probabilities lie in [0, 1], ranges are in order, and nothing is negative."""

    def __post_init__(self) -> None:
        for name, value in ((f.name, getattr(self, f.name)) for f in fields(self)):
            if isinstance(value, tuple):
                if not 0 <= value[0] <= value[1]:
                    raise InputError(f"expected {name} as (low, high) with 0 <= low <= high, got {value}")
            elif name.endswith("probability") or name in AT_MOST_ONE:
                if not 0 <= value <= 1:
                    raise InputError(f"expected {name} in [0, 1], got {value}")
            elif value < 0:
                raise InputError(f"expected {name} of at least 0, got {value}")


@dataclass(frozen=True)
class DensityConfig(_HazeGroup):
    """How dense the haze is, and where."""

    beta: Range = (0.25, 2.8)
    """Scattering over the normalised depth 0..1, drawn log-uniformly."""
    near: Range = (0.0, 0.35)
    """Depth of the nearest point: the haze between camera and scene."""
    depth_gamma: Range = (0.6, 1.8)
    """Exponent applied to depth, drawn log-uniformly: how fast the distance grows."""
    min_transmission: Range = (0.02, 0.12)
    """Least transmission: no pixel is lost entirely."""
    wavelength_spread: float = 0.08
    """Largest relative excess of the blue over the red scattering."""
    clear_probability: float = 0.04
    """Samples without haze, which must stay as they are."""
    uniform_probability: float = 0.16
    """Samples whose haze hardly depends on depth, like smoke indoors."""
    patch_probability: float = 0.35
    """Samples with uneven haze."""
    patch_strength: float = 0.5
    """Largest relative change of the optical depth by patches."""
    bank_probability: float = 0.0
    """Samples whose haze lies in banks: over the ground, or as a measured density map shows."""


@dataclass(frozen=True)
class AirlightConfig(_HazeGroup):
    """The colour and brightness of the haze."""

    brightness: Range = (0.6, 1.0)
    """Brightness of the airlight."""
    uniform_brightness: Range = (0.6, 1.0)
    """Its brightness in uniform haze: indoors it is often darker than the walls."""
    scene_probability: float = 0.5
    """Samples whose airlight follows the brightness of the image's bright parts instead."""
    tint_std: float = 0.02
    """Standard deviation of the blue-to-yellow tint, and half that per channel."""
    gradient: float = 0.08
    """Largest relative change of the airlight across the frame, in 40 % of the samples."""


@dataclass(frozen=True)
class CameraConfig(_HazeGroup):
    """What the camera makes of the scene: noise, colour jitter, and in which values haze is mixed."""

    noise_std: float = 0.012
    """Largest standard deviation of sensor noise, in half of the samples."""
    dull_probability: float = 0.35
    """Samples whose clear image is made less vivid, as on a grey day."""
    jitter_probability: float = 0.0
    """Samples whose clear image gets colour jitter: another white balance, tone curve and saturation."""
    jitter_strength: float = 1.0
    """How far jitter of tone curve and saturation may go, in units of what cameras usually differ by."""
    white_balance_std: float = 0.04
    """Standard deviation of the jitter of the white balance's factors. Beyond the regimes' tints, about 0.06, a warm
    scene in white haze and a white scene in warm haze look the same."""
    shading: float = 0.0
    """Largest relative change of the light on the ground from place to place, a third of it in its colour."""
    linear_light_probability: float = 0.0
    """Samples outside the regimes whose haze is mixed into the light, before the camera's tone curve, as in nature; in
    the others it is mixed into the stored values, as in datasets."""
    tone_gamma: Range = (1.8, 2.4)
    """Exponent that takes stored values to light in those."""


@dataclass(frozen=True)
class SkyConfig(_HazeGroup):
    """What may happen to a sky. How blue or bright a sky is cannot be learnt from what stands under it: the network
    has to read it through the haze."""

    recolour_probability: float = 0.0
    """Samples whose sky, where there is one, gets another colour."""
    swap_probability: float = 0.0
    """Samples whose sky, where there is one, is another image's."""
    fog_probability: float = 0.0
    """Samples outside the regimes whose sky, where there is one, is fog: the airlight, in the target too."""


@dataclass(frozen=True)
class GeometryConfig(_HazeGroup):
    """Crops, camera motion, and depth that does not come from a map."""

    zoom: Range = (0.45, 1.0)
    """Height of the crop as a share of the largest that fits the image."""
    aspect_jitter: float = 0.0
    """How much wider or narrower a crop may be shown than it is, as the logarithm of the factor."""
    motion: float = 0.015
    """Largest camera motion per frame, as a share of the crop's size."""
    still_probability: float = 0.15
    """Samples without motion. At 1 every window is a still one: training is several times faster."""
    prior_depth_probability: float = 0.30
    """Samples that use a random depth prior although a depth map exists."""
    prior_depth_blend: float = 0.4
    """Most that a random prior is mixed into a depth map. A known sky stays the farthest."""


@dataclass(frozen=True)
class RegimeConfig(_HazeGroup):
    """Samples with the haze of UHV-4K: one of its nine regimes over the depth, nothing else."""

    probability: float = 0.0
    """Samples with such haze."""
    jitter: float = 0.06
    """Standard deviation of the relative change of a regime's scattering, and a sixth of that of its airlight."""


@dataclass(frozen=True)
class PairsConfig(_HazeGroup):
    """Samples with the haze of the common sets of still pairs (RESIDE): thin, grey, over photos as they are. It begins
    well in front of the camera and is mixed into stored values, nothing else."""

    probability: float = 0.0
    """Samples with such haze, outside the regimes."""
    optical_depth: Range = (0.2, 1.8)
    """Of the farthest point, drawn log-uniformly."""
    near: Range = (0.25, 0.65)
    """Optical depth of the nearest point, as a share of the farthest's."""
    airlight: Range = (0.75, 1.0)
    """Brightness of the airlight, the same in all channels."""
    outdoor_probability: float = 0.0
    """Of them, samples with the haze of the outdoor half of such sets, thinner and more even, under bright air."""
    outdoor_optical_depth: Range = (0.26, 0.9)
    outdoor_near: Range = (0.4, 0.72)
    outdoor_airlight: Range = (0.79, 1.0)


@dataclass(frozen=True)
class ResidualHazeConfig(_HazeGroup):
    """Light haze that stays in the target, as distant views have it on a clear day."""

    probability: float = 0.15
    """Samples with residual haze."""
    max_beta: float = 0.35
    """Its largest scattering."""


@dataclass(frozen=True)
class FootageConfig(_HazeGroup):
    """Samples that look like real footage: haze that dims the scene, things in `front` of it, and a `recording`."""

    probability: float = 0.0
    """Samples filmed so, outside the regimes."""
    brightness: Range = (0.35, 1.0)
    """Brightness of their airlight."""
    tint_std: float = 0.04
    """Standard deviation of its tint."""
    linear_light_probability: float = 0.85
    """Of them, samples whose haze is mixed into the light."""
    darkening_probability: float = 0.5
    """Of them, samples whose scene is darker under the haze than in the target."""
    darkening: Range = (1.0, 2.2)
    """Exponent of the light in those."""
    opaque: Range = (0.0, 0.0)
    """Transmission under which the target keeps haze, so that nobody has to guess what is behind dense fog."""
    dusk_probability: float = 0.0
    """Of those with a sky, samples whose ground is dim, in the target too: fog over dark hills."""
    dusk: Range = (0.25, 0.75)
    """Share of the light that is left on the ground in those."""
    fog_probability: float = 0.0
    """Of them, samples whose sky, where there is one, is fog in any case: real fog hides the sky."""


@dataclass(frozen=True)
class FrontConfig(_HazeGroup):
    """What stands in front of the haze: a dashboard, a vehicle, a frame, a caption, black bars."""

    probability: float = 0.5
    """Of the footage, samples with something in front."""
    elsewhere_probability: float = 0.0
    """Of the other samples, those that get such things, too, and nothing else of a camera."""
    change_probability: float = 0.3
    """Of the things in front, those that come or go within the window."""
    bars_probability: float = 0.06
    """Of the footage, samples with black bars."""


@dataclass(frozen=True)
class RecordingConfig(_HazeGroup):
    """What camera and codec do to footage, differently from frame to frame."""

    drift_probability: float = 0.6
    """Samples whose exposure and white balance wander."""
    drift: float = 0.012
    """Standard deviation of the change per frame, as a logarithm."""
    flicker: float = 0.02
    """Standard deviation of the change of single frames, likewise."""
    noise_std: float = 0.02
    """Largest standard deviation of the noise, in 60 % of the samples."""
    sharpening: float = 0.8
    """Most sharpening, in 30 % of the samples."""
    codec_probability: float = 0.6
    """Samples that were compressed."""
    quality: Range = (30, 95)
    """Of the compression, on JPEG's scale."""


@dataclass(frozen=True)
class HazeConfig:
    """Everything random about a sample: its haze, its camera, its light and its sky."""

    density: DensityConfig = field(default_factory=DensityConfig)
    airlight: AirlightConfig = field(default_factory=AirlightConfig)
    camera: CameraConfig = field(default_factory=CameraConfig)
    sky: SkyConfig = field(default_factory=SkyConfig)
    geometry: GeometryConfig = field(default_factory=GeometryConfig)
    regimes: RegimeConfig = field(default_factory=RegimeConfig)
    pairs: PairsConfig = field(default_factory=PairsConfig)
    residual: ResidualHazeConfig = field(default_factory=ResidualHazeConfig)
    footage: FootageConfig = field(default_factory=FootageConfig)
    front: FrontConfig = field(default_factory=FrontConfig)
    recording: RecordingConfig = field(default_factory=RecordingConfig)


@dataclass(frozen=True)
class PhotoSourceConfig:
    """Clear photos and rendered scenes on the device, hazed on the fly."""

    folders: tuple[str, ...] = ()
    """Folders of clear photos (JPEG, PNG or WebP)."""
    depth: str = ""
    """Folder of depth maps `<folder name>__<photo stem>.png`, 0 near to 255 far; photos without one get priors."""
    scenes: int = 0
    """Procedural scenes to render before training, with exact depth."""
    scene_views: int = 1
    """Frames rendered of each scene."""
    density: str = ""
    """Folder of grey density maps for banks of haze; without it banks lie over the ground only."""
    lines: int = 720
    """Height to which photos are brought; a crop covers most of it, so the encoder sees nearly the whole photo."""
    haze: HazeConfig = field(default_factory=HazeConfig)


@dataclass(frozen=True)
class PairedSourceConfig:
    """A dataset on disk with hazy and clear frames."""

    path: str = ""
    """Folder of the dataset."""
    layout: Literal["uhv4k", "revide", "hazeworld", "folders", "packed"] = "uhv4k"
    """Which layout the folder has; `folders` is any pair of sides, such as hazy/ and gt/ or input/ and target/, and
    `packed` is what `libranet data pack` made."""
    workers: int = 4
    """Processes that read and decode."""


@dataclass(frozen=True)
class ValidationConfig:
    """Pairs on which checkpoints are compared. With several folders, the mean of the folders' means decides."""

    hazy: tuple[str, ...] = ()
    """Folders of hazy images; none means no validation."""
    clear: tuple[str, ...] = ()
    """Folders of the clear images of the same names, one for each."""
    held_out: float = 0.0
    """Share of the clips of a [paired] set, at least one, that are validated on, as video, and never trained on."""
    frames: int = 5
    """Frames of each held-out clip, from its middle."""

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
    ema: float = 0.999
    """Decay of the averaged weights, which are the ones that count."""
    fused: bool = True
    """Train on our kernels, in a CUDA graph, where GPU and network allow; `libranet doctor` says whether they do."""
    pivot: float = 0.0
    """Grey level about which the heads learn the affine transform (`training_heads`); 0 learns it about black."""
    log_every: int = 20
    checkpoint_every: int = 500
    validate_every: int = 500
    """Steps between validations, with example images."""
    max_bad_steps: int = 10
    """Consecutive steps with a non-finite loss after which the run stops."""
    init_from: str = ""
    """A checkpoint to start from."""
    teacher: str = ""
    """A checkpoint, or `base`, whose output is mixed into the truth, so that a smaller network learns from it."""
    teacher_share: float = 0.5
    """Share of the teacher's output in what the network is compared with."""
    model: LiBrANetConfig = field(default_factory=LiBrANetConfig)
    peer: str = ""
    """Train this network of `libranet.lab.peers` instead of LiBrA-Net: same data, optimiser and loss, no Lie term."""
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    photos: PhotoSourceConfig | None = None
    paired: PairedSourceConfig | None = None
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    @property
    def window(self) -> int:
        """Frames per sample."""
        return (
            int(lab("peers.table").find_peer(self.peer).build_on_meta().config.window)
            if self.peer
            else self.model.window
        )

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
        if not 0.0 <= self.teacher_share <= 1.0:
            raise InputError(f"expected teacher_share from 0 to 1, got {self.teacher_share}")
        for name in ("batch", "accumulate", "log_every", "checkpoint_every", "validate_every", "max_bad_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if not self.crops or any(len(crop) != 2 or min(crop) < 32 for crop in self.crops):
            raise InputError(f"expected crops as [height, width] of at least 32, got {self.crops}")
        if self.loss.consistency_weight and (self.photos is None or self.batch % 2):
            raise InputError(
                f"expected [photos] and an even batch with loss.consistency_weight, got batch={self.batch}"
            )
        if not 0 <= self.ema < 1:
            raise InputError(f"expected ema in [0, 1), got {self.ema}")
