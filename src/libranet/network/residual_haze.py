"""The haze that the network leaves, cleared as one more transform in its grids.

Networks that learnt on synthetic haze stop half way in real, dense fog. What is left looks like haze still: in a cell
of the grid nothing is dark, little has contrast, nothing has colour. `plan` measures that on the frame as the grids
alone would restore it, 64x64 pixels, and plans a change of each cell; `fold` composes it with the grids. Kernels,
refiner and the filter over time do not notice: a plan is a map of 16x16 cells, averaged over time as grids are. The
fine contrast that is still missing comes back last (`runtime/fine_contrast.py`).

The change is one of luma, y -> K y + (1 - K) a, which leaves the airlight a where it is, so skies keep their light.
Chroma gains less, and of a cell's mean chroma only what points where the input's does can have come from the scene: the
rest goes. Frames that got darker than they came are lifted by a curve that leaves black and white alone. Dust and
yellow smog also tint the light on the scene: where all of a hazy frame has one warm hue, the colour of the haze is made
grey, channel by channel.

A frame that has contrast, colour or detail after the network is left alone: synthetic haze and clear scenes pass
unchanged.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.kernels.color_field.reference import apply_affine, cayley, fuse_grids, transforms

if TYPE_CHECKING:
    from libranet.network.libranet import Grids

LUMA = (0.299, 0.587, 0.114)
_VIEW = 4
"""Pixels of the view along a cell."""
PLAN_MAPS = 9
"""Gain of luma, gain of chroma, three offsets, the lift, and what makes the haze grey: a gain of each channel."""


@dataclass(frozen=True)
class Clearing:
    """How far the haze that is left is cleared. Chosen on one half of real photos (research/lab-notes.md)."""

    share: float = 0.5
    """Share of the estimated haze that goes; 0 leaves all."""
    floor: float = 0.05
    """What the darkest pixel of a clear cell has: black that is not quite black."""
    textured: float = 1.0
    """Local contrast, deviation over mean, at which a cell counts as clear."""
    reach: int = 3
    """Cells across and down that share an airlight; odd."""
    chroma: float = 0.6
    """Gain of chroma, as a share of that of luma."""
    chroma_most: float = 3.0
    """How many times the chroma that the scene has in the input a cell's mean may have."""
    faint: tuple[float, float] = (0.01, 0.03)
    """Chroma up to which a cell's mean is not enlarged, and from which it may be."""
    clear: tuple[float, float] = (0.38, 0.44)
    """How clear a restored frame is (`clearness`) up to which all is done, and from which nothing is."""
    lit: tuple[float, float] = (0.32, 0.38)
    """Mean luma of a frame up to which little contrast is dusk, and from which it is fog."""
    dim: tuple[float, float] = (0.34, 0.42)
    """Clearness for the lift: synthetic haze is darker behind, and so is much of the truth."""
    lift: float = 0.9
    """Strongest lift: the slope that it adds at black."""
    darker: float = 4.0 / 255.0
    """How much darker than it came a frame may get before it is lifted."""
    shoulder: float = 0.2
    """How far below white levels begin to bend away from it."""
    grey: float = 0.8
    """Share of the haze's tint that goes."""
    warm: tuple[float, float] = (0.08, 0.14)
    """Tint, red minus blue over the mean, up to which haze counts as grey, and from which as coloured."""
    one_hue: tuple[float, float] = (0.6, 0.85)
    """The same for how far all colours of the frame point one way: 1 where they have one hue."""
    bright: float = 0.45
    """Red of the airlight from which on haze counts as lit: a dark warm place is no dust."""
    glare: tuple[float, float] = (0.93, 0.97)
    """Red of the airlight from which on it is a low sun, whose colour stays, and from which on surely."""
    veiled: tuple[float, float] = (0.45, 0.65)
    """The same for the darkest of each cell, as a share of the airlight: how hazy the frame is."""


DEFAULT = Clearing()


