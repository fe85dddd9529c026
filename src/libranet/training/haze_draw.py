"""Random haze over clear crops: what is drawn per sample from the ranges of `haze_config`.

Draws are made for the whole batch of all processes from a generator seeded by the step, so that a step can be
repeated, resumed, or split over processes and always sees the same haze (sensor noise alone is each process's own).
"""

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.synth.scattering import REGIMES, transmission
from libranet.training.haze_config import HazeConfig

NOISE_CELLS = 9
"""Side of the coarse random fields that become smooth structure."""
SKY_LEVEL = 250
"""Depth, of 255, beyond which a picture begins to be sky; four steps later it is nothing else."""
BLUE, WARM = 0.8, 0.1
"""Shares of drawn skies, about as in photos; the others are grey."""
SKY_FACTORS = (0.25, 2.5)
"""How far a sky's colour may be moved: beyond that, clouds would turn to noise."""


@dataclass(frozen=True)
class HazeDraw:
    """One draw per sample. All tensors have the batch as their first axis."""

    beta: Tensor  # [B, 3]
    leftover: Tensor  # [B, 3], scattering of the haze that stays in the target
    near: Tensor  # [B]
    gamma: Tensor  # [B]
    prior_share: Tensor  # [B] in [0, 1], how much of the depth is the random prior
    horizon: Tensor  # [B] in [0, 1], the prior's horizon from the top
    ramp_power: Tensor  # [B]
    relief: Tensor  # [B, 1, cells, cells] in [0, 1], smooth structure of the prior
    relief_share: Tensor  # [B]
    patches: Tensor  # [B, 1, cells, cells] in [-1, 1], relative change of the optical depth
    shade: Tensor  # [B, 3, cells, cells], relative change of the light on the ground
    floor: Tensor  # [B]
    airlight: Tensor  # [B, 3]
    light_slope: Tensor  # [B, 2], relative change over x and y in [-1, 1]
    noise: Tensor  # [B]
    saturation: Tensor  # [B], applied to the clear picture
    lift: Tensor  # [B], black level of the clear picture
    balance: Tensor  # [B, 3], factors of the clear picture's channels
    tone: Tensor  # [B], exponent of the clear picture's values
    sky: Tensor  # [B, 3], factors of the sky's colour
    fog: Tensor  # [B] in [0, 1], how much of the sky is the airlight
    tone_curve: Tensor  # [B], exponent that takes values to the light into which the haze is mixed

    def rows(self, part: slice | Tensor) -> "HazeDraw":
        """The draws of some of the samples."""
        return HazeDraw(**{name: value[part] for name, value in vars(self).items()})

    def to(self, device: torch.device) -> "HazeDraw":
        return HazeDraw(**{name: value.to(device, non_blocking=True) for name, value in vars(self).items()})


def uniform(count: int, bounds: tuple[float, float], generator: torch.Generator) -> Tensor:  # [count]
    return torch.rand(count, generator=generator) * (bounds[1] - bounds[0]) + bounds[0]


def log_uniform(count: int, bounds: tuple[float, float], generator: torch.Generator) -> Tensor:  # [count]
    """Uniform in the logarithm; uniform as it is where the range begins at zero."""
    if bounds[0] <= 0:
        return uniform(count, bounds, generator).clamp_min(1e-6)
    return torch.exp(uniform(count, (math.log(bounds[0]), math.log(bounds[1])), generator))


def chance(count: int, share: float, generator: torch.Generator) -> Tensor:  # [count] bool
    return torch.rand(count, generator=generator) < share


