"""Kinds of haze. A recipe mixes them by their shares, and every sample has exactly one.

A kind is a small table of ranges with one function that draws all that is its own about some samples. No kind changes
what another has drawn: crops, colour jitter and skies are drawn for all kinds alike in `sampler`.
"""

from abc import ABC, abstractmethod
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
from libranet.haze.draws import Draws
from libranet.haze.images import ImageFacts
from libranet.haze.parameters import CELLS, Airlight, Distance, Scattering
from libranet.haze.scattering import REGIMES

UNIFORM_NEAR = (0.75, 1.0)  # depth of the nearest point in uniform haze
PATCH_STRENGTH = (0.1, 0.5)  # relative change of the optical depth by patches
RESIDUAL_BETA = (0.0, 0.35)  # scattering of the haze that stays in the target
FOG_SHARE = (0.8, 1.0)  # how much of a sky in fog is the airlight
NEAREST = 1.2  # optical depth that the nearest point of footage has at most: a street in fog begins clear
EVEN_BETA = 2.5  # scattering that uniform haze of footage has at most: behind more, nothing is left


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
class KindOfHaze(HazeGroup, ABC):
    """What every kind has."""

    filmed: ClassVar[bool] = False
    """Whether its samples get a `recording`, and things in `front` of the haze."""
    share: float = 0.0  # samples with this kind, relative to the sum of all kinds' shares

    @abstractmethod
    def draw(self, common: "HazeConfig", images: ImageFacts, maps: Tensor, draws: Draws) -> DrawnHaze:
        """Draw haze over some images; `maps` are the density maps for banks of haze."""


@dataclass(frozen=True)
class RegimeHaze(KindOfHaze):
    """The haze of UHV-4K: one of its nine regimes over the plain depth, nothing else."""

    jitter: float = 0.06
    """Standard deviation of the relative change of a regime's scattering, and a sixth of that of its airlight."""

    def draw(self, common: "HazeConfig", images: ImageFacts, maps: Tensor, draws: Draws) -> DrawnHaze:
        """Draw regimes. Images without a depth map keep the random prior."""
        which, zeros = draws.whole(len(REGIMES)), torch.zeros(draws.n)
        beta = torch.tensor([regime.beta for regime in REGIMES])[which] * torch.exp(draws.normal() * self.jitter)
        colour = torch.tensor([regime.airlight for regime in REGIMES])[which]
        colour = (colour * (1 + draws.normal(3) * (self.jitter / 6))).clamp(0, 1)
        distance = _distance(zeros, zeros + 1, torch.where(images.has_depth, 0.0, 1.0), draws)
        noise = _noise(common.camera, draws)
        return _plain(distance, beta, colour, noise * (noise < common.camera.noise_std / 4))


@dataclass(frozen=True)
class PairHaze(KindOfHaze):
    """The haze of the common sets of still pairs (RESIDE): thin, grey, over photos as they are. It begins well in front
    of the camera and is mixed into stored values, nothing else."""

    optical_depth: Range = (0.2, 1.8)  # of the farthest point, drawn log-uniformly
    near: Range = (0.25, 0.65)  # optical depth of the nearest point, as a share of the farthest's
    airlight: Range = (0.75, 1.0)  # brightness of the airlight, the same in all channels

    def draw(self, common: "HazeConfig", images: ImageFacts, maps: Tensor, draws: Draws) -> DrawnHaze:
        gamma = draws.log_uniform(common.density.depth_gamma)
        distance = _distance(draws.uniform(self.near), gamma, _prior_share(common.geometry, images, draws), draws)
        colour = draws.uniform(self.airlight)[:, None].expand(-1, 3)
        return _plain(distance, draws.log_uniform(self.optical_depth), colour, _noise(common.camera, draws))


@dataclass(frozen=True)
class OutdoorPairHaze(PairHaze):
    """The haze of the outdoor half of such sets: thinner and more even, under bright air."""

    optical_depth: Range = (0.26, 0.9)
    near: Range = (0.4, 0.72)
    airlight: Range = (0.79, 1.0)


@dataclass(frozen=True)
class VariedHaze(KindOfHaze):
    """Haze of any density, colour and unevenness."""

    share: float = 1.0
    brightness: Range = (0.6, 1.0)  # brightness of the airlight
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

    def draw(self, common: "HazeConfig", images: ImageFacts, maps: Tensor, draws: Draws) -> DrawnHaze:
        """Draw haze of the common density under an airlight of its own."""
        distance, scattering, even = _draw_density(common, common.density.beta, images, maps, draws)
        level = torch.where(even, draws.uniform(self.uniform_brightness), draws.uniform(self.brightness))
        from_scene = (images.brightness * draws.uniform((0.9, 1.15))).clamp(0.5, 1.0)
        level = torch.where(draws.chance(self.scene_probability), from_scene, level)
        airlight = Airlight(
            colour=(level[:, None] * _tint(self.tint_std, draws)).clamp(0.3, 1.0),
            slope=_slope(self.gradient, draws),
            gamma=_tone_gamma(self.linear_light_probability, common.camera, draws),
        )
        fog = draws.chance(self.fog_probability) * draws.uniform(FOG_SHARE)
        saturation, black = _grey_days(common.camera, draws)
        noise = _noise(common.camera, draws)
        return DrawnHaze(distance, scattering, airlight, fog, torch.ones(draws.n), saturation, black, noise)


