"""What lies between the haze and a video file: things in front of the lens, the camera's drift, and the codec.

Haze sets show none of it, real footage all of it. A network trained on haze alone takes a dark dashboard for a scene
without haze, follows every change of exposure, and sharpens compression blocks.
"""

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.haze.config import FrontConfig, RecordingConfig
from libranet.haze.draws import Draws

SHAPES = 2  # things in front of the haze, at most, per sample
TEXTURE = 12  # cells, each way, of a shape's texture
EDGE = 10.0  # how sharp the edges of shapes are
BLOCK = 8  # side of the codec's blocks
LUMA_STEPS = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
CHROMA_STEPS = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)
"""Quantisation steps of the JPEG standard's annex K, at quality 50."""
DRIFT, FLICKER = 0.012, 0.02
"""Standard deviations of the change of exposure per frame, and of single frames, as logarithms."""
QUALITY = (30, 95)  # of the compression, on JPEG's scale
EXPOSURE, EXPOSED = (0.6, 1.1), (0.5, 1.15)
"""How far a camera makes up for the brightness of haze, as an exponent, and the factors that come of it."""
DARKER, MOST_LIFT = 6 / 255, 0.95
"""How much darker than its hazy frame a target may stay, and the slope that the lift adds at black at most."""
DUST = ((0.8, 0.97), (0.6, 0.95))
"""Green of the light in dust, relative to red, and blue, relative to green."""
VEILED = 0.03  # mean change by haze from which on dust counts: a clear scene in warm light keeps it
RGB_TO_YCC = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))


@dataclass(frozen=True)
class Footage:
    """Everything random about the filming of some samples. Every tensor has the sample as its first axis."""

    centre: Tensor  # [N, SHAPES, 2], of the shapes, in [-1, 1] of the frame
    radius: Tensor  # [N, SHAPES, 2]
    power: Tensor  # [N, SHAPES], 1 is a rhombus, 2 an ellipse, more is nearly a rectangle
    angle: Tensor  # [N, SHAPES]
    velocity: Tensor  # [N, SHAPES, 2], per frame
    first: Tensor  # [N, SHAPES], the frame from which on the shape is there
    last: Tensor  # [N, SHAPES], the frame from which on it is gone again
    colour: Tensor  # [N, SHAPES, 3]
    texture: Tensor  # [N, SHAPES, TEXTURE, TEXTURE] in [0, 1]
    bars: Tensor  # [N, 2], height of black bars at top and bottom, width of those at the sides, as shares
    curve: Tensor  # [N], share of an S-shaped tone curve, in the target too
    gain: Tensor  # [N, frames, 3], logarithm of the exposure and white balance; the target has none
    noise: Tensor  # [N], standard deviation
    sharpening: Tensor  # [N]
    levels: Tensor  # [N], grey levels that are left: few of them make bands
    exposure: Tensor  # [N], exponent: how far the camera makes up for the haze's brightness
    lift: Tensor  # [N], 1 where the target gets the light that the haze had
    dust: Tensor  # [N, 3], logarithm of the light's colour
    coarseness: Tensor  # [N, frames], the codec's steps relative to quality 50; 0 stores without loss

    def fronts_only(self) -> "Footage":
        """The things in front, filmed by a camera and stored in a file without faults."""
        faults = ("bars", "curve", "gain", "noise", "sharpening", "exposure", "lift", "dust", "coarseness")
        none = {name: torch.zeros_like(getattr(self, name)) for name in faults}
        return replace(self, levels=torch.full_like(self.levels, 255.0), **none)