def draw_haze(
    config: HazeConfig,
    brightness: Tensor,  # [B], of the bright parts of each photo
    sky: Tensor,  # [B, 3], mean colour of each sample's sky, 0 where it has none
    has_depth: Tensor,  # [B] bool
    generator: torch.Generator,
) -> HazeDraw:
    """Draw the haze of a batch. Photos without a depth map use the random prior alone."""
    c, n = config, brightness.shape[0]
    beta, near = log_uniform(n, c.beta, generator), uniform(n, c.near, generator)
    gamma = log_uniform(n, c.gamma, generator)
    even = chance(n, c.even, generator)
    near = torch.where(even, uniform(n, (0.75, 1.0), generator), near)
    beta = torch.where(chance(n, c.clear, generator), torch.zeros(n), beta)
    blueness = uniform(n, (-0.2 * c.wavelength, c.wavelength), generator)
    colour = 1 + blueness[:, None] * torch.tensor([-0.5, 0.0, 0.5])
    leftover = chance(n, c.leftover, generator) * uniform(n, (0.0, c.leftover_beta), generator)

    blend = uniform(n, (0.0, c.blend), generator)
    prior_share = torch.where(chance(n, c.prior, generator) | ~has_depth, torch.ones(n), blend)

    level = torch.where(even, uniform(n, c.even_airlight, generator), uniform(n, c.airlight, generator))
    from_scene = (brightness * uniform(n, (0.9, 1.15), generator)).clamp(0.5, 1.0)
    level = torch.where(chance(n, c.scene_light, generator), from_scene, level)
    tint = torch.randn(n, 1, generator=generator) * c.tint * torch.tensor([-1.0, 0.0, 1.0])
    tint = tint + torch.randn(n, 3, generator=generator) * (c.tint / 2)
    slope = (torch.rand(n, 2, generator=generator) * 2 - 1) * c.light_gradient

    dull = chance(n, c.dull, generator)
    draw = HazeDraw(
        beta=beta[:, None] * colour,
        leftover=leftover[:, None] * colour,
        near=near,
        gamma=gamma,
        prior_share=prior_share,
        horizon=uniform(n, (0.05, 0.55), generator),
        ramp_power=torch.exp(uniform(n, (-0.7, 0.5), generator)),
        relief=torch.rand(n, 1, NOISE_CELLS, NOISE_CELLS, generator=generator),
        relief_share=uniform(n, (0.05, 0.5), generator),
        patches=(torch.rand(n, 1, NOISE_CELLS, NOISE_CELLS, generator=generator) * 2 - 1)
        * (chance(n, c.patches, generator) * uniform(n, (0.1, c.patch_strength), generator))[:, None, None, None],
        shade=torch.zeros(n, 3, NOISE_CELLS, NOISE_CELLS),
        floor=uniform(n, c.floor, generator),
        airlight=(level[:, None] * (1 + tint)).clamp(0.3, 1.0),
        light_slope=slope * chance(n, 0.4, generator)[:, None],
        noise=uniform(n, (0.0, c.noise), generator) * chance(n, 0.5, generator),
        saturation=torch.where(dull, uniform(n, (0.45, 1.0), generator), torch.ones(n)),
        lift=torch.where(dull, uniform(n, (0.0, 0.06), generator), torch.zeros(n)),
        balance=torch.ones(n, 3),
        tone=torch.ones(n),
        sky=torch.ones(n, 3),
        fog=torch.zeros(n),
        tone_curve=torch.ones(n),
    )
    if c.shade > 0:
        grey, colour = (torch.rand(n, k, NOISE_CELLS, NOISE_CELLS, generator=generator) * 2 - 1 for k in (1, 3))
        strength = uniform(n, (0.0, c.shade), generator)[:, None, None, None]
        draw = replace(draw, shade=strength * (grey * 2 + colour) / 3)
    in_regime = chance(n, c.regimes, generator)
    if c.overcast > 0:
        overcast = chance(n, c.overcast, generator) & ~in_regime
        draw = replace(draw, fog=overcast * uniform(n, (0.8, 1.0), generator))
    if c.regimes > 0:
        draw = _with_regimes(draw, config, in_regime, has_depth, generator)
    if c.in_light > 0:
        physical = chance(n, c.in_light, generator) & ~in_regime
        draw = replace(draw, tone_curve=torch.where(physical, uniform(n, c.tone_curve, generator), draw.tone_curve))
    if c.vary > 0:
        draw = _with_other_cameras(draw, config, generator)
    return _with_other_skies(draw, config, sky, generator) if c.skies > 0 else draw


