"""Draws everything random about a batch of hazy samples, within the ranges of `HazeConfig`.

Draws are made for the whole batch of all processes from a generator seeded by the step. So a step can be repeated,
resumed, or split over processes and always sees the same haze; sensor noise alone is each process's own.
"""

import math
from dataclasses import fields, replace
from typing import TypeVar

import torch
from torch import Tensor

from libranet.kernels.haze.reference import CELLS, Airlight, Camera, Distance, HazeParameters, Scattering, Sky, View
from libranet.synth.scattering import REGIMES
from libranet.training.config import GeometryConfig, HazeConfig, PairsConfig
from libranet.training.image_bank import ImageBank

BLUE, WARM = 0.8, 0.1
"""Shares of drawn skies, about as in photos; the others are grey."""
SKY_FACTORS = (0.25, 2.5)
"""How far a sky's colour may be moved: beyond that, clouds would turn to noise."""
MIN_OPEN_SKY = 0.12
"""Share of the height that has to be nothing but sky for an image to lend its sky to others."""

Group = TypeVar("Group")


def uniform(count: int, bounds: tuple[float, float], generator: torch.Generator) -> Tensor:  # [count]
    """Draw numbers uniformly."""
    return torch.rand(count, generator=generator) * (bounds[1] - bounds[0]) + bounds[0]


def log_uniform(count: int, bounds: tuple[float, float], generator: torch.Generator) -> Tensor:  # [count]
    """Draw numbers uniformly in the logarithm; uniformly as they are where the range begins at zero."""
    if bounds[0] <= 0:
        return uniform(count, bounds, generator).clamp_min(1e-6)
    return torch.exp(uniform(count, (math.log(bounds[0]), math.log(bounds[1])), generator))


def chance(count: int, probability: float, generator: torch.Generator) -> Tensor:  # [count] bool
    """Draw which samples something happens to."""
    return torch.rand(count, generator=generator) < probability


def choose_images(images: int, count: int, generator: torch.Generator) -> Tensor:  # [count] int64
    """Choose which image of the bank each sample shows."""
    _skip(count, generator)  # rendered scenes apart from photos
    return (torch.rand(count, generator=generator) * images).long().clamp_max(images - 1)


def draw_parameters(
    config: HazeConfig,
    bank: ImageBank,
    index: Tensor,  # [B], which image each sample shows
    size: tuple[int, int],  # height and width of the crops
    generator: torch.Generator,
    *,
    outputs: int = 1,
) -> HazeParameters:
    """Draw a batch of samples with `outputs` consecutive windows each."""
    # A still window shows no motion, but two of them a frame apart do.
    always_moving = outputs > 1 and config.geometry.still_probability == 1
    view = draw_view(config.geometry, bank, index, size, generator, always_moving=always_moving)
    sky = draw_donors(config.sky.swap_probability, bank, index, generator)
    return draw_haze(config, view, sky, bank, generator)


def draw_view(
    config: GeometryConfig,
    bank: ImageBank,
    index: Tensor,  # [B]
    size: tuple[int, int],
    generator: torch.Generator,
    *,
    always_moving: bool = False,
) -> View:
    """Draw crops inside the images, and how the camera moves."""
    n = len(index)
    canvas = bank.fine.shape[-1] / bank.fine.shape[-2]
    used = bank.width[index]
    jitter = config.aspect_jitter
    aspect = size[1] / size[0] * torch.exp(uniform(n, (-jitter, jitter), generator))
    _skip(n, generator)  # a camera that leans to a side
    half_y = uniform(n, config.zoom, generator) * torch.minimum(used * canvas / aspect, torch.ones(n))
    half_x = half_y * aspect / canvas
    centre_x = (used - 1) + (torch.rand(n, generator=generator) * 2 - 1) * (used - half_x).clamp_min(0)
    centre_y = (torch.rand(n, generator=generator) * 2 - 1) * (1 - half_y).clamp_min(0)
    mirror = torch.where(chance(n, 0.5, generator), -1.0, 1.0)
    still = chance(n, config.still_probability, generator)
    speed = config.motion * (torch.ones(n) if always_moving else ~still)
    return View(
        image=index,
        centre=torch.stack([centre_x, centre_y], -1),
        half_size=torch.stack([half_x, half_y], -1),
        mirror=mirror,
        motion=(torch.rand(n, 4, generator=generator) * 2 - 1) * speed[:, None],
        used_width=used,
    )


