"""Kinds of haze. A recipe mixes them by their shares, and every sample has exactly one.

A kind is a small table of ranges with one function that draws all that is its own about some samples. No kind changes
what another has drawn: shape of the ground, crops, colour jitter and skies are drawn for all kinds alike in `sampler`.
"""

from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.haze.config import (
    CameraConfig,
    DensityConfig,
    FrontConfig,
    GeometryConfig,
    HazeGroup,
    Range,
    RecordingConfig,
    SkyConfig,
)
from libranet.haze.draws import chance, log_uniform, smooth_field, uniform
from libranet.haze.images import ImageFacts
from libranet.haze.parameters import CELLS, Airlight, Distance, Scattering
from libranet.haze.scattering import REGIMES

UNIFORM_NEAR = (0.75, 1.0)
"""Depth of the nearest point in uniform haze."""
PATCH_STRENGTH = (0.1, 0.5)
"""Relative change of the optical depth by patches."""
RESIDUAL_BETA = (0.0, 0.35)
"""Scattering of the haze that stays in the target."""
FOG_SHARE = (0.8, 1.0)
"""How much of a sky in fog is the airlight."""
SLOPE_PROBABILITY = 0.4
"""Samples whose airlight changes across the frame."""
FILMED_BRIGHTNESS, FILMED_TINT_STD = (0.35, 1.0), 0.04
"""Airlight of footage."""
FILMED_LINEAR_PROBABILITY = 0.85
"""Footage whose haze is mixed into the light."""
DARKENING = (1.0, 2.2)
"""Exponent of the light where the scene of a footage sample is darker under the haze than in the target."""


@dataclass(frozen=True)
class DrawnHaze:
    """What a kind decides about its samples."""

    distance: Distance
    scattering: Scattering
    airlight: Airlight
    fog: Tensor  # [n] in [0, 1], how much of the sky is the airlight, in the target too
    daylight: Tensor  # [n], share of the light that is left on the ground, in the target too
    saturation: Tensor  # [n]
    black_level: Tensor  # [n]
    noise: Tensor  # [n], standard deviation of sensor noise


@dataclass(frozen=True)
class RegimeHaze(HazeGroup):
    """The haze of UHV-4K: one of its nine regimes over the plain depth, nothing else."""

    filmed: ClassVar[bool] = False
    share: float = 0.0
    """Samples with this kind, relative to the sum of all kinds' shares."""
    jitter: float = 0.06
    """Standard deviation of the relative change of a regime's scattering, and a sixth of that of its airlight."""

    def draw(self, common: "HazeConfig", images: ImageFacts, maps: Tensor, generator: torch.Generator) -> DrawnHaze:
        """Draw a regime for each sample. Images without a depth map keep the random prior."""
        n = len(images.width)
        which = torch.randint(len(REGIMES), (n,), generator=generator)
        beta = torch.tensor([regime.beta for regime in REGIMES])[which]
        beta = beta * torch.exp(torch.randn(n, generator=generator) * self.jitter)
        colour = torch.tensor([regime.airlight for regime in REGIMES])[which]
        colour = colour * (1 + torch.randn(n, 3, generator=generator) * (self.jitter / 6))
        prior_share = torch.where(images.has_depth, 0.0, 1.0)
        noise = _noise(common.camera, n, generator)
        return DrawnHaze(
            distance=_distance(torch.zeros(n), torch.ones(n), prior_share, generator),
            scattering=_plain_scattering(beta),
            airlight=_plain_airlight(colour.clamp(0, 1)),
            noise=noise * (noise < common.camera.noise_std / 4),
            **_as_it_is(n),
        )


@dataclass(frozen=True)
class PairHaze(HazeGroup):
    """The haze of the common sets of still pairs (RESIDE): thin, grey, over photos as they are. It begins well in front
    of the camera and is mixed into stored values, nothing else."""

    filmed: ClassVar[bool] = False
    share: float = 0.0
    """Samples with this kind, relative to the sum of all kinds' shares."""
    optical_depth: Range = (0.2, 1.8)
    """Of the farthest point, drawn log-uniformly."""
    near: Range = (0.25, 0.65)
    """Optical depth of the nearest point, as a share of the farthest's."""
    airlight: Range = (0.75, 1.0)
    """Brightness of the airlight, the same in all channels."""

    def draw(self, common: "HazeConfig", images: ImageFacts, maps: Tensor, generator: torch.Generator) -> DrawnHaze:
        """Draw thin grey haze."""
        n = len(images.width)
        level = uniform(n, self.airlight, generator)
        gamma = log_uniform(n, common.density.depth_gamma, generator)
        prior_share = _prior_share(common.geometry, images, generator)
        return DrawnHaze(
            distance=_distance(uniform(n, self.near, generator), gamma, prior_share, generator),
            scattering=_plain_scattering(log_uniform(n, self.optical_depth, generator)),
            airlight=_plain_airlight(level[:, None].expand(n, 3)),
            noise=_noise(common.camera, n, generator),
            **_as_it_is(n),
        )