def _with_regimes(
    draw: HazeDraw,
    config: HazeConfig,
    chosen: Tensor,  # [B] bool
    has_depth: Tensor,  # [B] bool
    generator: torch.Generator,
) -> HazeDraw:
    """Give the chosen samples the haze of UHV-4K instead of the drawn one. Photos without depth keep their prior."""
    n = len(has_depth)
    which = torch.randint(len(REGIMES), (n,), generator=generator)
    beta = torch.tensor([regime.beta for regime in REGIMES])[which]
    beta = beta * torch.exp(torch.randn(n, generator=generator) * config.regime_spread)
    light = torch.tensor([regime.airlight for regime in REGIMES])[which]
    light = light * (1 + torch.randn(n, 3, generator=generator) * (config.regime_spread / 6))
    plain = {
        "beta": beta[:, None].expand(n, 3),
        "leftover": torch.zeros(n, 3),
        "near": torch.zeros(n),
        "gamma": log_uniform(n, config.regime_gamma, generator),
        "prior_share": torch.where(has_depth, uniform(n, (0.0, config.regime_blend), generator), 1.0),
        "patches": torch.zeros_like(draw.patches),
        "floor": torch.zeros(n),
        "airlight": light.clamp(0, 1),
        "light_slope": torch.zeros(n, 2),
        "noise": draw.noise * (draw.noise < config.noise / 4),
        "saturation": torch.ones(n),
        "lift": torch.zeros(n),
    }
    mixed = {
        name: torch.where(chosen.view(n, *[1] * (value.dim() - 1)), value, getattr(draw, name))
        for name, value in plain.items()
    }
    return replace(draw, **mixed)


def _with_other_cameras(draw: HazeDraw, config: HazeConfig, generator: torch.Generator) -> HazeDraw:
    """Let some clear pictures look as if another camera had taken them: their colours cannot be learnt by heart.

    Strong casts make a picture more colourful, so the saturation lies below 1 on the average.
    """
    n, by = len(draw.tone), config.vary_by
    chosen = chance(n, config.vary, generator)

    def factor(spread: float, *shape: int) -> Tensor:
        return torch.exp(torch.randn(n, *shape, generator=generator) * spread)

    return replace(
        draw,
        balance=torch.where(chosen[:, None], factor(config.cast, 3), draw.balance),
        tone=torch.where(chosen, factor(0.12 * by), draw.tone),
        saturation=draw.saturation * torch.where(chosen, log_uniform(n, (0.75**by, 1.18**by), generator), 1.0),
    )


def _with_other_skies(draw: HazeDraw, config: HazeConfig, sky: Tensor, generator: torch.Generator) -> HazeDraw:
    """Bring the skies of some samples to a colour drawn from all that skies have, whatever their camera does to it."""
    n = len(sky)
    chosen = chance(n, config.skies, generator) & (sky.amin(1) > 0)
    saturation, lift, tone = (v[:, None] for v in (draw.saturation, draw.lift, draw.tone))
    wanted = (draw_sky_colours(n, generator) - lift) / (1 - lift)
    grey = wanted.mean(1, keepdim=True)
    before_saturation = (grey + (wanted - grey) / saturation).clamp(0, 1)
    as_seen = (sky * draw.balance).clamp(1 / 255, 1) ** tone
    factors = (before_saturation / as_seen).clamp(*SKY_FACTORS)
    return replace(draw, sky=torch.where(chosen[:, None], factors, draw.sky))


def draw_sky_colours(n: int, generator: torch.Generator) -> Tensor:  # [n, 3] in [0, 1]
    """Colours as skies have them in photos: bright, most of them blue, pale more often than deep; some warm, as at
    dusk; the others grey to white. The brightest channel is 0.8 in the middle and under 0.55 in one of twenty."""
    kind, darkness = torch.rand(n, generator=generator), uniform(n, (0.0, 1.0), generator) ** 1.25
    deepness = uniform(n, (0.0, 1.0), generator) ** 1.2
    most = torch.where(kind < BLUE, 0.8, torch.where(kind < BLUE + WARM, 0.45, 0.04))
    least = most * deepness  # how much of the brightness the darkest channel lacks
    middle = least * uniform(n, (0.3, 0.65), generator)
    from_bright = torch.stack([torch.zeros(n), middle, least], 1)
    lack = torch.where((kind < BLUE)[:, None], from_bright.flip(1), from_bright)
    return (1 - 0.48 * darkness)[:, None] * (1 - lack)