def draw_donors(probability: float, bank: ImageBank, index: Tensor, generator: torch.Generator) -> Sky:
    """Give some images with a sky another one's, stretched to reach their skyline."""
    n, open_sky = len(index), bank.open_sky
    donor, stretch = index, torch.zeros(n)
    if probability > 0 and len(donors := torch.nonzero(open_sky >= MIN_OPEN_SKY)[:, 0]):
        drawn = donors[torch.randint(len(donors), (n,), generator=generator)]
        swapped = chance(n, probability, generator) & (bank.skyline[index] > 0)
        stretch = torch.where(swapped, open_sky[drawn] / bank.skyline[index].clamp_min(1e-3), 0.0)
        donor = torch.where(swapped, drawn, index)
    return Sky(gain=torch.ones(n, 3), fog=torch.zeros(n), donor=donor, stretch=stretch, donor_width=bank.width[donor])


def draw_haze(config: HazeConfig, view: View, sky: Sky, bank: ImageBank, generator: torch.Generator) -> HazeParameters:
    """Draw haze, light and colours for views. Images without a depth map use the random prior alone."""
    density, light, camera, geometry = config.density, config.airlight, config.camera, config.geometry
    n, brightness, has_depth = len(view.image), bank.brightness[view.image], bank.has_depth[view.image]
    beta, near = log_uniform(n, density.beta, generator), uniform(n, density.near, generator)
    gamma = log_uniform(n, density.depth_gamma, generator)
    even = chance(n, density.uniform_probability, generator)
    near = torch.where(even, uniform(n, (0.75, 1.0), generator), near)
    beta = torch.where(chance(n, density.clear_probability, generator), torch.zeros(n), beta)
    blueness = uniform(n, (-0.2 * density.wavelength_spread, density.wavelength_spread), generator)
    per_channel = 1 + blueness[:, None] * torch.tensor([-0.5, 0.0, 0.5])
    residual = chance(n, config.residual.probability, generator)
    residual_beta = residual * uniform(n, (0.0, config.residual.max_beta), generator)

    blend = uniform(n, (0.0, geometry.prior_depth_blend), generator)
    only_prior = chance(n, geometry.prior_depth_probability, generator) | ~has_depth

    level = torch.where(even, uniform(n, light.uniform_brightness, generator), uniform(n, light.brightness, generator))
    from_scene = (brightness * uniform(n, (0.9, 1.15), generator)).clamp(0.5, 1.0)
    level = torch.where(chance(n, light.scene_probability, generator), from_scene, level)
    tint = torch.randn(n, 1, generator=generator) * light.tint_std * torch.tensor([-1.0, 0.0, 1.0])
    tint = tint + torch.randn(n, 3, generator=generator) * (light.tint_std / 2)
    slope = (torch.rand(n, 2, generator=generator) * 2 - 1) * light.gradient
    dull = chance(n, camera.dull_probability, generator)

    # The order of draws is part of a seed's meaning: from here on they follow the groups.
    distance = Distance(
        near=near,
        gamma=gamma,
        prior_share=torch.where(only_prior, torch.ones(n), blend),
        horizon=uniform(n, (0.05, 0.55), generator),
        ramp_power=torch.exp(uniform(n, (-0.7, 0.5), generator)),
        relief=torch.rand(n, 1, CELLS, CELLS, generator=generator),
        relief_share=uniform(n, (0.05, 0.5), generator),
    )
    patches = torch.rand(n, 1, CELLS, CELLS, generator=generator) * 2 - 1
    uneven = chance(n, density.patch_probability, generator)
    patches = patches * _cells(uneven * uniform(n, (0.1, density.patch_strength), generator))
    min_transmission = uniform(n, density.min_transmission, generator)
    airlight = Airlight(
        colour=(level[:, None] * (1 + tint)).clamp(0.3, 1.0),
        slope=slope * chance(n, 0.4, generator)[:, None],
        gamma=torch.ones(n),
    )
    drawn = HazeParameters(
        view=view,
        distance=distance,
        scattering=Scattering(
            beta=beta[:, None] * per_channel,
            residual_beta=residual_beta[:, None] * per_channel,
            min_transmission=min_transmission,
            darkening=torch.ones(n),
            opaque=torch.zeros(n),
            patches=patches,
        ),
        airlight=airlight,
        camera=Camera(
            white_balance=torch.ones(n, 3),
            tone=torch.ones(n),
            noise=uniform(n, (0.0, camera.noise_std), generator) * chance(n, 0.5, generator),
            saturation=torch.where(dull, uniform(n, (0.45, 1.0), generator), torch.ones(n)),
            black_level=torch.where(dull, uniform(n, (0.0, 0.06), generator), torch.zeros(n)),
            shading=torch.zeros(n, 3, CELLS, CELLS),
            filmed=torch.zeros(n, dtype=torch.bool),
        ),
        sky=sky,
    )
    if camera.shading > 0:
        grey, colour = (torch.rand(n, k, CELLS, CELLS, generator=generator) * 2 - 1 for k in (1, 3))
        strength = _cells(uniform(n, (0.0, camera.shading), generator))
        drawn = replace(drawn, camera=replace(drawn.camera, shading=strength * (grey * 2 + colour) / 3))
    in_regime = chance(n, config.regimes.probability, generator)
    special = in_regime  # neither fog in the sky, nor haze in banks, nor a camera's own look
    if config.pairs.probability > 0:
        special = in_regime | chance(n, config.pairs.probability, generator)
    if config.sky.fog_probability > 0:
        foggy = chance(n, config.sky.fog_probability, generator) & ~special
        drawn = replace(drawn, sky=replace(drawn.sky, fog=foggy * uniform(n, (0.8, 1.0), generator)))
    if config.regimes.probability > 0:
        drawn = _with_regimes(drawn, config, in_regime, has_depth, generator)
    if config.pairs.probability > 0:
        drawn = _with_pairs(drawn, config.pairs, special & ~in_regime, generator)
    if camera.linear_light_probability > 0:
        linear = chance(n, camera.linear_light_probability, generator) & ~special
        exponent = torch.where(linear, uniform(n, camera.tone_gamma, generator), drawn.airlight.gamma)
        drawn = replace(drawn, airlight=replace(drawn.airlight, gamma=exponent))
    if density.bank_probability > 0:
        drawn = replace(drawn, scattering=_with_banks(drawn.scattering, config, special, bank.density, generator))
    if config.footage.probability > 0:
        filmed = chance(n, config.footage.probability, generator) & ~special
        drawn = _with_footage(drawn, config, filmed, bank.skyline[view.image] > 0, generator)
    if camera.jitter_probability > 0:
        drawn = replace(drawn, camera=_with_colour_jitter(drawn.camera, config, generator))
    if config.sky.recolour_probability > 0:
        drawn = replace(drawn, sky=_with_other_colours(drawn, config, bank.sky[drawn.sky.donor], generator))
    return drawn