def draw_footage(front: FrontConfig, recording: RecordingConfig, frames: int, draws: Draws) -> Footage:
    rand, chance = draws.rand, draws.chance
    # Four in ten shapes are dashboards and sills along the lower edge, two in ten are captions and logos.
    kind = rand(SHAPES)
    dashboard, caption = kind < 0.4, kind > 0.8
    centre = rand(SHAPES, 2) * 2 - 1
    centre[..., 0] = torch.where(dashboard, centre[..., 0] * 0.5, centre[..., 0])
    centre[..., 1] = torch.where(dashboard, 1.0 + 0.3 * rand(SHAPES), centre[..., 1])
    wide = torch.stack([0.8 + rand(SHAPES) * 1.2, 0.4 + rand(SHAPES) * 0.7], -1)
    small = torch.stack([0.03 + rand(SHAPES) * 0.22, 0.015 + rand(SHAPES) * 0.05], -1)
    free = torch.stack([0.08 + rand(SHAPES) * 0.5, 0.08 + rand(SHAPES) * 0.6], -1)
    radius = torch.where(dashboard[..., None], wide, torch.where(caption[..., None], small, free))
    level = torch.where(chance(0.75, SHAPES) & ~caption, rand(SHAPES) * 0.18, rand(SHAPES))
    there = chance(front.probability, SHAPES)
    there[:, 1:] &= chance(0.5, SHAPES - 1)
    # Some come or go within the window, half of those between its two middle frames: the rest must not notice.
    change = torch.where(chance(0.5, SHAPES), frames // 2, (rand(SHAPES) * frames).floor())
    when = rand(SHAPES)
    comes, goes = when < front.change_probability / 2, when >= 1 - front.change_probability / 2
    moving = (chance(0.5, SHAPES) & ~caption & ~dashboard)[..., None]

    bar = 0.04 + 0.16 * rand(1)
    bars = torch.where(chance(0.7, 1), torch.cat([bar, bar * 0], 1), torch.cat([bar * 0, bar], 1))
    steps = torch.arange(frames, dtype=torch.float32)[None, :, None]
    gain = (draws.normal(1, 3) * 0.25 + draws.normal(1, 1)) * DRIFT * steps
    gain = gain + (draws.normal(frames, 3) * 0.25 + draws.normal(frames, 1)) * FLICKER
    gain = (gain - gain.mean(1, keepdim=True)) * chance(recording.drift_probability, 1)[..., None]
    quality = draws.uniform(QUALITY)[:, None]
    coarseness = torch.where(quality < 50, 50 / quality, 2 - quality / 50).clamp_min(0.02)
    coarseness = coarseness * chance(recording.codec_probability, 1) * (1 + 0.25 * rand(frames))
    return Footage(
        centre=centre,
        radius=radius,
        power=torch.where(caption, 8.0, torch.exp(rand(SHAPES) * 2 + 0.5)),
        angle=draws.normal(SHAPES) * torch.where(dashboard, 0.1, torch.where(caption, 0.0, 0.5)),
        velocity=draws.normal(SHAPES, 2) * 0.02 * moving,
        first=torch.where(comes & there, change, 0.0),
        last=torch.where(there, torch.where(goes, change, float(frames)), 0.0),
        colour=(level[..., None] * (1 + draws.normal(SHAPES, 3) * 0.15)).clamp(0, 1),
        texture=rand(SHAPES, TEXTURE, TEXTURE),
        bars=bars * chance(front.bars_probability, 1),
        curve=draws.uniform((-0.3, 0.6)) * chance(0.5),
        gain=gain,
        noise=rand() * recording.noise_std * chance(0.6),
        sharpening=rand() * recording.sharpening * chance(0.3),
        levels=torch.where(chance(0.1), draws.uniform((40, 128)), 255.0),
        exposure=draws.uniform(EXPOSURE) * chance(recording.exposure_probability),
        dust=_dust(draws) * chance(recording.dust_probability, 1),
        coarseness=coarseness,
        lift=chance(recording.lift_probability).float(),
    )


def _dust(draws: Draws) -> Tensor:  # [n, 3]
    green, blue = map(draws.uniform, DUST)
    return torch.stack([torch.ones(draws.n), green, green * blue], 1).log()


def film(
    hazy: Tensor,  # [N, F, 3, H, W] in [0, 1], H and W multiples of 8
    clear: Tensor,  # [N, K, 3, H, W] in [0, 1], the clear versions of frames `first` to `first` + K
    footage: Footage,
    *,
    first: int,
    seed: int,
) -> tuple[Tensor, Tensor]:  # as a file would hold the hazy frames, and what they should become
    """Film hazy windows. What stands in front, bars and the tone curve are in the target; the camera's faults are not.

    Args:
        first: The frame of the first target.
    """
    (_, frames, _, height, width), targets, device = hazy.shape, clear.shape[1], hazy.device
    y = ((torch.arange(height, device=device) * 2 + 1) / height - 1).view(1, 1, 1, -1, 1)
    x = ((torch.arange(width, device=device) * 2 + 1) / width - 1).view(1, 1, 1, 1, -1)
    shown = slice(first, first + targets)
    hazy = _expose(hazy, hazy[:, shown] - clear, clear, footage)
    clear = _lift(clear, hazy[:, shown], footage.lift)
    for shape in range(SHAPES):
        mask, colour = _draw_shape(footage, shape, frames, x, y)
        hazy = torch.lerp(hazy, colour, mask)
        clear = torch.lerp(clear, colour, mask[:, shown])
    bars = footage.bars.view(-1, 1, 1, 2, 1, 1)
    outside = (y.abs() > 1 - 2 * bars[:, :, :, 0]) | (x.abs() > 1 - 2 * bars[:, :, :, 1])
    hazy, clear = (_s_curve(frames_, footage.curve).masked_fill(outside, 0.0) for frames_ in (hazy, clear))

    hazy = hazy * torch.exp(footage.gain)[..., None, None]
    generator = torch.Generator(device).manual_seed(seed)
    hazy = hazy + torch.randn(hazy.shape, generator=generator, device=device) * _each(footage.noise)
    flat = hazy.flatten(0, 1)
    blurred = F.avg_pool2d(F.pad(flat, (1, 1, 1, 1), mode="replicate"), 3, 1).view_as(hazy)
    hazy = (hazy + (hazy - blurred) * _each(footage.sharpening)).clamp(0, 1)
    levels = _each(footage.levels)
    hazy = (hazy * levels).round() / levels
    hazy = compress(hazy.flatten(0, 1), footage.coarseness.flatten()).view_as(hazy)
    return (hazy * 255).round() / 255, clear


def _expose(
    hazy: Tensor,  # [N, F, 3, H, W]
    veil: Tensor,  # [N, K, 3, H, W], what haze added to the frames of the targets
    clear: Tensor,  # [N, K, 3, H, W]
    footage: Footage,
) -> Tensor:  # [N, F, 3, H, W]
    """Let dust tint the light of frames that have haze, and the camera expose for it."""
    veiled = (veil.abs().mean((1, 2, 3, 4)) > VEILED)[:, None]
    light = torch.exp(footage.dust * veiled)
    brighter = (clear + veil).mean((1, 3, 4)).mul(light).mean(1) / clear.mean((1, 2, 3, 4)).clamp_min(1e-3)
    exposure = brighter.clamp_min(1e-3) ** -footage.exposure
    factor = torch.where(footage.exposure > 0, exposure.clamp(*EXPOSED), 1.0)
    return hazy * (light * factor[:, None])[:, None, :, None, None]


def _lift(clear: Tensor, hazy: Tensor, chosen: Tensor) -> Tensor:  # [N, K, 3, H, W] each, and [N] in [0, 1]
    """Lift targets that are darker than their hazy frames: without the veil most scenes would be dim."""
    missing = (hazy - clear).mean((1, 2, 3, 4)) - DARKER
    slope = missing / (clear * (1 - clear)).mean((1, 2, 3, 4)).clamp_min(1e-3)
    return clear + _each(chosen * slope.clamp(0, MOST_LIFT)) * clear * (1 - clear)


def compress(
    frames: Tensor,  # [N, 3, H, W] in [0, 1], H and W multiples of 8
    coarseness: Tensor,  # [N]
) -> Tensor:  # [N, 3, H, W] in [0, 1]
    """Lose what a codec loses: colour at half the resolution, and the cosine coefficients of blocks in steps."""
    chosen = torch.nonzero(coarseness > 0)[:, 0]
    if len(chosen) == 0:
        return frames
    device, (n, _, height, width) = frames.device, frames[chosen].shape
    to_ycc = torch.tensor(RGB_TO_YCC, device=device)
    steps = torch.tensor((LUMA_STEPS, CHROMA_STEPS, CHROMA_STEPS), device=device) / 255
    cosine = _cosine_matrix(device)
    ycc = torch.einsum("ij,njhw->nihw", to_ycc, frames[chosen])
    colour = F.interpolate(F.avg_pool2d(ycc[:, 1:], 2), scale_factor=2.0, mode="bilinear", align_corners=False)
    ycc = torch.cat([ycc[:, :1], colour], 1)
    blocks = ycc.view(n, 3, height // BLOCK, BLOCK, width // BLOCK, BLOCK).transpose(3, 4)
    step = (steps * coarseness[chosen].view(-1, 1, 1, 1)).clamp_min(1 / 255)[:, :, None, None]
    blocks = cosine.T @ ((cosine @ blocks @ cosine.T / step).round() * step) @ cosine
    stored = blocks.transpose(3, 4).reshape(n, 3, height, width)
    restored = torch.einsum("ij,njhw->nihw", torch.linalg.inv(to_ycc.cpu()).to(device), stored).clamp(0, 1)
    return frames.index_copy(0, chosen, restored)


def _draw_shape(
    footage: Footage, shape: int, frames: int, x: Tensor, y: Tensor
) -> tuple[Tensor, Tensor]:  # [N, F, 1, H, W] in [0, 1] and [N, 1, 3, H, W]
    """Where one shape covers the frames, and what it looks like."""
    f, height = footage, y.shape[3]
    number = torch.arange(frames, device=x.device, dtype=torch.float32)[None]
    way = f.velocity[:, shape, None] * (number[..., None] - frames // 2) + f.centre[:, shape, None]  # [N, F, 2]
    across, down = x - way[..., 0, None, None, None], y - way[..., 1, None, None, None]
    angle, power = _each(f.angle[:, shape]), _each(f.power[:, shape])
    radius_x, radius_y = (_each(f.radius[:, shape, axis]) for axis in (0, 1))
    turned_x = (across * angle.cos() + down * angle.sin()) / radius_x
    turned_y = (down * angle.cos() - across * angle.sin()) / radius_y
    inside = 1 - turned_x.abs() ** power - turned_y.abs() ** power
    there = (number >= f.first[:, shape, None]) & (number < f.last[:, shape, None])
    texture = F.interpolate(f.texture[:, shape, None], size=(height, x.shape[4]), mode="bilinear", align_corners=False)
    colour = (f.colour[:, shape, :, None, None] * (0.5 + texture)).clamp(0, 1)
    return (inside * EDGE).clamp(0, 1) * there[..., None, None, None], colour[:, None]


def _s_curve(frames: Tensor, share: Tensor) -> Tensor:
    """More contrast in the middle for a positive share, less for a negative one."""
    return torch.lerp(frames, frames * frames * (3 - 2 * frames), _each(share))


def _cosine_matrix(device: torch.device) -> Tensor:  # [BLOCK, BLOCK], orthonormal
    place = torch.arange(BLOCK, device=device, dtype=torch.float32)
    matrix = torch.cos(math.pi * (2 * place + 1) * place[:, None] / (2 * BLOCK)) * math.sqrt(2 / BLOCK)
    matrix[0] /= math.sqrt(2)
    return matrix


def _each(value: Tensor) -> Tensor:  # [N] -> [N, 1, 1, 1, 1]
    return value[:, None, None, None, None]