def grade_colours(
    clear: Tensor,  # [B, T, 3, H, W] in [0, 1]
    depth: Tensor,  # [B, T, 1, H, W] in [0, 1]
    place: Tensor,  # [B, T, H, W, 2] in [-1, 1]
    draw: HazeDraw,
) -> Tensor:  # [B, T, 3, H, W]
    """Make some clear pictures less vivid, as on a grey day, and some as another camera, in other light or under
    another sky."""
    saturation, lift, tone = (v[:, None, None, None, None] for v in (draw.saturation, draw.lift, draw.tone))
    clear = (clear * draw.balance[:, None, :, None, None]).clamp(0, 1) ** tone
    in_sky = sky_share(depth)
    clear = clear * (1 + in_sky * (draw.sky[:, None, :, None, None] - 1))
    clear = (clear * (1 + (1 - in_sky) * field(draw.shade, place))).clamp_max(1)
    grey = clear.mean(dim=2, keepdim=True)
    return ((grey + (clear - grey) * saturation) * (1 - lift) + lift).clamp(0, 1)


def sky_share(depth: Tensor) -> Tensor:
    """How much of each pixel is sky, by its depth in [0, 1]."""
    return ((depth * 255 - SKY_LEVEL) / 4).clamp(0, 1)


def field(
    cells: Tensor,  # [B, C, cells, cells]
    place: Tensor,  # [B, T, H, W, 2] in [-1, 1]
) -> Tensor:  # [B, T, C, H, W]
    """A smooth random field where each pixel lies in its photo."""
    b, t, h, w, _ = place.shape
    flat = place.reshape(b, t * h, w, 2)
    sampled = F.grid_sample(cells, flat, mode="bilinear", padding_mode="border", align_corners=True)
    return sampled.view(b, -1, t, h, w).transpose(1, 2)


def haze_frames(
    clear: Tensor,  # [B, T, 3, H, W] in [0, 1]
    depth: Tensor,  # [B, T, 1, H, W] in [0, 1], 0 near, 1 far
    place: Tensor,  # [B, T, H, W, 2] in [-1, 1], where each pixel lies in its photo
    draw: HazeDraw,
) -> tuple[Tensor, Tensor]:  # hazy and target, [B, T, 3, H, W] in [0, 1], without sensor noise
    """Lay the drawn haze over a window. Prior, patches and light are tied to the photo, so they move with it.

    A sky stays the farthest thing in the picture, whatever the prior says about the ground.
    """
    b, t, _, h, w = clear.shape

    def each(value: Tensor) -> Tensor:  # [B] -> [B, 1, 1, 1, 1]
        return value[:, None, None, None, None]

    height = (place[..., 1].unsqueeze(2) + 1) / 2  # 0 at the top
    fall = ((height - each(draw.horizon)) / (1 - each(draw.horizon))).clamp(0, 1)
    ramp = 1 - fall ** each(draw.ramp_power)
    prior = torch.lerp(ramp, field(draw.relief, place), each(draw.relief_share))
    in_sky = sky_share(depth)
    to_prior = each(draw.prior_share) * (1 - in_sky)
    distance = torch.lerp(depth, prior, to_prior).clamp(1e-4, 1) ** each(draw.gamma)
    near = each(draw.near)
    optical = (near + (1 - near) * distance) * (1 + field(draw.patches, place))
    slope = (place * draw.light_slope[:, None, None, None]).sum(-1)[:, :, None]
    light = (draw.airlight[:, None, :, None, None] * (1 + slope)).clamp(0, 1)

    def through(path: Tensor, beta: Tensor) -> Tensor:  # [B, T, 3, H, W]
        return transmission(path.reshape(b, 1, t * h, w), beta).view(b, 3, t, h, w).transpose(1, 2)

    curve = each(draw.tone_curve)
    clear = torch.lerp(clear, light, in_sky * each(draw.fog)) ** curve
    light = light**curve
    target = torch.lerp(light, clear, through(distance, draw.leftover))
    hazy = torch.lerp(light, target, torch.maximum(through(optical, draw.beta), each(draw.floor)))
    return hazy.clamp(0, 1) ** (1 / curve), target ** (1 / curve)
