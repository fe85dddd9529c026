"""Settings of a recipe's [photos.haze] that all kinds of haze share. The kinds themselves are in `kinds`."""

from dataclasses import dataclass, fields

from libranet.errors import InputError

Range = tuple[float, float]  # (low, high), both included
AT_MOST_ONE = {"white_balance_std", "shading", "aspect_jitter"}
"""Settings that may not exceed 1, besides probabilities."""


@dataclass(frozen=True)
class HazeGroup:
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
class DensityConfig(HazeGroup):
    """How dense `varied` haze and that of `footage` are, and where."""

    beta: Range = (0.25, 2.8)  # scattering of `varied` haze over the normalised depth 0..1, drawn log-uniformly
    near: Range = (0.0, 0.35)  # depth of the nearest point: the haze between camera and scene
    depth_gamma: Range = (0.6, 1.8)
    """Exponent applied to depth, drawn log-uniformly: how fast the distance grows."""
    min_transmission: Range = (0.02, 0.12)  # least transmission: no pixel is lost entirely
    wavelength_spread: float = 0.08  # largest relative excess of the blue over the red scattering
    clear_probability: float = 0.04  # samples without haze, which must stay as they are
    uniform_probability: float = 0.16
    """Samples whose haze hardly depends on depth, like smoke indoors."""
    patch_probability: float = 0.35  # samples with uneven haze
    bank_probability: float = 0.0
    """Samples whose haze lies in banks: over the ground, or as a measured density map shows."""
    residual_probability: float = 0.15
    """Samples with light haze that stays in the target, as distant views have it on a clear day."""


@dataclass(frozen=True)
class CameraConfig(HazeGroup):
    """What the camera makes of the scene: noise and colour jitter."""

    noise_std: float = 0.012  # largest standard deviation of sensor noise, in half of the samples
    dull_probability: float = 0.35
    """Samples of `varied` haze and of `footage` whose clear image is made less vivid, as on a grey day."""
    jitter_probability: float = 0.0
    """Samples whose clear image gets colour jitter: another white balance, tone curve and saturation."""
    jitter_strength: float = 1.0
    """How far jitter of tone curve and saturation may go, in units of what cameras usually differ by."""
    white_balance_std: float = 0.04
    """Standard deviation of the jitter of the white balance's factors. Beyond the regimes' tints, about 0.06, a warm
    scene in white haze and a white scene in warm haze look the same."""
    shading: float = 0.0
    """Largest relative change of the light on the ground from place to place, a third of it in its colour."""
    tone_gamma: Range = (1.8, 2.4)
    """Exponent that takes stored values to light where haze is mixed into the light."""


@dataclass(frozen=True)
class SkyConfig(HazeGroup):
    """What may happen to a sky. How blue or bright a sky is cannot be learnt from what stands under it: the network
    has to read it through the haze."""

    recolour_probability: float = 0.0  # samples whose sky, where there is one, gets another colour
    swap_probability: float = 0.0  # samples whose sky, where there is one, is another image's


@dataclass(frozen=True)
class GeometryConfig(HazeGroup):
    """Crops, camera motion, and depth that does not come from a map."""

    zoom: Range = (0.45, 1.0)  # height of the crop as a share of the largest that fits the image
    aspect_jitter: float = 0.0
    """How much wider or narrower a crop may be shown than it is, as the logarithm of the factor."""
    motion: float = 0.015  # largest camera motion per frame, as a share of the crop's size
    still_probability: float = 0.15
    """Samples without motion. At 1 every window is a still one: training is several times faster."""
    prior_depth_probability: float = 0.30
    """Samples that use a random depth prior although a depth map exists."""
    prior_depth_blend: float = 0.4
    """Most that a random prior is mixed into a depth map. A known sky stays the farthest."""


@dataclass(frozen=True)
class FrontConfig(HazeGroup):
    """What stands in front of the haze: a dashboard, a vehicle, a frame, a caption, black bars."""

    probability: float = 0.5  # of the footage, samples with something in front
    elsewhere_probability: float = 0.0
    """Of the other samples, those that get such things, too, and nothing else of a camera."""
    change_probability: float = 0.3
    """Of the things in front, those that come or go within the window."""
    bars_probability: float = 0.06  # of the footage, samples with black bars


@dataclass(frozen=True)
class RecordingConfig(HazeGroup):
    """What camera and codec do to footage, differently from frame to frame."""

    drift_probability: float = 0.6  # samples whose exposure and white balance wander
    noise_std: float = 0.02  # largest standard deviation of the noise, in 60 % of the samples
    sharpening: float = 0.8  # most sharpening, in 30 % of the samples
    codec_probability: float = 0.6  # samples that were compressed
    exposure_probability: float = 0.0
    """Samples that the camera exposed for the haze: it stores a bright veil as dark as a clear scene would be."""
    lift_probability: float = 0.0
    """Samples whose target is lifted to about the brightness of the hazy frame, as people would expose it."""
    dust_probability: float = 0.0
    """Samples in which dust or smog tints all light of the hazy frames, that on the scene, too; the target is white."""