@dataclass(frozen=True)
class OutdoorPairHaze(PairHaze):
    """The haze of the outdoor half of such sets: thinner and more even, under bright air."""

    optical_depth: Range = (0.26, 0.9)
    near: Range = (0.4, 0.72)
    airlight: Range = (0.79, 1.0)


@dataclass(frozen=True)
class VariedHaze(HazeGroup):
    """Haze of any density, colour and unevenness."""

    filmed: ClassVar[bool] = False
    share: float = 1.0
    """Samples with this kind, relative to the sum of all kinds' shares."""
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
    linear_light_probability: float = 0.0
    """Samples whose haze is mixed into the light, before the camera's tone curve, as in nature; in the others it is
    mixed into the stored values, as in datasets."""
    fog_probability: float = 0.0
    """Samples whose sky, where there is one, is fog: the airlight, in the target too."""

    def draw(self, common: "HazeConfig", images: ImageFacts, maps: Tensor, generator: torch.Generator) -> DrawnHaze:
        """Draw haze of the common density under an airlight of its own."""
        n = len(images.width)
        distance, scattering, even = _draw_density(common, images, maps, generator)
        level = torch.where(
            even, uniform(n, self.uniform_brightness, generator), uniform(n, self.brightness, generator)
        )
        from_scene = (images.brightness * uniform(n, (0.9, 1.15), generator)).clamp(0.5, 1.0)
        level = torch.where(chance(n, self.scene_probability, generator), from_scene, level)
        linear = chance(n, self.linear_light_probability, generator)
        saturation, black_level = _grey_days(common.camera, n, generator)
        return DrawnHaze(
            distance=distance,
            scattering=scattering,
            airlight=Airlight(
                colour=(level[:, None] * (1 + _tint(self.tint_std, n, generator))).clamp(0.3, 1.0),
                slope=_slope(self.gradient, n, generator),
                gamma=torch.where(linear, uniform(n, common.camera.tone_gamma, generator), 1.0),
            ),
            fog=chance(n, self.fog_probability, generator) * uniform(n, FOG_SHARE, generator),
            daylight=torch.ones(n),
            saturation=saturation,
            black_level=black_level,
            noise=_noise(common.camera, n, generator),
        )


@dataclass(frozen=True)
class FootageHaze(HazeGroup):
    """The haze of real footage: dimmer, coloured, mixed into the light, over a dimmed scene. Such samples also get what
    stands in `front` of the haze, and a `recording`."""

    filmed: ClassVar[bool] = True
    share: float = 0.0
    """Samples with this kind, relative to the sum of all kinds' shares."""
    gradient: float = 0.08
    """Largest relative change of the airlight across the frame, in 40 % of the samples."""
    darkening_probability: float = 0.5
    """Samples whose scene is darker under the haze than in the target."""
    opaque: Range = (0.0, 0.0)
    """Transmission under which the target keeps haze, so that nobody has to guess what is behind dense fog."""
    dusk_probability: float = 0.0
    """Of those with a sky, samples whose ground is dim, in the target too: fog over dark hills."""
    dusk: Range = (0.25, 0.75)
    """Share of the light that is left on the ground in those."""
    fog_probability: float = 0.0
    """Samples whose sky, where there is one, is fog: real fog hides the sky."""

    def draw(self, common: "HazeConfig", images: ImageFacts, maps: Tensor, generator: torch.Generator) -> DrawnHaze:
        """Draw haze of the common density as a camera films it. The recording adds its own noise."""
        n = len(images.width)
        distance, scattering, _ = _draw_density(common, images, maps, generator)
        level = uniform(n, FILMED_BRIGHTNESS, generator)[:, None]
        linear = chance(n, FILMED_LINEAR_PROBABILITY, generator)
        dimmed = chance(n, self.darkening_probability, generator) & (scattering.beta.amax(1) > 0)
        dusk = chance(n, self.dusk_probability, generator) & (images.skyline > 0)
        saturation, black_level = _grey_days(common.camera, n, generator)
        return DrawnHaze(
            distance=distance,
            scattering=replace(
                scattering,
                darkening=torch.where(dimmed, uniform(n, DARKENING, generator), 1.0),
                opaque=uniform(n, self.opaque, generator),
            ),
            airlight=Airlight(
                colour=(level * (1 + _tint(FILMED_TINT_STD, n, generator))).clamp(0.25, 1.0),
                slope=_slope(self.gradient, n, generator),
                gamma=torch.where(linear, uniform(n, common.camera.tone_gamma, generator), 1.0),
            ),
            fog=chance(n, self.fog_probability, generator) * uniform(n, FOG_SHARE, generator),
            daylight=torch.where(dusk, uniform(n, self.dusk, generator), 1.0),
            saturation=saturation,
            black_level=black_level,
            noise=torch.zeros(n),
        )


