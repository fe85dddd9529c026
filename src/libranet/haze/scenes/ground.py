"""The colours of the ground: grass, fields, rock, snow, sand, asphalt with its markings, forest seen from afar, water."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.haze.scenes.light import Light, Shade
from libranet.haze.scenes.noise import DetailTexture, hash01, pulse, smoothstep, step
from libranet.haze.scenes.sky import sky_radiance
from libranet.haze.scenes.solids import Colour
from libranet.haze.scenes.terrain import Terrain


@dataclass(frozen=True)
class Palette:
    """Albedos of a biome in one season, linear."""

    grass: Colour
    dry: Colour
    soil: Colour
    rock: Colour
    canopy: tuple[Colour, Colour]
    sand: Colour
    asphalt: Colour
    pavement: Colour
    water: Colour
    snow_line: float
    """Height in metres above which snow lies."""
    fields: float
    """Share of the open land under crops, 0 to 1."""
    town: bool
    """Ground between buildings is paved."""


class Ground:
    """Shades points of the terrain."""

    def __init__(self, palette: Palette, terrain: Terrain, light: Light, shade: Shade, texture: DetailTexture) -> None:
        self.palette, self.terrain, self.light, self.shade, self.texture = palette, terrain, light, shade, texture

    def radiance(
        self,
        points: Tensor,  # [3, N]
        directions: Tensor,  # [3, N]
        distance: Tensor,  # [N]
        pixel: float,
        cars: list[tuple[float, float, float, float]],  # x, z, half sizes of what drives
    ) -> Tensor:  # [3, N]
        x, y, z = points
        normal, cover, bare = self.terrain.surface(x, z)
        facing = -(directions * normal).sum(dim=0).clamp(max=-0.04)
        across = pixel * distance
        along = across / facing
        footprint = across * facing**-0.45
        albedo, normal, gloss_free = self._albedo(points, normal, cover, footprint, across, along)
        crowd = self.shade.crowded(x, z)
        open_sky = (1 - 0.75 * crowd) * gloss_free
        for cx, cz, hx, hz in cars:
            gap = torch.hypot((x - cx).abs().sub(hx).clamp(min=0), (z - cz).abs().sub(hz).clamp(min=0))
            dim = 0.75 * (1 - gap / 0.7).clamp(0, 1)
            open_sky, albedo = open_sky * (1 - dim), albedo * (1 - 0.7 * dim)
        out = self.shade.lit(albedo, normal, points, open_sky, through=0.0)
        sea = self.terrain.relief.sea
        if sea is not None:
            wet = (y < sea + 0.02) & (bare < sea)
            if bool(wet.any()):
                out = torch.where(wet, self._water(points, directions, across, along, bare), out)
        return out

    def _albedo(
        self, points: Tensor, normal: Tensor, cover: Tensor, footprint: Tensor, across: Tensor, along: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        p, tex = self.palette, self.texture
        x, y, z = points
        fine = tex.sample(x, z, 1.9, footprint)
        middle = tex.sample(x, z, 23.0, footprint)
        large = tex.sample(x, z, 410.0, footprint)
        steep = 1 - normal[1]
        forest = smoothstep(0.35, 0.75, cover)

        dryness = smoothstep(-0.9, 1.4, 0.7 * large[0] + 0.55 * middle[0] + 0.25 * fine[3])
        colour = _mix(_flat(p.grass, x), _flat(p.dry, x), dryness)
        colour = _mix(colour, _flat(p.soil, x), 0.75 * smoothstep(1.0, 2.0, middle[1] + 0.4 * fine[1] + 0.3 * large[1]))
        side, cross = self.terrain.road.streets(x, z)
        if p.fields:
            colour = self._fields(colour, x, z, footprint, large)
        rocky = smoothstep(0.12, 0.30, steep + 0.05 * middle[0] + 0.03 * fine[3]) * (1 - forest)
        colour = _mix(colour, _flat(p.rock, x) * (1 + 0.25 * middle[3] + 0.1 * torch.sin(y * 0.35 + middle[1])), rocky)
        sea = self.terrain.relief.sea
        if sea is not None:
            beach = smoothstep(sea + 3.2, sea + 1.2, y + 0.5 * middle[0]) * (1 - rocky)
            damp = smoothstep(sea + 0.7, sea + 0.1, y + 0.15 * middle[3])
            colour = _mix(colour, _flat(p.sand, x) * (1 - 0.45 * damp), beach)
        colour = colour * torch.exp(0.22 * fine[0] + 0.10 * fine[2] + 0.10 * middle[2])
        snow = smoothstep(p.snow_line, p.snow_line + 90, y + 40 * large[1] + 14 * middle[0]) * smoothstep(
            0.42, 0.2, steep
        )
        colour = _mix(colour, _flat((0.80, 0.82, 0.86), x) * (1 + 0.03 * fine[0]), snow * (1 - 0.55 * forest))

        open_sky = torch.ones_like(x)
        if self.terrain.relief.forest > 0:
            tint = ((cover - 1.0) / 0.98).clamp(0, 1)
            leaf = tex.sample(x + 0.7 * y, z - 0.6 * y, 7.0, footprint)
            crown = _mix(_flat(p.canopy[0], x), _flat(p.canopy[1], x), tint) * torch.exp(0.38 * leaf[0] + 0.2 * leaf[2])
            colour = _mix(colour, crown, forest * (1 - 0.8 * snow))
            # Gaps between crowns see little sky.
            open_sky = 1 - forest * (0.35 + 0.25 * (0.2 - leaf[0]).clamp(0, 1))
            normal = normal + forest * 0.35 * leaf[:3]
        tilt = 0.22 * torch.stack([fine[0], 0 * fine[0], fine[1]]) + 0.16 * torch.stack([middle[0], 0 * x, middle[1]])
        rough = (1 - forest) * (0.5 + rocky)
        if self.terrain.road.half_width:
            colour, paved = self._road(colour, side, cross, z, fine, middle, across, along)
            rough = rough * (1 - 0.8 * paved)
        normal = F.normalize(normal + tilt * rough, dim=0)
        return colour.clamp(0.004, 0.9), normal, open_sky

    def _fields(self, colour: Tensor, x: Tensor, z: Tensor, footprint: Tensor, large: Tensor) -> Tensor:
        """Parcels of crops, each with its colour and rows."""
        p = self.palette
        a, b = (x * 0.94 + z * 0.34) / 95.0, (z * 0.94 - x * 0.34) / 150.0
        shift = hash01(a.floor()) * 0.8
        ka, kb = a.floor(), (b + shift).floor()
        kind, tone = hash01(ka, kb), hash01(kb, ka)
        ripe, green, earth = _flat((0.42, 0.33, 0.13), x), _flat((0.10, 0.19, 0.035), x), _flat(p.soil, x)
        crop = torch.where(kind < 0.3, ripe, torch.where(kind < 0.68, green, earth)) * (0.75 + 0.5 * tone)
        rows = pulse(torch.where(tone < 0.5, a * 95.0, b * 150.0) / 1.6, 0.5, footprint / 1.6 * 1.4)
        crop = crop * (0.82 + 0.36 * rows) * (1 + 0.1 * large[3])
        margin = torch.minimum((a - ka - 0.5).abs() * -95 + 47.5, ((b + shift) - kb - 0.5).abs() * -150 + 75)
        inside = step(margin - 1.2, footprint) * (hash01(kb, ka, ka) < p.fields)
        return _mix(colour, crop, inside * smoothstep(8, 14, self.terrain.road.side(x, z).abs()))

    def _road(
        self,
        colour: Tensor,
        side: Tensor,
        cross: Tensor,
        z: Tensor,
        fine: Tensor,
        middle: Tensor,
        across: Tensor,
        along: Tensor,
    ) -> tuple[Tensor, Tensor]:
        p, road = self.palette, self.terrain.road
        half = road.half_width
        gap, gap_cross = side.abs(), cross.abs()
        edge = 0.12 * fine[0] if road.walk == 0 else 0.0
        on = torch.maximum(step(half - gap + edge, across * 1.3), step(half - gap_cross, along))
        if p.town:
            slabs = 0.9 + 0.1 * pulse(side / 1.2, 0.95, across / 1.2 * 2) * pulse(z / 1.2, 0.95, along / 1.2)
            stone = _flat(p.pavement, z) * (1 + 0.10 * fine[0] + 0.08 * middle[0]) * slabs
            walk = torch.maximum(step(half + road.walk - gap, across), step(half + road.walk - gap_cross, along))
            yard = 0.35 + 0.65 * (middle[1] > 0.2)
            colour = _mix(colour, stone * 0.85, yard)
            colour = _mix(colour, stone, walk)
        tar = _flat(p.asphalt, z) * (1 + 0.13 * fine[2] + 0.10 * middle[0] + 0.05 * fine[0])
        if not road.paved:
            tar = _flat(p.soil, z) * (1.25 + 0.25 * fine[0] + 0.15 * middle[0])
            ruts = torch.exp(-(((gap - 0.8) / 0.35) ** 2))
            grown = smoothstep(0.4, 0.15, gap) * 0.6
            tar = _mix(tar * (1 - 0.15 * ruts), colour, grown)
            return _mix(colour, tar, on), on
        tyres = torch.exp(-(((gap - 0.9) / 0.4) ** 2)) + torch.exp(-(((gap - 2.6) / 0.4) ** 2))
        tar = tar * (1 - 0.10 * tyres)
        junction = step(half + 1.0 - gap_cross, along)
        worn = (0.85 + 0.12 * fine[0] + 0.1 * middle[3]).clamp(0.3, 1.0)
        dash = pulse(z / 9.0, 0.38, along / 9.0)
        centre = step(0.075 - gap, across) * _thin(0.15, across) * dash
        edges = step(0.07 - (gap - (half - 0.35)).abs(), across) * _thin(0.14, across)
        if road.walk:
            edges = edges * 0.0
            zebra = pulse(side / 1.0, 0.5, across) * step(1.6 - (gap_cross - half - 2.4).abs(), along)
            centre = torch.maximum(centre * (1 - junction), zebra * step(half - 0.3 - gap, across) * (gap_cross > half))
        lines = ((centre + edges) * worn * on).clamp(0, 1)
        colour = _mix(colour, tar, on)
        return _mix(colour, _flat((0.62, 0.62, 0.60), z), lines * 0.9), on

    def _water(self, points: Tensor, directions: Tensor, across: Tensor, along: Tensor, bare: Tensor) -> Tensor:
        x, _, z = points
        waves = self.texture.sample(x, z * 1.7, 4.0, (across * along).sqrt()) + 1.2 * self.texture.sample(
            x, z * 1.4, 37.0, (across * along).sqrt()
        )
        slope = 0.045
        normal = F.normalize(torch.stack([slope * waves[0], torch.ones_like(x), slope * waves[1]]), dim=0)
        facing = (-(directions * normal).sum(dim=0)).clamp(0.02, 1)
        mirror = directions + 2 * facing * normal
        mirror = F.normalize(torch.stack([mirror[0], mirror[1].abs() + 0.01, mirror[2]]), dim=0)
        fresnel = 0.02 + 0.98 * (1 - facing) ** 5
        sky = sky_radiance(mirror, self.light, self.texture, 0.02).clamp(max=4.0)
        depth = (self.terrain.relief.sea or 0.0) - bare
        shallow = torch.exp(-depth * 0.35)
        body = _mix(_flat(self.palette.water, x), _flat(self.palette.sand, x) * 0.5, 0.7 * shallow)
        lit = torch.stack(
            [
                body[i] * (self.light.sky[i] + 0.6 * self.light.sun[i] * max(0.1, self.light.towards_sun[1]))
                for i in range(3)
            ]
        )
        foam = smoothstep(0.9, 1.6, waves[2] + 2.2 * torch.exp(-depth * 2.0)) * torch.exp(-depth * 1.2)
        white = torch.stack(
            [(self.light.sky[i] + 0.5 * self.light.sun[i]) * 0.6 * torch.ones_like(x) for i in range(3)]
        )
        return _mix(lit * (1 - fresnel) + sky * fresnel, white, foam * 0.8)


def _flat(colour: Colour, like: Tensor) -> Tensor:
    return torch.tensor(colour, device=like.device).reshape(3, 1).expand(3, like.shape[0])


def _mix(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    return torch.lerp(a, b, share.clamp(0, 1).expand_as(a))


def _thin(width: float, footprint: Tensor) -> Tensor:
    """How strong a line of that width still is when a pixel is wider than it."""
    return (width / footprint.clamp(min=1e-4)).clamp(max=1.0)