def _with_banks(
    scattering: Scattering,
    config: HazeConfig,
    special: Tensor,  # [B] bool, samples whose haze is given
    maps: Tensor,  # [M, h, w] in [0, 1], density maps; M may be 0
    generator: torch.Generator,
) -> Scattering:
    """Let the haze of some samples lie in banks: over the ground, or as in a part of a density map."""
    n = len(special)
    chosen = chance(n, config.density.bank_probability, generator) & ~special
    height = torch.linspace(0, 1, CELLS).view(1, CELLS, 1).expand(n, CELLS, CELLS)
    top, softness = uniform(n, (0.3, 0.8), generator), uniform(n, (0.05, 0.3), generator)
    unrest = torch.rand(n, CELLS, CELLS, generator=generator) * 0.3
    shape = torch.sigmoid((height + unrest - top[:, None, None]) / softness[:, None, None])
    if len(maps):
        which = torch.randint(len(maps), (n,), generator=generator)
        rows, columns = (torch.rand(n, generator=generator) for _ in range(2))
        cut = torch.stack([_cut(maps[i], float(y), float(x)) for i, y, x in zip(which, rows, columns, strict=True)])
        shape = torch.where(chance(n, 0.5, generator)[:, None, None], cut, shape)
    strength = uniform(n, (0.4, 0.95), generator)[:, None, None]
    patches = (strength * (2 * shape - 1))[:, None]  # [B, 1, CELLS, CELLS] in [-1, 1]
    return replace(scattering, patches=torch.where(_cells(chosen), patches, scattering.patches))


def _cut(density: Tensor, y: float, x: float) -> Tensor:  # [CELLS, CELLS]
    """Cut a part out of a density map; y and x in [0, 1] say where."""
    top, left = (round(at * (side - CELLS)) for at, side in zip((y, x), density.shape, strict=True))
    return density[top : top + CELLS, left : left + CELLS]


