"""Draws everything random about a batch of hazy samples, within the ranges of `HazeConfig`.

Draws are made for the whole batch of all processes from a generator seeded by the step. So a step can be repeated,
resumed, or split over processes and always sees the same haze; sensor noise alone is each process's own.
"""

from dataclasses import replace

import torch
from torch import Tensor

from libranet.haze.config import CameraConfig, GeometryConfig, SkyConfig
from libranet.haze.draws import Draws
from libranet.haze.images import ImageBank, ImageFacts
from libranet.haze.kinds import DrawnHaze, HazeConfig
from libranet.haze.parameters import Camera, HazeParameters, Sky, View, map_tensors, rows

BLUE, WARM = 0.8, 0.1  # shares of drawn skies, about as in photos; the others are grey
SKY_FACTORS = (0.25, 2.5)
"""How far a sky's colour may be moved: beyond that, clouds would turn to noise."""
MIN_OPEN_SKY = 0.12
"""Share of the height that has to be nothing but sky for an image to lend its sky to others."""


def draw_samples(
    config: HazeConfig,
    bank: ImageBank,
    index: Tensor,  # [B], which image each sample shows
    size: tuple[int, int],  # height and width of the crops
    generator: torch.Generator,
    *,
    outputs: int = 1,
) -> tuple[HazeParameters, Tensor]:  # and [B] int64, which of `config.kinds` each sample has
    """Draw a batch of samples with `outputs` consecutive windows each."""
    draws, aspect = Draws(len(index), generator), bank.fine.shape[-1] / bank.fine.shape[-2]
    # A still window shows no motion, but two of them a frame apart do.
    geometry = config.geometry
    if outputs > 1 and geometry.still_probability == 1:
        geometry = replace(geometry, still_probability=0.0)
    view = _draw_view(geometry, bank.facts.width[index], index, size[1] / size[0], aspect, draws)
    shares = torch.tensor([kind.share for kind in config.kinds])
    kinds = torch.multinomial(shares, len(index), replacement=True, generator=generator)
    haze = _draw_kinds(config, rows(bank.facts, index), bank.density, kinds, generator)
    camera = _draw_camera(config.camera, haze, draws)
    sky = _draw_sky(config.sky, bank.facts, index, haze.fog, camera, draws)
    return HazeParameters(view, haze.distance, haze.scattering, haze.airlight, camera, sky), kinds


def _draw_kinds(
    config: HazeConfig, images: ImageFacts, maps: Tensor, kinds: Tensor, generator: torch.Generator
) -> DrawnHaze:
    """Let every kind draw its own samples, and bring them back into order."""
    places = [torch.nonzero(kinds == number)[:, 0] for number in range(len(config.kinds))]
    drawn = [
        kind.draw(config, rows(images, place), maps, Draws(len(place), generator))
        for kind, place in zip(config.kinds, places, strict=True)
        if len(place)
    ]
    order = torch.cat(places).argsort()
    return map_tensors(lambda *parts: torch.cat(parts)[order], *drawn)


def _draw_view(
    config: GeometryConfig,
    used: Tensor,  # [B], share of the canvas's width that each image fills
    index: Tensor,  # [B]
    crop: float,  # width of a crop relative to its height
    canvas: float,  # width of a canvas relative to its height
    draws: Draws,
) -> View:
    """Draw crops inside the images, and how the camera moves."""
    jitter = config.aspect_jitter
    aspect = crop * torch.exp(draws.uniform((-jitter, jitter)))
    half_y = draws.uniform(config.zoom) * (used * canvas / aspect).clamp_max(1)
    half_x = half_y * aspect / canvas
    centre_x = (used - 1) + draws.uniform((-1, 1)) * (used - half_x).clamp_min(0)
    centre_y = draws.uniform((-1, 1)) * (1 - half_y).clamp_min(0)
    speed = config.motion * ~draws.chance(config.still_probability)
    return View(
        image=index,
        centre=torch.stack([centre_x, centre_y], -1),
        half_size=torch.stack([half_x, half_y], -1),
        mirror=torch.where(draws.chance(0.5), -1.0, 1.0),
        pan=(draws.rand(2) * 2 - 1) * speed[:, None],
        zoom=draws.uniform((-1, 1)) * speed,
        parallax=draws.uniform((-1, 1)) * speed,
        used_width=used,
    )


