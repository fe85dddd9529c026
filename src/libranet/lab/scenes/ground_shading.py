"""Shades the ground: grass, soil, rock, sand, snow, distant forest, roads, fields and water."""

from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.lab.scenes.biome import Palette
from libranet.lab.scenes.light import Light, Shade, sky_radiance
from libranet.lab.scenes.terrain import Road, Terrain
from libranet.lab.scenes.textures import (
    DetailTexture,
    SolidTexture,
    flat,
    hash01,
    mix,
    normalised,
    pulse,
    smoothstep,
    step,
)


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


@dataclass(frozen=True)
class GroundShader:
    """Shades points of the terrain."""

    palette: Palette
    terrain: Terrain
    light: Light
    shade: Shade
    texture: DetailTexture
    leaves: SolidTexture

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
        patch = self._patch(x, z, pixel * distance, facing)
        albedo, normal, open_sky = self._albedo(patch, y, normal, cover, y - bare)
        open_sky = open_sky * (1 - 0.75 * self.shade.crowded(x, z))
        for cx, cz, hx, hz in cars:
            gap = torch.hypot((x - cx).abs().sub(hx).clamp(min=0), (z - cz).abs().sub(hz).clamp(min=0))
            dim = 0.75 * (1 - gap / 0.7).clamp(0, 1)
            open_sky, albedo = open_sky * (1 - dim), albedo * (1 - 0.7 * dim)
        out = self.shade.lit(albedo, normal, points, open_sky)
        sea = self.terrain.relief.sea
        if sea is None:
            return out
        at = ((y < sea + 0.02) & (bare < sea)).nonzero()[:, 0]
        if at.numel():
            footprint = (patch.across * patch.along).sqrt()[at]
            out[:, at] = self._water(points[:, at], directions[:, at], footprint, sea - bare[at])
        return out

    def _patch(self, x: Tensor, z: Tensor, across: Tensor, facing: Tensor) -> Patch:
        footprint = across * facing**-0.45
        return Patch(
            x=x,
            z=z,
            across=across,
            along=across / facing,
            footprint=footprint,
            fine=self.texture.sample(x, z, 5.3, footprint),
            # Turned against each other, so that no grid of tiles shows.
            middle=self.texture.sample(0.80 * x + 0.60 * z, 0.80 * z - 0.60 * x, 67.0, footprint),
            large=self.texture.sample(0.34 * x - 0.94 * z, 0.34 * z + 0.94 * x, 870.0, footprint),
        )

    def _albedo(
        self,
        patch: Patch,
        y: Tensor,  # [N]
        normal: Tensor,  # [3, N]
        cover: Tensor,  # [N] forest cover as `Terrain.surface` gives it
        above: Tensor,  # [N] metres above the bare ground
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Albedo [3, N], normal with its small bumps [3, N], and the share of the sky that is open [N]."""
        p, x = self.palette, patch.x
        fine, middle, large = patch.fine, patch.middle, patch.large
        steep = 1 - normal[1]
        forest = smoothstep(0.02, 0.12, cover)

        dryness = smoothstep(-0.9, 1.4, 0.7 * large[0] + 0.55 * middle[0] + 0.25 * fine[3])
        colour = mix(flat(p.grass, x), flat(p.dry, x), dryness)
        colour = mix(colour, flat(p.soil, x), 0.75 * smoothstep(1.0, 2.0, middle[1] + 0.4 * fine[1] + 0.3 * large[1]))
        if p.fields:
            colour = _lay_fields(colour, patch, p, self.terrain.road)
        rocky = smoothstep(0.12, 0.30, steep + 0.05 * middle[0] + 0.03 * fine[3]) * (1 - forest)
        strata = 1 + 0.25 * middle[3] + 0.1 * torch.sin(y * 0.35 + middle[1])
        colour = mix(colour, flat(p.rock, x) * strata, rocky)
        sea = self.terrain.relief.sea
        if sea is not None:
            beach = smoothstep(sea + 3.2, sea + 1.2, y + 0.5 * middle[0]) * (1 - rocky)
            damp = smoothstep(sea + 0.7, sea + 0.1, y + 0.15 * middle[3])
            colour = mix(colour, flat(p.sand, x) * (1 - 0.45 * damp), beach)
        colour = colour * torch.exp(0.25 * fine[0] + 0.13 * fine[2] + 0.10 * middle[2])
        high = smoothstep(p.snow_line, p.snow_line + 90, y + 40 * large[1] + 14 * middle[0])
        snow = high * smoothstep(0.42, 0.2, steep)
        colour = mix(colour, flat((0.80, 0.82, 0.86), x) * (1 + 0.03 * fine[0]), snow * (1 - 0.55 * forest))

        bumps = 0.22 * torch.stack([fine[0], 0 * x, fine[1]]) + 0.16 * torch.stack([middle[0], 0 * x, middle[1]])
        bumps = bumps * ((1 - forest) * (0.5 + rocky))
        open_sky = torch.ones_like(x)
        if self.terrain.relief.forest > 0:
            crown, leaf = self._canopy(patch, y, cover)
            colour = mix(colour, crown, forest * (1 - 0.8 * snow))
            # Gaps between crowns and the foot of the forest's edge see little sky.
            shut = 0.30 + 0.25 * (0.2 - leaf[0] - 0.6 * middle[2]).clamp(0, 1) + 0.45 * smoothstep(9.0, 1.0, above)
            open_sky = 1 - forest * shut.clamp(max=0.92)
            colour = colour * (1 - 0.5 * forest * smoothstep(7.0, 0.5, above))
            bumps = bumps + forest * (0.4 * leaf[:3] + flat((0.0, 0.5, 0.0), x))
        if self.terrain.road.half_width:
            colour, paved = _lay_road(colour, patch, p, self.terrain.road)
            bumps = bumps * (1 - 0.8 * paved)
        return colour.clamp(0.004, 0.9), normalised(normal + bumps), open_sky

    def _canopy(self, patch: Patch, y: Tensor, cover: Tensor) -> tuple[Tensor, Tensor]:
        """Albedo of closed forest [3, N] and its leaf noise [4, N]."""
        x, z, footprint = patch.x, patch.z, patch.footprint
        near = self.leaves.sample(x, y, z, 2.9) * (1.4 - footprint * 5.0).clamp(0, 1)
        far = self.leaves.sample(x, y, z, 13.0) * (1.4 - footprint).clamp(0, 1)
        tint = ((cover - 1.0) / 0.98).clamp(0, 1)
        crown = mix(flat(self.palette.canopy[0], x), flat(self.palette.canopy[1], x), tint)
        mottle = 0.35 * near[0] + 0.2 * near[1] + 0.3 * far[0] + 0.3 * patch.middle[2] + 0.3 * patch.large[2]
        return crown * torch.exp(mottle), torch.cat([near, far])

    def _water(
        self,
        points: Tensor,  # [3, N]
        directions: Tensor,  # [3, N]
        footprint: Tensor,  # [N] metres a pixel covers
        depth: Tensor,  # [N] metres of water
    ) -> Tensor:  # [3, N]
        """Waves that mirror the sky, the bottom where it is shallow, foam at the shore."""
        palette, light, texture = self.palette, self.light, self.texture
        x, _, z = points
        waves = texture.sample(0.7 * x + 0.7 * z, 1.2 * z - 1.2 * x, 11.0, footprint)
        waves = waves + 1.2 * texture.sample(0.2 * x + 0.98 * z, 1.4 * x - 0.3 * z, 130.0, footprint)
        normal = normalised(torch.stack([0.045 * waves[0], torch.ones_like(x), 0.045 * waves[1]]))
        facing = (-(directions * normal).sum(dim=0)).clamp(0.02, 1)
        mirror = directions + 2 * facing * normal
        mirror = normalised(torch.stack([mirror[0], mirror[1].abs() + 0.01, mirror[2]]))
        fresnel = 0.02 + 0.98 * (1 - facing) ** 5
        sky = sky_radiance(mirror, light, texture, 0.02).clamp(max=4.0)
        body = mix(flat(palette.water, x), flat(palette.sand, x) * 0.5, 0.7 * torch.exp(-depth * 0.35))
        height = max(0.1, light.towards_sun[1])
        lit = torch.stack([body[i] * (light.sky[i] + 0.6 * light.sun[i] * height) for i in range(3)])
        foam = smoothstep(0.9, 1.6, waves[2] + 2.2 * torch.exp(-depth * 2.0)) * torch.exp(-depth * 1.2)
        red, green, blue = (0.6 * light.sky[i] + 0.3 * light.sun[i] for i in range(3))
        return mix(lit * (1 - fresnel) + sky * fresnel, flat((red, green, blue), x), foam * 0.8)


def _lay_road(colour: Tensor, patch: Patch, palette: Palette, road: Road) -> tuple[Tensor, Tensor]:
    """The ground's colour [3, N] with the road on it, and where it is paved [N]."""
    half = road.half_width
    side, cross = road.streets(patch.x, patch.z)
    gap, gap_cross = side.abs(), cross.abs()
    ragged = 0.12 * patch.fine[0] if road.walk == 0 else 0.0
    on = torch.maximum(step(half - gap + ragged, patch.across * 1.3), step(half - gap_cross, patch.along))
    if palette.town:
        colour = _pavements(colour, patch, palette, road, side, cross)
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
    return mix(colour, flat((0.62, 0.62, 0.60), gap), _markings(patch, road, side, cross) * worn * on * 0.9), on


def _markings(patch: Patch, road: Road, side: Tensor, cross: Tensor) -> Tensor:  # [N] in [0, 1]
    half = road.half_width
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


def _pavements(colour: Tensor, patch: Patch, palette: Palette, road: Road, side: Tensor, cross: Tensor) -> Tensor:
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


def _lay_fields(colour: Tensor, patch: Patch, palette: Palette, road: Road) -> Tensor:
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