def _with_footage(
    drawn: HazeParameters,
    config: HazeConfig,
    filmed: Tensor,  # [B] bool
    has_sky: Tensor,  # [B] bool
    generator: torch.Generator,
) -> HazeParameters:
    """Give some samples the haze of real footage: dimmer, coloured, mixed into the light, over a dimmed scene."""
    n, footage = len(drawn), config.footage
    level = uniform(n, footage.brightness, generator)[:, None]
    tint = torch.randn(n, 1, generator=generator) * torch.tensor([-1.0, 0.0, 1.0])
    tint = (tint + torch.randn(n, 3, generator=generator) / 2) * footage.tint_std
    linear = chance(n, footage.linear_light_probability, generator)
    gamma = torch.where(linear, uniform(n, config.camera.tone_gamma, generator), 1.0)
    dimmed = chance(n, footage.darkening_probability, generator) & (drawn.scattering.beta.amax(1) > 0)
    darkening = torch.where(dimmed, uniform(n, footage.darkening, generator), 1.0)
    light, scattering = drawn.airlight, drawn.scattering
    scattering = replace(scattering, darkening=torch.where(filmed, darkening, scattering.darkening))
    if footage.opaque[1] > 0:
        opaque = uniform(n, footage.opaque, generator)
        scattering = replace(scattering, opaque=torch.where(filmed, opaque, scattering.opaque))
    noise = torch.where(filmed, 0.0, drawn.camera.noise)  # filming adds its own
    camera, sky = replace(drawn.camera, noise=noise, filmed=filmed), drawn.sky
    if footage.dusk_probability > 0:
        dusk = chance(n, footage.dusk_probability, generator) & filmed & has_sky
        left = torch.where(dusk, uniform(n, footage.dusk, generator), 1.0)
        camera = replace(camera, shading=(1 + camera.shading) * _cells(left) - 1)
    if footage.fog_probability > 0:
        foggy = chance(n, footage.fog_probability, generator) & filmed
        sky = replace(sky, fog=torch.where(foggy, uniform(n, (0.8, 1.0), generator), sky.fog))
    return replace(
        drawn,
        sky=sky,
        camera=camera,
        airlight=_choose(filmed, replace(light, colour=(level * (1 + tint)).clamp(0.25, 1.0), gamma=gamma), light),
        scattering=scattering,
    )


def _with_regimes(
    drawn: HazeParameters,
    config: HazeConfig,
    chosen: Tensor,  # [B] bool
    has_depth: Tensor,  # [B] bool
    generator: torch.Generator,
) -> HazeParameters:
    """Give the chosen samples the haze of UHV-4K instead of the drawn one. Images without depth keep their prior."""
    n, jitter = len(drawn), config.regimes.jitter
    which = torch.randint(len(REGIMES), (n,), generator=generator)
    beta = torch.tensor([regime.beta for regime in REGIMES])[which]
    beta = beta * torch.exp(torch.randn(n, generator=generator) * jitter)
    colour = torch.tensor([regime.airlight for regime in REGIMES])[which]
    colour = colour * (1 + torch.randn(n, 3, generator=generator) * (jitter / 6))
    _skip(2 * n, generator)  # another exponent of the regimes' depth, and a prior mixed into it
    zeros, ones, camera = torch.zeros(n), torch.ones(n), drawn.camera
    return replace(
        drawn,
        distance=_choose(
            chosen,
            replace(drawn.distance, near=zeros, gamma=ones, prior_share=torch.where(has_depth, 0.0, 1.0)),
            drawn.distance,
        ),
        scattering=_choose(
            chosen,
            Scattering(
                beta=beta[:, None].expand(n, 3),
                residual_beta=torch.zeros(n, 3),
                min_transmission=zeros,
                darkening=ones,
                opaque=zeros,
                patches=torch.zeros_like(drawn.scattering.patches),
            ),
            drawn.scattering,
        ),
        airlight=_choose(
            chosen, Airlight(colour=colour.clamp(0, 1), slope=torch.zeros(n, 2), gamma=ones), drawn.airlight
        ),
        camera=_choose(
            chosen,
            replace(
                camera,
                noise=camera.noise * (camera.noise < config.camera.noise_std / 4),
                saturation=ones,
                black_level=zeros,
            ),
            camera,
        ),
    )


def _with_pairs(
    drawn: HazeParameters,
    config: PairsConfig,
    chosen: Tensor,  # [B] bool
    generator: torch.Generator,
) -> HazeParameters:
    """Give the chosen samples the thin grey haze of the common sets of pairs instead of the drawn one."""
    n = len(drawn)
    depth = log_uniform(n, config.optical_depth, generator)
    near, level = uniform(n, config.near, generator), uniform(n, config.airlight, generator)
    if config.outdoor_probability > 0:
        outdoors = chance(n, config.outdoor_probability, generator)
        depth = torch.where(outdoors, log_uniform(n, config.outdoor_optical_depth, generator), depth)
        near = torch.where(outdoors, uniform(n, config.outdoor_near, generator), near)
        level = torch.where(outdoors, uniform(n, config.outdoor_airlight, generator), level)
    zeros, ones, camera = torch.zeros(n), torch.ones(n), drawn.camera
    scattering = Scattering(
        beta=depth[:, None].expand(n, 3),
        residual_beta=torch.zeros(n, 3),
        min_transmission=zeros,
        darkening=ones,
        opaque=zeros,
        patches=torch.zeros_like(drawn.scattering.patches),
    )
    light = Airlight(colour=level[:, None].expand(n, 3), slope=torch.zeros(n, 2), gamma=ones)
    return replace(
        drawn,
        distance=_choose(chosen, replace(drawn.distance, near=near), drawn.distance),
        scattering=_choose(chosen, scattering, drawn.scattering),
        airlight=_choose(chosen, light, drawn.airlight),
        camera=_choose(chosen, replace(camera, saturation=ones, black_level=zeros), camera),
    )