Kind = RegimeHaze | PairHaze | VariedHaze | FootageHaze


@dataclass(frozen=True)
class HazeConfig:
    """Everything random about a sample: the kinds of haze with their shares, and what all of them have in common."""

    regimes: RegimeHaze = field(default_factory=RegimeHaze)
    pairs: PairHaze = field(default_factory=PairHaze)
    outdoor_pairs: OutdoorPairHaze = field(default_factory=OutdoorPairHaze)
    varied: VariedHaze = field(default_factory=VariedHaze)
    footage: FootageHaze = field(default_factory=FootageHaze)
    density: DensityConfig = field(default_factory=DensityConfig)
    camera: CameraConfig = field(default_factory=CameraConfig)
    sky: SkyConfig = field(default_factory=SkyConfig)
    geometry: GeometryConfig = field(default_factory=GeometryConfig)
    front: FrontConfig = field(default_factory=FrontConfig)
    recording: RecordingConfig = field(default_factory=RecordingConfig)

    def __post_init__(self) -> None:
        if not any(kind.share for kind in self.kinds):
            raise InputError("expected a kind of haze with a share above 0, got none: see [photos.haze] in the recipe")

    @property
    def kinds(self) -> list[Kind]:
        """All kinds, in the order of the fields."""
        return [value for f in fields(self) if isinstance(value := getattr(self, f.name), Kind)]


def _draw_density(
    common: HazeConfig, images: ImageFacts, maps: Tensor, generator: torch.Generator
) -> tuple[Distance, Scattering, Tensor]:  # and [n] bool, samples with uniform haze
    """Draw how dense the haze is, where it lies, and what of it stays in the target."""
    n, density = len(images.width), common.density
    beta = log_uniform(n, density.beta, generator)
    beta = torch.where(chance(n, density.clear_probability, generator), 0.0, beta)
    even = chance(n, density.uniform_probability, generator)
    near = torch.where(even, uniform(n, UNIFORM_NEAR, generator), uniform(n, density.near, generator))
    gamma = log_uniform(n, density.depth_gamma, generator)
    blueness = uniform(n, (-0.2 * density.wavelength_spread, density.wavelength_spread), generator)
    per_channel = 1 + blueness[:, None] * torch.tensor([-0.5, 0.0, 0.5])
    residual = chance(n, density.residual_probability, generator) * uniform(n, RESIDUAL_BETA, generator)
    uneven = chance(n, density.patch_probability, generator) * uniform(n, PATCH_STRENGTH, generator)
    patches = smooth_field(n, 1, generator) * uneven[:, None, None, None]
    in_banks = chance(n, density.bank_probability, generator)
    patches[in_banks] = _banks(int(in_banks.sum()), maps, generator)
    scattering = Scattering(
        beta=beta[:, None] * per_channel,
        residual_beta=residual[:, None] * per_channel,
        min_transmission=uniform(n, density.min_transmission, generator),
        darkening=torch.ones(n),
        opaque=torch.zeros(n),
        patches=patches,
    )
    return _distance(near, gamma, _prior_share(common.geometry, images, generator), generator), scattering, even