def view_frame(
    small: Tensor,  # [B, 3, S, S] in [-1, 1], the encoders' input
    side: int,
) -> Tensor:  # [B, 3, 4 side, 4 side] in [0, 1]
    """Return what `plan` needs of a frame."""
    return F.avg_pool2d(small.float(), small.shape[-1] // (side * _VIEW)) * 0.5 + 0.5


def plan(
    grids: "Grids",
    view: Tensor,  # [B, 3, 4 side, 4 side] in [0, 1], the frame
    clearing: Clearing = DEFAULT,
) -> Tensor:  # [B, PLAN_MAPS, side, side]
    """Plan the change of every cell, by what the grids leave of the haze in the frame that they were predicted for."""
    assert grids.chromatic is not None
    assert grids.plane is not None
    matrix, offset, _ = transforms(fuse_grids(view, grids.chromatic, grids.plane))
    restored = apply_affine(matrix, offset, view).clamp(0.0, 1.0)
    white, view_white = _whiten(view, restored, clearing)
    restored = (white * restored).clamp(0.0, 1.0)
    clear = clearness(restored).view(-1, 1, 1, 1)
    daylight = 1.0 - falling(luma(view).mean(dim=(1, 2, 3)), clearing.lit).view(-1, 1, 1, 1)

    amount = daylight * falling(clear, clearing.clear)

    level = luma(restored)
    before, after, grey = (F.avg_pool2d(image, _VIEW) for image in (view_white * view, restored, level))
    # The airlight of a place is the brightest mean around it: a sky stays as it is, whatever its gradient.
    airlight = _around(F.max_pool2d(grey, clearing.reach, stride=1, padding=clearing.reach // 2))
    mean = _around(grey)
    deviation = (_around(F.avg_pool2d(level * level, _VIEW)) - mean * mean).clamp_min(0.0).sqrt()
    left = (_darkest(restored) - clearing.floor) / (airlight.clamp_min(0.3) - clearing.floor)
    left = left.clamp(0.0, 1.0) * (1.0 - deviation / mean.clamp_min(0.05) / clearing.textured).clamp(0.0, 1.0)
    # Steep steps of the gain would show as dark clouds where cells are mixed.
    gain = _around(1.0 / _around(1.0 - amount * clearing.share * left))
    chroma_gain = 1.0 + clearing.chroma * (gain - 1.0)

    given, found = before - luma(before), chroma_gain * (after - luma(after))
    along = (given * found).sum(dim=1, keepdim=True) / given.square().sum(dim=1, keepdim=True).clamp_min(1e-5)
    # Faint colours may be the camera's: they are not enlarged.
    sure = 1.0 - falling(given.square().sum(dim=1, keepdim=True).sqrt(), clearing.faint)
    most = 1.0 + sure * (clearing.chroma_most - 1.0)
    offset = (1.0 - gain) * airlight - amount * (found - along.clamp_min(0.0).minimum(most) * given)

    result = (_enlarge(gain) * level + _enlarge(luma(offset))).clamp(0.0, 1.0)
    missing = (luma(view) - clearing.darker - result).mean(dim=(1, 2, 3), keepdim=True)
    lift = (missing / (result * (1.0 - result)).mean(dim=(1, 2, 3), keepdim=True).clamp_min(1e-3)).clamp(0.0, 1.0)
    lift = lift.minimum(daylight * falling(clear, clearing.dim) * clearing.lift).expand_as(gain)
    whites = white.expand(-1, -1, *gain.shape[-2:])

    # Between vertices transforms are mixed in the algebra, where gains and offsets no longer quite fit each other: what
    # comes out is measured, and the offsets make up for it.
    wanted = found + gain * luma(after) + offset
    slope = 1.0 + lift * (1.0 - luma(wanted).clamp(0.0, 1.0))
    wanted = slope * wanted
    wanted = wanted + _bend(luma(wanted), clearing)
    tried = fold(grids, torch.cat((gain, chroma_gain, offset, lift, whites), dim=1), clearing)
    assert tried.chromatic is not None
    matrix, shift, _ = transforms(fuse_grids(view, tried.chromatic, grids.plane))
    offset = offset + amount / slope * (wanted - F.avg_pool2d(apply_affine(matrix, shift, view), _VIEW))
    return torch.cat((gain, chroma_gain, offset, lift, whites), dim=1)


def fold(grids: "Grids", planned: Tensor, clearing: Clearing = DEFAULT) -> "Grids":  # planned: [B, PLAN_MAPS, gh, gw]
    """Compose a plan with the grids: at each of their vertices A becomes E W A, b becomes E W b + offset."""
    assert grids.chromatic is not None
    assert grids.plane is not None
    plane = grids.plane[:, None, :, None]  # [B, 1, 12, 1, gh, gw]
    vertices = (grids.chromatic + plane).flatten(0, 1)  # [2 B, 12, D, gh, gw]
    gain, chroma_gain, offset, lift, white = (
        maps.repeat_interleave(2, dim=0) for maps in planned.float().split((1, 1, 3, 1, 3), dim=1)
    )
    matrix, _ = cayley(vertices[:, :9].unflatten(1, (3, 3)))
    matrix, shift = white[:, :, None, None] * matrix, white[:, :, None] * vertices[:, 9:]
    # E = chroma_gain I + (gain - chroma_gain) 1 w^T, w the weights of luma: E x is chroma and luma, each by its gain.
    matrix = chroma_gain[:, None, None] * matrix + (gain - chroma_gain)[:, None, None] * luma(matrix)
    shift = chroma_gain[:, None] * shift + (gain - chroma_gain)[:, None] * luma(shift) + offset[:, :, None]

    bins = vertices.shape[2]
    level = (torch.arange(bins, device=shift.device, dtype=shift.dtype) + 0.5).view(-1, 1, 1) / bins
    found = luma(matrix.sum(dim=2) * level + shift)  # [2 B, 1, D, gh, gw]: what a grey of the bin's level becomes
    slope = 1.0 + lift[:, None] * (1.0 - found.clamp(0.0, 1.0))
    matrix, shift, found = slope[:, None] * matrix, slope * shift, slope * found
    shift = shift + _bend(found, clearing)

    eye = torch.eye(3, device=matrix.device).view(1, 3, 3, 1, 1, 1)
    inverse, _ = cayley(eye - matrix)  # the inverse of Cayley's map is M = I - cayley(I - A)
    changed = torch.cat(((eye - inverse).flatten(1, 2), shift), dim=1).unflatten(0, (-1, 2)) - plane
    # Cells that nothing is planned for keep their grids to the last bit.
    # Slices, not a list of indices: that is copied to the GPU, which a graph that is being recorded may not do.
    summands, factors = planned[:, 2:6], torch.cat((planned[:, :2], planned[:, 6:]), dim=1)
    touched = ((factors != 1.0).any(dim=1) | (summands != 0.0).any(dim=1))[:, None, None, None]
    chromatic = grids.chromatic.float()
    return replace(grids, chromatic=torch.where(touched, changed, chromatic), clearing=None)


def _whiten(view: Tensor, restored: Tensor, clearing: Clearing) -> tuple[Tensor, Tensor]:  # each [B, 3, 1, 1]
    """Return the gains that make coloured haze grey, in the restored frame and in the input: 1 where it is grey."""
    darkest = _around(_darkest(view))
    # A soft choice of the haziest cells: a hard one would jump from frame to frame.
    share = (darkest / darkest.amax(dim=(2, 3), keepdim=True).clamp_min(1e-3)) ** 16
    share = share / share.sum(dim=(2, 3), keepdim=True).clamp_min(1e-6)
    lights = [(F.avg_pool2d(x, _VIEW) * share).sum(dim=(2, 3), keepdim=True) for x in (view, restored)]
    red, green, blue = lights[0].unbind(1)  # each [B, 1, 1]
    warmth = red - blue
    tint = warmth / lights[0].mean(dim=1).clamp_min(0.05)
    # Dust is yellow to orange: red walls and green woods are not.
    tint = (
        tint * ((green - blue) > 0.4 * warmth) * (red > green) * (red > clearing.bright) * falling(red, clearing.glare)
    )
    colour = view - luma(view)
    one_hue = colour.mean(dim=(2, 3)).norm(dim=1) / colour.norm(dim=1).mean(dim=(1, 2)).clamp_min(1e-4)
    veil = _darkest(view / lights[0].clamp_min(0.05)).mean(dim=(1, 2, 3))
    amount = clearing.grey * (1.0 - falling(tint.flatten(), clearing.warm))
    amount = amount * (1.0 - falling(one_hue, clearing.one_hue)) * (1.0 - falling(veil, clearing.veiled))
    amount = amount.view(-1, 1, 1, 1)
    view_white, white = (1.0 + amount * (luma(light) / light.clamp_min(0.05) - 1.0) for light in lights)
    return white, view_white


def _bend(level: Tensor, clearing: Clearing) -> Tensor:
    """Return what keeps levels below white: nothing below the shoulder."""
    above = (level - (1.0 - clearing.shoulder)).clamp_min(0.0) / clearing.shoulder
    return -clearing.shoulder * (above - (1.0 - (-above).exp()))


def luma(colours: Tensor) -> Tensor:  # [B, 3, ...] -> [B, 1, ...]
    red, green, blue = (plane * weight for plane, weight in zip(colours.unbind(1), LUMA, strict=True))
    return (red + green + blue).unsqueeze(1)


def _darkest(view: Tensor) -> Tensor:  # [B, 3, n, n] -> [B, 1, side, side]
    return -F.max_pool2d(-view.amin(dim=1, keepdim=True), _VIEW)


def _around(cells: Tensor) -> Tensor:  # [B, C, side, side]
    """The mean over a place and its neighbours."""
    return F.avg_pool2d(F.pad(cells, (1, 1, 1, 1), mode="replicate"), 3, stride=1)


def _enlarge(cells: Tensor) -> Tensor:
    return F.interpolate(cells, scale_factor=float(_VIEW), mode="bilinear", align_corners=False)


def falling(value: Tensor, between: tuple[float, float]) -> Tensor:
    """1 up to the first value, 0 from the second on."""
    return ((between[1] - value) / (between[1] - between[0])).clamp(0.0, 1.0)


def clearness(restored: Tensor) -> Tensor:  # [B, 3, n, n] -> [B]
    """Return how clear a frame is: the contrast of the whole, its colour, and how much of it is detail.

    The weights separate real fog from synthetic haze and from clear photos, each as the network restores it.
    """
    level = luma(restored)
    detail = (level - _around(level)).abs().mean(dim=(1, 2, 3)) / level.mean(dim=(1, 2, 3)).clamp_min(0.05)
    saturation = (restored.amax(dim=1) - restored.amin(dim=1)).mean(dim=(1, 2))
    return level.std(dim=(1, 2, 3)) + saturation + 4.0 * detail