def _with_colour_jitter(camera: Camera, config: HazeConfig, generator: torch.Generator) -> Camera:
    """Let some clear images look as if another camera had taken them: their colours cannot be learnt by heart.

    Strong white balances make an image more colourful, so the saturation lies below 1 on average.
    """
    n, by = len(camera.tone), config.camera.jitter_strength
    chosen = chance(n, config.camera.jitter_probability, generator)

    def factor(spread: float, *shape: int) -> Tensor:
        return torch.exp(torch.randn(n, *shape, generator=generator) * spread)

    return replace(
        camera,
        white_balance=torch.where(chosen[:, None], factor(config.camera.white_balance_std, 3), camera.white_balance),
        tone=torch.where(chosen, factor(0.12 * by), camera.tone),
        saturation=camera.saturation * torch.where(chosen, log_uniform(n, (0.75**by, 1.18**by), generator), 1.0),
    )


def _with_other_colours(
    drawn: HazeParameters,
    config: HazeConfig,
    colour: Tensor,  # [B, 3], mean colour of each sample's sky, 0 where it has none
    generator: torch.Generator,
) -> Sky:
    """Bring some skies to a colour drawn from all that skies have, whatever their camera does to it."""
    n, camera = len(drawn), drawn.camera
    chosen = chance(n, config.sky.recolour_probability, generator) & (colour.amin(1) > 0)
    saturation, black, tone = (v[:, None] for v in (camera.saturation, camera.black_level, camera.tone))
    wanted = (draw_sky_colours(n, generator) - black) / (1 - black)
    grey = wanted.mean(1, keepdim=True)
    before_saturation = (grey + (wanted - grey) / saturation).clamp(0, 1)
    as_seen = (colour * camera.white_balance).clamp(1 / 255, 1) ** tone
    gain = (before_saturation / as_seen).clamp(*SKY_FACTORS)
    return replace(drawn.sky, gain=torch.where(chosen[:, None], gain, drawn.sky.gain))


def draw_sky_colours(n: int, generator: torch.Generator) -> Tensor:  # [n, 3] in [0, 1]
    """Draw colours as skies have them in photos.

    They are bright, most of them blue, pale more often than deep; some are warm, as at dusk; the others are grey to
    white. The median of the brightest channel is 0.8, and it is under 0.55 in one of twenty.
    """
    kind, darkness = torch.rand(n, generator=generator), uniform(n, (0.0, 1.0), generator) ** 1.25
    deepness = uniform(n, (0.0, 1.0), generator) ** 1.2
    most = torch.where(kind < BLUE, 0.8, torch.where(kind < BLUE + WARM, 0.45, 0.04))
    least = most * deepness  # how much of the brightness the darkest channel lacks
    middle = least * uniform(n, (0.3, 0.65), generator)
    from_bright = torch.stack([torch.zeros(n), middle, least], 1)
    lack = torch.where((kind < BLUE)[:, None], from_bright.flip(1), from_bright)
    return (1 - 0.48 * darkness)[:, None] * (1 - lack)


def _choose(chosen: Tensor, group: Group, otherwise: Group) -> Group:
    """Take the chosen samples from one group and the others from another."""

    def pick(name: str) -> Tensor:
        a, b = getattr(group, name), getattr(otherwise, name)
        return torch.where(chosen.view(-1, *[1] * (a.dim() - 1)), a, b)

    return replace(group, **{f.name: pick(f.name) for f in fields(group)})  # type: ignore[arg-type, type-var]


def _cells(value: Tensor) -> Tensor:  # [B] -> [B, 1, 1, 1]
    return value[:, None, None, None]


def _skip(count: int, generator: torch.Generator) -> None:
    """Draw numbers that nothing uses, in the place of a removed setting: a seed keeps its samples."""
    torch.rand(count, generator=generator)