def _banks(
    n: int,
    maps: Tensor,  # [M, h, w] in [0, 1], density maps; M may be 0
    generator: torch.Generator,
) -> Tensor:  # [n, 1, CELLS, CELLS] in [-1, 1]
    """Banks of haze: over the ground, or as in a part of a density map."""
    height = torch.linspace(0, 1, CELLS).view(1, CELLS, 1).expand(n, CELLS, CELLS)
    top, softness = uniform(n, (0.3, 0.8), generator), uniform(n, (0.05, 0.3), generator)
    unrest = torch.rand(n, CELLS, CELLS, generator=generator) * 0.3
    shape = torch.sigmoid((height + unrest - top[:, None, None]) / softness[:, None, None])
    if n and len(maps):
        which = torch.randint(len(maps), (n,), generator=generator)
        places = torch.rand(n, 2, generator=generator)
        cut = torch.stack([_cut(maps[i], *place.tolist()) for i, place in zip(which, places, strict=True)])
        shape = torch.where(chance(n, 0.5, generator)[:, None, None], cut, shape)
    return (uniform(n, (0.4, 0.95), generator)[:, None, None] * (2 * shape - 1))[:, None]


def _cut(density: Tensor, y: float, x: float) -> Tensor:  # [CELLS, CELLS]
    """Cut a part out of a density map; y and x in [0, 1] say where."""
    top, left = (round(at * (side - CELLS)) for at, side in zip((y, x), density.shape, strict=True))
    return density[top : top + CELLS, left : left + CELLS]


def _distance(near: Tensor, gamma: Tensor, prior_share: Tensor, generator: torch.Generator) -> Distance:
    """Complete a distance with a random prior: a ramp below a horizon, and smooth relief."""
    n = len(near)
    return Distance(
        near=near,
        gamma=gamma,
        prior_share=prior_share,
        horizon=uniform(n, (0.05, 0.55), generator),
        ramp_power=torch.exp(uniform(n, (-0.7, 0.5), generator)),
        relief=torch.rand(n, 1, CELLS, CELLS, generator=generator),
        relief_share=uniform(n, (0.05, 0.5), generator),
    )


def _prior_share(geometry: GeometryConfig, images: ImageFacts, generator: torch.Generator) -> Tensor:  # [n]
    """How much of the depth is the prior. Images without a depth map use the prior alone."""
    n = len(images.width)
    only_prior = chance(n, geometry.prior_depth_probability, generator) | ~images.has_depth
    return torch.where(only_prior, 1.0, uniform(n, (0.0, geometry.prior_depth_blend), generator))


def _plain_scattering(beta: Tensor) -> Scattering:  # [n] -> one density for all channels and places
    n = len(beta)
    return Scattering(
        beta=beta[:, None].expand(n, 3),
        residual_beta=torch.zeros(n, 3),
        min_transmission=torch.zeros(n),
        darkening=torch.ones(n),
        opaque=torch.zeros(n),
        patches=torch.zeros(n, 1, CELLS, CELLS),
    )


def _plain_airlight(colour: Tensor) -> Airlight:  # [n, 3] -> the same everywhere, mixed into stored values
    n = len(colour)
    return Airlight(colour=colour, slope=torch.zeros(n, 2), gamma=torch.ones(n))


def _as_it_is(n: int) -> dict[str, Tensor]:
    """No fog in the sky, no dusk, no grey day."""
    ones, zeros = torch.ones(n), torch.zeros(n)
    return {"fog": zeros, "daylight": ones, "saturation": ones, "black_level": zeros}


def _grey_days(camera: CameraConfig, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:  # [n] each
    """Saturation and black level; some days are dull."""
    dull = chance(n, camera.dull_probability, generator)
    saturation, black = uniform(n, (0.45, 1.0), generator), uniform(n, (0.0, 0.06), generator)
    return torch.where(dull, saturation, 1.0), torch.where(dull, black, 0.0)


def _noise(camera: CameraConfig, n: int, generator: torch.Generator) -> Tensor:  # [n]
    return uniform(n, (0.0, camera.noise_std), generator) * chance(n, 0.5, generator)


def _tint(std: float, n: int, generator: torch.Generator) -> Tensor:  # [n, 3], relative
    """Blue to yellow, and half as much per channel."""
    from_blue = torch.randn(n, 1, generator=generator) * torch.tensor([-1.0, 0.0, 1.0])
    return (from_blue + torch.randn(n, 3, generator=generator) / 2) * std


def _slope(gradient: float, n: int, generator: torch.Generator) -> Tensor:  # [n, 2]
    slope = (torch.rand(n, 2, generator=generator) * 2 - 1) * gradient
    return slope * chance(n, SLOPE_PROBABILITY, generator)[:, None]