def _draw_camera(config: CameraConfig, haze: DrawnHaze, draws: Draws) -> Camera:
    """Let some clear images look as if another camera had taken them: their colours cannot be learnt by heart.

    Strong white balances make an image more colourful, so the saturation lies below 1 on average.
    """
    chosen, by = draws.chance(config.jitter_probability), config.jitter_strength
    shading = draws.uniform((0.0, config.shading))[:, None, None, None] * (draws.cells(1) * 2 + draws.cells(3)) / 3
    return Camera(
        white_balance=torch.where(chosen[:, None], torch.exp(draws.normal(3) * config.white_balance_std), 1.0),
        tone=torch.where(chosen, torch.exp(draws.normal() * 0.12 * by), 1.0),
        saturation=haze.saturation * torch.where(chosen, draws.log_uniform((0.75**by, 1.18**by)), 1.0),
        black_level=haze.black_level,
        noise=haze.noise,
        shading=(1 + shading) * haze.daylight[:, None, None, None] - 1,
    )


def _draw_sky(
    config: SkyConfig,
    facts: ImageFacts,
    index: Tensor,  # [B]
    fog: Tensor,  # [B]
    camera: Camera,
    draws: Draws,
) -> Sky:
    """Give some images with a sky another one's, stretched to reach their skyline, and some skies another colour."""
    donor, stretch = index, torch.zeros(draws.n)
    if len(donors := torch.nonzero(facts.open_sky >= MIN_OPEN_SKY)[:, 0]):
        drawn = donors[draws.whole(len(donors))]
        swapped = draws.chance(config.swap_probability) & (facts.skyline[index] > 0)
        stretch = torch.where(swapped, facts.open_sky[drawn] / facts.skyline[index].clamp_min(1e-3), 0.0)
        donor = torch.where(swapped, drawn, index)
    colour = facts.sky[donor]
    chosen = draws.chance(config.recolour_probability) & (colour.amin(1) > 0)
    gain = torch.where(chosen[:, None], _recolour(colour, draw_sky_colours(draws), camera), 1.0)
    return Sky(gain=gain, fog=fog, donor=donor, stretch=stretch, donor_width=facts.width[donor])


def _recolour(
    colour: Tensor,  # [B, 3], mean colour of each sample's sky
    wanted: Tensor,  # [B, 3]
    camera: Camera,
) -> Tensor:  # [B, 3]
    """Factors that bring skies to the wanted colour, whatever their camera does to it."""
    saturation, black, tone = (v[:, None] for v in (camera.saturation, camera.black_level, camera.tone))
    wanted = (wanted - black) / (1 - black)
    grey = wanted.mean(1, keepdim=True)
    before_saturation = (grey + (wanted - grey) / saturation).clamp(0, 1)
    as_seen = (colour * camera.white_balance).clamp(1 / 255, 1) ** tone
    return (before_saturation / as_seen).clamp(*SKY_FACTORS)


def draw_sky_colours(draws: Draws) -> Tensor:  # [n, 3] in [0, 1]
    """Draw colours as skies have them in photos.

    They are bright, most of them blue, pale more often than deep; some are warm, as at dusk; the others are grey to
    white. The median of the brightest channel is 0.8, and it is under 0.55 in one of twenty.
    """
    kind, darkness = draws.rand(), draws.rand() ** 1.25
    most = torch.where(kind < BLUE, 0.8, torch.where(kind < BLUE + WARM, 0.45, 0.04))
    least = most * draws.rand() ** 1.2  # how much of the brightness the darkest channel lacks
    middle = least * draws.uniform((0.3, 0.65))
    from_bright = torch.stack([torch.zeros(draws.n), middle, least], 1)
    lack = torch.where((kind < BLUE)[:, None], from_bright.flip(1), from_bright)
    return (1 - 0.48 * darkness)[:, None] * (1 - lack)