@dataclass(frozen=True)
class FootageHaze(KindOfHaze):
    """The haze of real footage: dimmer, coloured, mixed into the light, over a dimmed scene."""

    filmed: ClassVar[bool] = True
    TINT_STD: ClassVar[float] = 0.04
    LINEAR_LIGHT_PROBABILITY: ClassVar[float] = 0.85
    DARKENING: ClassVar[Range] = (1.0, 2.2)
    """Exponent of the light of scenes that are darker under the haze than in the target."""
    beta: Range = (0.25, 2.8)
    """Scattering over the normalised depth, drawn log-uniformly: real fog is often denser than that of data sets."""
    brightness: Range = (0.35, 1.0)  # brightness of the airlight
    gradient: float = 0.08
    """Largest relative change of the airlight across the frame, in 40 % of the samples."""
    darkening_probability: float = 0.5
    """Samples whose scene is darker under the haze than in the target."""
    opaque: Range = (0.0, 0.0)
    """Transmission under which the target keeps haze, so that nobody has to guess what is behind dense fog."""
    dusk_probability: float = 0.0
    """Of those with a sky, samples whose ground is dim, in the target too: fog over dark hills."""
    dusk: Range = (0.25, 0.75)  # share of the light that is left on the ground in those
    fog_probability: float = 0.0
    """Samples whose sky, where there is one, is fog: real fog hides the sky."""

    def draw(self, common: "HazeConfig", images: ImageFacts, maps: Tensor, draws: Draws) -> DrawnHaze:
        """Draw haze of the common density as a camera films it. The recording adds its own noise."""
        distance, scattering, even = _draw_density(common, self.beta, images, maps, draws)
        beta = (
            scattering.beta * torch.where(even, EVEN_BETA / scattering.beta.amax(1).clamp_min(EVEN_BETA), 1.0)[:, None]
        )
        nearest = torch.where(even, 1.0, NEAREST / beta.amax(1).clamp_min(NEAREST))
        distance = replace(distance, near=distance.near.minimum(nearest))
        dimmed = draws.chance(self.darkening_probability) & (scattering.beta.amax(1) > 0)
        darkening = torch.where(dimmed, draws.uniform(self.DARKENING), 1.0)
        scattering = replace(scattering, beta=beta, darkening=darkening, opaque=draws.uniform(self.opaque))
        airlight = Airlight(
            colour=(draws.uniform(self.brightness)[:, None] * _tint(self.TINT_STD, draws)).clamp(0.25, 1.0),
            slope=_slope(self.gradient, draws),
            gamma=_tone_gamma(self.LINEAR_LIGHT_PROBABILITY, common.camera, draws),
        )
        fog = draws.chance(self.fog_probability) * draws.uniform(FOG_SHARE)
        dusk = draws.chance(self.dusk_probability) & (images.skyline > 0)
        daylight = torch.where(dusk, draws.uniform(self.dusk), 1.0)
        saturation, black = _grey_days(common.camera, draws)
        return DrawnHaze(distance, scattering, airlight, fog, daylight, saturation, black, torch.zeros(draws.n))


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
    def kinds(self) -> list[KindOfHaze]:
        """All kinds, in the order of the fields."""
        return list(self._named_kinds().values())

    @property
    def shares(self) -> dict[str, float]:
        """The share of every kind in all samples, by name."""
        kinds = self._named_kinds()
        whole = sum(kind.share for kind in kinds.values())
        return {name: kind.share / whole for name, kind in kinds.items()}

    def _named_kinds(self) -> dict[str, KindOfHaze]:
        return {f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), KindOfHaze)}


def _plain(distance: Distance, beta: Tensor, colour: Tensor, noise: Tensor) -> DrawnHaze:
    """One density and one colour, [n] and [n, 3], for all places: no fog in the sky, no dusk, no grey day."""
    n = len(beta)
    zeros, ones = torch.zeros(n), torch.ones(n)
    scattering = Scattering(
        beta=beta[:, None].expand(n, 3),
        residual_beta=torch.zeros(n, 3),
        min_transmission=zeros,
        darkening=ones,
        opaque=zeros,
        patches=torch.zeros(n, 1, CELLS, CELLS),
    )
    airlight = Airlight(colour=colour, slope=torch.zeros(n, 2), gamma=ones)
    return DrawnHaze(distance, scattering, airlight, zeros, ones, ones, zeros, noise)


