"""What may be random about a sample: its haze, its camera, its light and its sky."""

from dataclasses import dataclass

from libranet.errors import InputError


@dataclass(frozen=True)
class HazeConfig:
    """Ranges of everything random about a sample's haze. Pairs are (low, high)."""

    beta: tuple[float, float] = (0.25, 2.8)
    """Scattering over the normalised depth 0..1, drawn log-uniformly."""
    near: tuple[float, float] = (0.0, 0.35)
    """Depth of the nearest point: the haze between camera and scene."""
    gamma: tuple[float, float] = (0.6, 1.8)
    """Exponent applied to depth, drawn log-uniformly: how fast the distance grows."""
    even: float = 0.16
    """Share of samples whose haze hardly depends on depth, like smoke in a room."""
    even_airlight: tuple[float, float] = (0.6, 1.0)
    """Brightness of the airlight in those: in a room it is often darker than the walls."""
    clear: float = 0.04
    """Share of samples without haze, which must stay as they are."""
    prior: float = 0.30
    """Share of samples that use a random depth prior although a depth map exists."""
    blend: float = 0.4
    """Most that a random prior is mixed into a depth map. A known sky stays the farthest."""
    patches: float = 0.35
    """Share of samples with uneven haze."""
    patch_strength: float = 0.5
    """Largest relative change of the optical depth by patches."""
    in_light: float = 0.0
    """Share of samples outside the regimes whose haze is mixed into the light, before the camera's tone curve, as in
    nature; in the others it is mixed into the stored values, as in data sets."""
    tone_curve: tuple[float, float] = (1.8, 2.4)
    """Exponent that takes stored values to light in those."""
    floor: tuple[float, float] = (0.02, 0.12)
    """Least transmission: no pixel is lost entirely."""
    airlight: tuple[float, float] = (0.6, 1.0)
    """Brightness of the airlight."""
    scene_light: float = 0.5
    """Share of samples whose airlight follows the brightness of the photo's bright parts instead."""
    tint: float = 0.02
    """Standard deviation of the airlight's blue-to-yellow tint, and half that per channel."""
    light_gradient: float = 0.08
    """Largest relative change of the airlight across the frame, in 40 % of the samples."""
    wavelength: float = 0.08
    """Largest relative excess of the blue over the red scattering."""
    noise: float = 0.012
    """Largest standard deviation of sensor noise, in half of the samples."""
    dull: float = 0.35
    """Share of samples whose clear picture is made less vivid, as on a grey day."""
    vary: float = 0.0
    """Share of samples whose clear picture gets another white balance, tone curve and saturation."""
    vary_by: float = 1.0
    """How far tone curve and saturation may go, in units of what cameras usually differ by."""
    cast: float = 0.04
    """Standard deviation of the white balance's factors. Beyond the regimes' tints, about 0.06, a warm picture in white
    haze and a white one in warm haze cannot be told apart."""
    skies: float = 0.0
    """Share of samples whose sky, where there is one, gets another colour. How blue or bright a sky is cannot be told
    from what stands under it: it has to be read through the haze."""
    swap: float = 0.0
    """Share of samples whose sky, where there is one, is another picture's."""
    overcast: float = 0.0
    """Share of samples outside the regimes whose sky, where there is one, is fog: the airlight, in the target too."""
    shade: float = 0.0
    """Largest relative change of the light on the ground from place to place, a third of it in its colour."""
    leftover: float = 0.15
    """Share of samples whose clear picture keeps a light haze of its own, as distant views do on a clear day."""
    leftover_beta: float = 0.35
    """Largest scattering of that light haze."""
    motion: float = 0.015
    """Largest camera motion per frame, as a share of the crop's size."""
    still: float = 0.15
    """Share of samples without motion. At 1 every window is a still picture: training is several times faster."""
    regimes: float = 0.0
    """Share of samples with the haze of UHV-4K: one of its nine regimes over the depth, nothing else."""
    regime_spread: float = 0.06
    """Standard deviation of the relative change of a regime's scattering, and a sixth of that of its airlight."""
    regime_gamma: tuple[float, float] = (1.0, 1.0)
    """Exponent applied to their depth, drawn log-uniformly: depth estimators disagree about it, never about the sky."""
    regime_blend: float = 0.0
    """Most that a random prior is mixed into their depth."""
    zoom: tuple[float, float] = (0.45, 1.0)
    """Height of the crop as a share of the largest that fits the photo."""
    squeeze: float = 0.0
    """How much wider or narrower than it is a crop may be shown, as the logarithm of the factor."""
    tilt: float = 0.0
    """Largest angle, in degrees, by which the camera leans to a side."""

    def __post_init__(self) -> None:
        for name in (
            "beta",
            "near",
            "gamma",
            "floor",
            "airlight",
            "even_airlight",
            "regime_gamma",
            "tone_curve",
            "zoom",
        ):
            low, high = getattr(self, name)
            if not 0 <= low <= high:
                raise InputError(f"expected {name} as (low, high) with 0 <= low <= high, got {low}, {high}")
        for name in (
            "even",
            "clear",
            "prior",
            "patches",
            "scene_light",
            "dull",
            "leftover",
            "still",
            "regimes",
            "vary",
            "cast",
            "skies",
            "swap",
            "overcast",
            "shade",
            "in_light",
            "squeeze",
        ):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"expected {name} in [0, 1], got {getattr(self, name)}")
        if not 0 <= self.tilt <= 45:
            raise InputError(f"expected tilt in [0, 45] degrees, got {self.tilt}")
