"""Draws everything random about a batch of hazy samples, within the ranges of `HazeConfig`.

Draws are made for the whole batch of all processes from a generator seeded by the step. So a step can be repeated,
resumed, or split over processes and always sees the same haze; sensor noise alone is each process's own.
"""

import torch
from torch import Tensor

from libranet.haze.config import CameraConfig, GeometryConfig
from libranet.haze.draws import chance, log_uniform, smooth_field, uniform
from libranet.haze.images import ImageBank, ImageFacts
from libranet.haze.kinds import DrawnHaze, HazeConfig
from libranet.haze.parameters import Camera, HazeParameters, Sky, View, map_tensors, rows

BLUE, WARM = 0.8, 0.1
"""Shares of drawn skies, about as in photos; the others are grey."""
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
    facts, aspect = bank.facts, bank.fine.shape[-1] / bank.fine.shape[-2]
    view = _draw_view(config.geometry, facts, index, size, aspect, generator, outputs=outputs)
    shares = torch.tensor([kind.share for kind in config.kinds])
    kinds = torch.multinomial(shares, len(index), replacement=True, generator=generator)
    haze = _draw_kinds(config, rows(facts, index), bank.density, kinds, generator)
    camera = _draw_camera(config.camera, haze, generator)
    sky = _draw_sky(config, facts, index, haze.fog, camera, generator)
    return HazeParameters(view, haze.distance, haze.scattering, haze.airlight, camera, sky), kinds


def _draw_kinds(
    config: HazeConfig, images: ImageFacts, maps: Tensor, kinds: Tensor, generator: torch.Generator
) -> DrawnHaze:
    """Let every kind draw its own samples, and bring them back into order."""
    places = [torch.nonzero(kinds == number)[:, 0] for number in range(len(config.kinds))]
    drawn = [
        kind.draw(config, rows(images, place), maps, generator)
        for kind, place in zip(config.kinds, places, strict=True)
        if len(place)
    ]
    order = torch.cat(places).argsort()
    return map_tensors(lambda *parts: torch.cat(parts)[order], *drawn)


def _draw_view(
    config: GeometryConfig,
    facts: ImageFacts,
    index: Tensor,  # [B]
    size: tuple[int, int],
    canvas: float,  # width of a canvas relative to its height
    generator: torch.Generator,
    *,
    outputs: int,
) -> View:
    """Draw crops inside the images, and how the camera moves."""
    n, used, jitter = len(index), facts.width[index], config.aspect_jitter
    aspect = size[1] / size[0] * torch.exp(uniform(n, (-jitter, jitter), generator))
    half_y = uniform(n, config.zoom, generator) * torch.minimum(used * canvas / aspect, torch.ones(n))
    half_x = half_y * aspect / canvas
    centre_x = (used - 1) + (torch.rand(n, generator=generator) * 2 - 1) * (used - half_x).clamp_min(0)
    centre_y = (torch.rand(n, generator=generator) * 2 - 1) * (1 - half_y).clamp_min(0)
    mirror = torch.where(chance(n, 0.5, generator), -1.0, 1.0)
    # A still window shows no motion, but two of them a frame apart do.
    always_moving = outputs > 1 and config.still_probability == 1
    speed = config.motion * (chance(n, config.still_probability, generator).logical_not() | always_moving)

    def moves(*shape: int) -> Tensor:
        return (torch.rand(n, *shape, generator=generator) * 2 - 1) * speed.view(-1, *[1] * len(shape))

    return View(
        image=index,
        centre=torch.stack([centre_x, centre_y], -1),
        half_size=torch.stack([half_x, half_y], -1),
        mirror=mirror,
        pan=moves(2),
        zoom=moves(),
        parallax=moves(),
        used_width=used,
    )


def _draw_camera(config: CameraConfig, haze: DrawnHaze, generator: torch.Generator) -> Camera:
    """Let some clear images look as if another camera had taken them: their colours cannot be learnt by heart.

    Strong white balances make an image more colourful, so the saturation lies below 1 on average.
    """
    n, by = len(haze.noise), config.jitter_strength
    chosen = chance(n, config.jitter_probability, generator)

    def factor(spread: float, *shape: int) -> Tensor:
        return torch.exp(torch.randn(n, *shape, generator=generator) * spread)

    strength = uniform(n, (0.0, config.shading), generator)[:, None, None, None]
    shading = strength * (smooth_field(n, 1, generator) * 2 + smooth_field(n, 3, generator)) / 3
    return Camera(
        white_balance=torch.where(chosen[:, None], factor(config.white_balance_std, 3), 1.0),
        tone=torch.where(chosen, factor(0.12 * by), 1.0),
        saturation=haze.saturation * torch.where(chosen, log_uniform(n, (0.75**by, 1.18**by), generator), 1.0),
        black_level=haze.black_level,
        noise=haze.noise,
        shading=(1 + shading) * haze.daylight[:, None, None, None] - 1,
    )


def _draw_sky(
    config: HazeConfig,
    facts: ImageFacts,
    index: Tensor,  # [B]
    fog: Tensor,  # [B]
    camera: Camera,
    generator: torch.Generator,
) -> Sky:
    """Give some images with a sky another one's, stretched to reach their skyline, and some skies another colour."""
    n, donor, stretch = len(index), index, torch.zeros(len(index))
    if len(donors := torch.nonzero(facts.open_sky >= MIN_OPEN_SKY)[:, 0]):
        drawn = donors[torch.randint(len(donors), (n,), generator=generator)]
        swapped = chance(n, config.sky.swap_probability, generator) & (facts.skyline[index] > 0)
        stretch = torch.where(swapped, facts.open_sky[drawn] / facts.skyline[index].clamp_min(1e-3), 0.0)
        donor = torch.where(swapped, drawn, index)
    colour = facts.sky[donor]
    chosen = chance(n, config.sky.recolour_probability, generator) & (colour.amin(1) > 0)
    gain = torch.where(chosen[:, None], _recolour(colour, draw_sky_colours(n, generator), camera), 1.0)
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