def _draw_density(
    common: HazeConfig, betas: Range, images: ImageFacts, maps: Tensor, draws: Draws
) -> tuple[Distance, Scattering, Tensor]:  # and [n] bool, samples with uniform haze
    """Draw how dense the haze is, where it lies, and what of it stays in the target."""
    density = common.density
    beta = torch.where(draws.chance(density.clear_probability), 0.0, draws.log_uniform(betas))
    even = draws.chance(density.uniform_probability)
    near = torch.where(even, draws.uniform(UNIFORM_NEAR), draws.uniform(density.near))
    blueness = draws.uniform((-0.2 * density.wavelength_spread, density.wavelength_spread))
    per_channel = 1 + blueness[:, None] * torch.tensor([-0.5, 0.0, 0.5])
    residual = draws.chance(density.residual_probability) * draws.uniform(RESIDUAL_BETA)
    uneven = draws.chance(density.patch_probability) * draws.uniform(PATCH_STRENGTH)
    patches = draws.cells(1) * uneven[:, None, None, None]
    in_banks = draws.chance(density.bank_probability)
    patches[in_banks] = _banks(maps, Draws(int(in_banks.sum()), draws.generator))
    scattering = Scattering(
        beta=beta[:, None] * per_channel,
        residual_beta=residual[:, None] * per_channel,
        min_transmission=draws.uniform(density.min_transmission),
        darkening=torch.ones(draws.n),
        opaque=torch.zeros(draws.n),
        patches=patches,
    )
    gamma = draws.log_uniform(density.depth_gamma)
    return _distance(near, gamma, _prior_share(common.geometry, images, draws), draws), scattering, even


def _banks(
    maps: Tensor,  # [M, side, side] in [0, 1], density maps; M may be 0
    draws: Draws,
) -> Tensor:  # [n, 1, CELLS, CELLS] in [-1, 1]
    """Banks of haze: over the ground, or as in a part of a density map."""
    height = torch.linspace(0, 1, CELLS).view(CELLS, 1) + draws.rand(CELLS, CELLS) * 0.3
    top, softness = (draws.uniform(bounds)[:, None, None] for bounds in ((0.3, 0.8), (0.05, 0.3)))
    shape = torch.sigmoid((height - top) / softness)
    if len(maps):
        which, corners = draws.whole(len(maps)), (draws.rand(2) * (maps.shape[-1] - CELLS)).round().long()
        for sample in torch.nonzero(draws.chance(0.5))[:, 0]:
            y, x = corners[sample]
            shape[sample] = maps[which[sample], y : y + CELLS, x : x + CELLS]
    return (draws.uniform((0.4, 0.95))[:, None, None] * (2 * shape - 1))[:, None]


def _distance(near: Tensor, gamma: Tensor, prior_share: Tensor, draws: Draws) -> Distance:
    """Complete a distance with a random prior: a ramp below a horizon, and smooth relief."""
    return Distance(
        near=near,
        gamma=gamma,
        prior_share=prior_share,
        horizon=draws.uniform((0.05, 0.55)),
        ramp_power=torch.exp(draws.uniform((-0.7, 0.5))),
        relief=draws.rand(1, CELLS, CELLS),
        relief_share=draws.uniform((0.05, 0.5)),
    )


def _prior_share(geometry: GeometryConfig, images: ImageFacts, draws: Draws) -> Tensor:  # [n]
    """How much of the depth is the prior. Images without a depth map use the prior alone."""
    only_prior = draws.chance(geometry.prior_depth_probability) | ~images.has_depth
    return torch.where(only_prior, 1.0, draws.uniform((0.0, geometry.prior_depth_blend)))


def _grey_days(camera: CameraConfig, draws: Draws) -> tuple[Tensor, Tensor]:  # [n] each
    """Saturation and black level; some days are dull."""
    dull = draws.chance(camera.dull_probability)
    return torch.where(dull, draws.uniform((0.45, 1.0)), 1.0), torch.where(dull, draws.uniform((0.0, 0.06)), 0.0)


def _noise(camera: CameraConfig, draws: Draws) -> Tensor:  # [n]
    return draws.uniform((0.0, camera.noise_std)) * draws.chance(0.5)


def _tint(std: float, draws: Draws) -> Tensor:  # [n, 3], factors
    """Blue to yellow, and half as much per channel."""
    return 1 + (draws.normal(1) * torch.tensor([-1.0, 0.0, 1.0]) + draws.normal(3) / 2) * std


def _slope(gradient: float, draws: Draws) -> Tensor:  # [n, 2]
    return (draws.rand(2) * 2 - 1) * gradient * draws.chance(0.4, 1)


def _tone_gamma(probability: float, camera: CameraConfig, draws: Draws) -> Tensor:  # [n]
    """The exponent of samples whose haze is mixed into the light; 1 mixes stored values."""
    return torch.where(draws.chance(probability), draws.uniform(camera.tone_gamma), 1.0)
