"""What people lay on the ground: asphalt with its markings, pavements, dirt tracks, parcels of crops."""

from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.scenes.noise import hash01, pulse, smoothstep, step
from libranet.scenes.palette import Palette, flat, mix
from libranet.scenes.roads import Road


@dataclass(frozen=True)
class Patch:
    """Ground points, how much of the ground a pixel sees there, and the textures read for them."""

    x: Tensor  # [N]
    z: Tensor  # [N]
    across: Tensor  # [N] metres a pixel covers across the line of sight
    along: Tensor  # [N] and along it, on the ground
    footprint: Tensor  # [N] a middle of both
    fine: Tensor  # [4, N] details of centimetres to decimetres
    middle: Tensor  # [4, N] of decimetres to metres
    large: Tensor  # [4, N] of metres to a hundred metres


def lay_road(colour: Tensor, patch: Patch, palette: Palette, road: Road) -> tuple[Tensor, Tensor]:
    """The ground's colour [3, N] with the road on it, and where it is paved [N]."""
    half = road.half_width
    side, cross = road.streets(patch.x, patch.z)
    gap, gap_cross = side.abs(), cross.abs()
    ragged = 0.12 * patch.fine[0] if road.walk == 0 else 0.0
    on = torch.maximum(step(half - gap + ragged, patch.across * 1.3), step(half - gap_cross, patch.along))
    if palette.town:
        colour = _pavements(colour, patch, palette, road)
    if not road.paved:
        track = flat(palette.soil, gap) * (1.25 + 0.25 * patch.fine[0] + 0.15 * patch.middle[0])
        ruts = torch.exp(-(((gap - 0.8) / 0.35) ** 2))
        grown = smoothstep(0.4, 0.15, gap) * 0.6
        return mix(colour, mix(track * (1 - 0.15 * ruts), colour, grown), on), on
    tar = flat(palette.asphalt, gap) * (1 + 0.16 * patch.fine[2] + 0.06 * patch.middle[0] + 0.07 * patch.fine[0])
    tyres = torch.exp(-(((gap - 0.9) / 0.4) ** 2)) + torch.exp(-(((gap - 2.6) / 0.4) ** 2))
    patched = (hash01((side / 2.6).floor(), (patch.z / 7.0).floor()) < 0.06).float()  # mended squares
    colour = mix(colour, tar * (1 - 0.10 * tyres) * (1 - 0.22 * patched), on)
    worn = (0.85 + 0.12 * patch.fine[0] + 0.1 * patch.middle[3]).clamp(0.3, 1.0)
    return mix(colour, flat((0.62, 0.62, 0.60), gap), _markings(patch, road) * worn * on * 0.9), on


def _markings(patch: Patch, road: Road) -> Tensor:  # [N] in [0, 1]
    half = road.half_width
    side, cross = road.streets(patch.x, patch.z)
    gap, gap_cross = side.abs(), cross.abs()
    dash = pulse(patch.z / 9.0, 0.38, patch.along / 9.0)
    centre = step(0.075 - gap, patch.across) * _thin(0.15, patch.across) * dash
    if not road.walk:
        edges = step(0.07 - (gap - (half - 0.35)).abs(), patch.across) * _thin(0.14, patch.across)
        return (centre + edges).clamp(0, 1)
    junction = step(half + 1.0 - gap_cross, patch.along)
    zebra = pulse(side, 0.5, patch.across) * step(1.6 - (gap_cross - half - 2.4).abs(), patch.along)
    zebra = zebra * step(half - 0.3 - gap, patch.across) * (gap_cross > half)
    return torch.maximum(centre * (1 - junction), zebra)


def _pavements(colour: Tensor, patch: Patch, palette: Palette, road: Road) -> Tensor:
    side, cross = road.streets(patch.x, patch.z)
    z, reach = patch.z, road.half_width + road.walk
    slabs = pulse(side / 1.2, 0.95, patch.across / 1.2 * 2) * pulse(z / 1.2, 0.95, patch.along / 1.2)
    stone = flat(palette.pavement, z) * (1 + 0.10 * patch.fine[0] + 0.08 * patch.middle[0]) * (0.9 + 0.1 * slabs)
    walk = torch.maximum(step(reach - side.abs(), patch.across), step(reach - cross.abs(), patch.along))
    wide, deep = road.block or (1e4, 1e4)
    plot = hash01((road.side(patch.x, z) / wide).floor(), (z / deep + 0.37).floor())
    built = (plot > 0.35) & road.in_town(patch.x, z)
    colour = mix(colour, stone * (0.6 + 0.4 * plot), built.float())  # the rest are gardens
    kerb = step(0.18 - (side.abs() - road.half_width).abs(), patch.across) * (cross.abs() > road.half_width)
    return mix(colour, stone * (1 + 0.35 * kerb), walk)


def lay_fields(colour: Tensor, patch: Patch, palette: Palette, road: Road) -> Tensor:
    """The ground's colour [3, N] with parcels of crops, each with its own colour and rows."""
    x, z = patch.x, patch.z
    a, b = (x * 0.94 + z * 0.34) / 95.0, (z * 0.94 - x * 0.34) / 150.0
    shift = hash01(a.floor()) * 0.8
    ka, kb = a.floor(), (b + shift).floor()
    kind, tone = hash01(ka, kb), hash01(kb, ka)
    ripe, green, earth = flat((0.38, 0.30, 0.13), x), flat((0.10, 0.165, 0.045), x), flat(palette.soil, x)
    crop = torch.where(kind < 0.3, ripe, torch.where(kind < 0.68, green, earth)) * (0.75 + 0.5 * tone)
    rows = pulse(torch.where(tone < 0.5, a * 95.0, b * 150.0) / 1.6, 0.5, patch.footprint / 1.6 * 1.4)
    crop = crop * (0.82 + 0.36 * rows) * (1 + 0.1 * patch.large[3])
    margin = torch.minimum((a - ka - 0.5).abs() * -95 + 47.5, ((b + shift) - kb - 0.5).abs() * -150 + 75)
    inside = step(margin - 1.2, patch.footprint) * (hash01(kb, ka, ka) < palette.fields)
    return mix(colour, crop, inside * smoothstep(8, 14, road.side(x, z).abs()))


def _thin(width: float, footprint: Tensor) -> Tensor:
    """How strong a line of that width still is when a pixel is wider than it."""
    return (width / footprint.clamp(min=1e-4)).clamp(max=1.0)
