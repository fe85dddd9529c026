"""Shades objects: walls with windows, roofs, cars, bark, painted metal, and the leaves of crowns."""

from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.lab.scenes.light import Light, Shade
from libranet.lab.scenes.objects import SolidKind, Solids, Trees
from libranet.lab.scenes.textures import DetailTexture, hash01, normalised, pulse, smoothstep, step


@dataclass(frozen=True)
class Face:
    """Points on the faces of boxes. All fields are [N] unless marked otherwise."""

    number: Tensor  # which solid
    u: Tensor  # metres along the face, 0 in its middle
    y: Tensor  # metres above the solid's base
    half: Tensor  # half the face's width
    height: Tensor  # of the walls
    storey: Tensor
    bay: Tensor
    key: Tensor
    colour: Tensor  # [3, N]
    footprint: Tensor  # metres a pixel covers
    stretched: Tensor  # and in the direction in which the face turns away
    fine: Tensor  # [4, N] texture
    large: Tensor  # [4, N] texture

    def draw(self, salt: int) -> Tensor:
        """A number in [0, 1) per box."""
        return hash01(self.number, torch.full_like(self.number, salt))


@dataclass(frozen=True)
class Wall:
    """What a wall looks like at each point."""

    albedo: Tensor  # [3, N]
    glass: Tensor  # [N] how much of the point mirrors
    frame: Tensor  # [N] window frames, a little recessed


@dataclass(frozen=True)
class SolidShader:
    """Shades points of boxes."""

    solids: Solids
    light: Light
    shade: Shade
    texture: DetailTexture

    def radiance(
        self,
        points: Tensor,  # [3, N]
        directions: Tensor,  # [3, N]
        footprint: Tensor,  # [N] metres a pixel covers
        number: Tensor,  # [N] which solid
        time: float,
    ) -> Tensor:  # [3, N]
        row = self.solids.table[:, number]
        px, pz, base, hx, hz, height, c, s, slope, kind = row[:10]
        colour, roof = row[10:13], row[13:16]
        storey, bay, key, hovers, vx, vz = row[16:]
        wx, wz = points[0] - px - vx * time, points[2] - pz - vz * time
        x, y, z = wx * c - wz * s, points[1] - base, wx * s + wz * c

        # The face is the one whose plane is nearest.
        flat = torch.rsqrt(1 + slope * slope)
        top = (height + slope * (hx - x.abs()) - y) * flat
        to_x, to_z = hx - x.abs(), hz - z.abs()
        under = (hovers > 0) & (y < to_x) & (y < to_z) & (y < top)
        level = ((top < to_x) & (top < to_z)) | under  # roof, lid or underside
        on_x = ~level & (to_x < to_z)
        nx = torch.where(level, slope * flat * x.sign() * ~under, torch.where(on_x, x.sign(), 0.0))
        ny = torch.where(under, -1.0, torch.where(level, flat, 0.0))
        nz = torch.where(level | on_x, 0.0, z.sign())
        round_ = ((kind == SolidKind.TRUNK) | (kind == SolidKind.POLE)) & ~level
        radial = torch.rsqrt(x * x + z * z + 1e-6)
        nx, nz = torch.where(round_, x * radial, nx), torch.where(round_, z * radial, nz)
        normal = torch.stack([nx * c + nz * s, ny, -nx * s + nz * c])

        facing = (-(directions * normal).sum(dim=0)).clamp(min=0.05)
        u = torch.where(on_x, z, x)
        v = torch.where(level, z, y)
        shift = key * 37.0
        face = Face(
            number=number,
            u=u,
            y=y,
            half=torch.where(on_x, hz, hx),
            height=height,
            storey=storey,
            bay=bay,
            key=key,
            colour=colour,
            footprint=footprint,
            stretched=footprint / facing,
            fine=self.texture.sample(u + shift, v, 3.4, footprint * facing**-0.45),
            large=self.texture.sample(u + shift, v + 0.3 * x, 38.0, footprint * facing**-0.45),
        )
        wall = _draw_wall(face)
        building, body = kind == SolidKind.BUILDING, kind == SolidKind.CAR
        cabin = (kind == SolidKind.CABIN) & ~level
        plain = colour * (1 + 0.10 * face.fine[0] + 0.08 * face.large[0])
        bark = colour * torch.exp(0.35 * self.texture.sample(u * 3.0 + shift, y * 0.6, 2.6, footprint)[0])
        albedo = torch.where(kind == SolidKind.TRUNK, bark, plain)
        albedo = torch.where(building, torch.where(level, _tiles(face, roof, slope, x, z), wall.albedo), albedo)
        albedo = torch.where(body, _car_paint(albedo, face, torch.stack([x / hx, z / hz]), on_x, level), albedo)
        albedo = torch.where(cabin, 0.03, albedo)

        crowd = self.shade.crowded(points[0] + normal[0] * 2.5, points[2] + normal[2] * 2.5)
        foot = y.clamp(min=0)
        open_sky = 1 - (0.75 * crowd * torch.exp(-foot / 4.0)).clamp(0, 0.75) - 0.15 * torch.exp(-foot / 0.5)
        open_sky = torch.where(level, 1.0, open_sky) * (1 - 0.25 * wall.frame)
        out = self.shade.lit(albedo.clamp(0.003, 0.9), normal, points, open_sky, bias=0.25)
        mirror = torch.where(building & ~level, wall.glass, cabin.float() * 0.67)
        mirror = torch.maximum(mirror, (body & ~level).float() * 0.35)
        return out + self._reflection(directions, normal, face, mirror)

    def _reflection(self, directions: Tensor, normal: Tensor, face: Face, amount: Tensor) -> Tensor:
        """What panes and car paint mirror: sky above, dim surroundings below, a little different for each pane."""
        facing = (-(directions * normal).sum(dim=0)).clamp(0.02, 1)
        pane = hash01((face.u / face.bay).floor(), (face.y / face.storey).floor(), face.number)
        upward = directions[1] + 2 * facing * normal[1] + (pane - 0.5) * 0.35 - 0.05
        sky = smoothstep(-0.08, 0.12, upward)
        amount = amount * (0.06 + 0.94 * (1 - facing) ** 4)
        light = self.light
        seen = [0.18 * light.bounce[i] + sky * (0.6 * light.horizon[i] + 0.4 * light.zenith[i]) for i in range(3)]
        return torch.stack([amount * s for s in seen])


def _tiles(face: Face, roof: Tensor, slope: Tensor, x: Tensor, z: Tensor) -> Tensor:  # [3, N]
    """Courses of tiles on a pitched roof, gravel and patches on a flat one."""
    tiles = roof * (1 + 0.12 * face.fine[0] + 0.12 * face.large[0])
    along = torch.where(slope > 0, x.abs() * torch.sqrt(1 + slope * slope), z)
    courses = 0.8 + 0.2 * pulse(along / 0.34, 0.75, face.stretched / 0.34)
    return torch.where(slope > 0, tiles * courses, tiles * (1 + 0.1 * face.large[1]))


def _car_paint(albedo: Tensor, face: Face, place: Tensor, on_side: Tensor, level: Tensor) -> Tensor:  # [3, N]
    """Wheels and sills are dark, white lamps in front (z > 0), red ones behind."""
    across, along = place  # -1 to 1 within the car's box
    # Half the length is about 2.1 m.
    wheel = torch.hypot((along.abs() - 0.62) * 2.1, face.y - 0.05) + (~on_side).float()
    dark = torch.maximum(smoothstep(0.42, 0.34, wheel), smoothstep(0.16, 0.06, face.y))
    lamps = step(0.14 - (face.y - face.height * 0.7).abs(), face.footprint) * step(across.abs() - 0.62, face.footprint)
    lamps = lamps * (~on_side & ~level)
    front = (along > 0).float()
    lit = torch.stack([0.5 + 0.25 * front, 0.05 + 0.7 * front, 0.05 + 0.65 * front])
    return torch.lerp(albedo, lit, lamps.expand_as(albedo)) * (1 - 0.93 * dark)


@dataclass(frozen=True)
class CrownShader:
    """Shades points of crowns: leaves lit from outside, dark inside, glowing a little against the light."""

    trees: Trees
    shade: Shade

    def radiance(
        self,
        points: Tensor,  # [3, N]
        distance: Tensor,  # [N]
        lobe: Tensor,  # [N] which lobe
        pixel: float,
    ) -> Tensor:  # [3, N]
        lobes, shade = self.trees.lobes[:, lobe], self.trees.shade[:, lobe]
        middle, colour, radius, squash = shade[:3], shade[3:6], shade[6], shade[7]
        local = points - middle
        stretched = torch.stack([local[0], local[1] * squash, local[2]])
        from_lobe = stretched - lobes[:3]
        outward = normalised(from_lobe)
        depth = (from_lobe.norm(dim=0) / lobes[3]).clamp(0, 1)  # 1 on the outer shell, less on the inner ones
        from_middle = normalised(stretched)
        footprint = pixel * distance * 1.3
        x, y, z = points
        leaves = self.trees.leaves
        a, b = leaves.sample(x, y, z, 0.9) * (1.4 - footprint * 16.0).clamp(0, 1)
        c, e = leaves.sample(z, x, y, 4.3) * (1.4 - footprint * 3.5).clamp(0, 1)
        leaf = torch.exp(0.30 * a + 0.30 * b + 0.32 * c)
        albedo = colour * leaf * torch.stack([1 + 0.10 * e, torch.ones_like(e), 1 - 0.10 * e])
        normal = normalised(0.55 * outward + 0.45 * from_middle + 0.45 * torch.stack([a, b, c]))
        inner = ((depth - 0.72) / 0.28).clamp(0, 1)
        height = (stretched[1] / radius.clamp(min=0.1) * 0.5 + 0.5).clamp(0, 1)
        open_sky = (0.22 + 0.53 * inner + 0.25 * height) * (0.75 + 0.35 * (a * 0.5 + 0.5).clamp(0, 1))
        return self.shade.lit(
            albedo.clamp(0.003, 0.8), normal, points + from_middle * 0.3, open_sky.clamp(0, 1), through=0.35, bias=0.6
        )


def _draw_wall(face: Face) -> Wall:
    """Windows and wall at each point, averaged over the pixel."""
    # Whole windows only.
    count = (2 * face.half / face.bay).floor().clamp(min=1)
    column, across = (face.u + face.half) / (2 * face.half) * count, face.stretched * count / (2 * face.half)
    floors = (face.height / face.storey).round().clamp(min=1)
    level, up = face.y / face.height * floors, face.footprint * floors / face.height

    tower = face.height > 14.0
    glazed = (face.draw(3) < 0.22) & tower
    wide = torch.where(glazed, 0.9, 0.32 + 0.38 * face.draw(5))
    tall = torch.where(glazed, 0.82, 0.42 + 0.2 * face.draw(7))
    left, below = 0.5 - wide / 2, 0.27
    inside = step(face.y, face.footprint) * step(face.height - 0.25 - face.y, face.footprint)
    window = pulse(column - left, wide, across) * pulse(level - below, tall, up) * inside
    rim_u, rim_v = 0.16 / (2 * face.half) * count, 0.16 * floors / face.height
    outer = pulse(column - left + rim_u / 2, wide + rim_u, across) * pulse(level - below + rim_v / 2, tall + rim_v, up)
    frame = (outer * inside - window).clamp(min=0)
    glass = window * pulse(column * 2, 0.93, across * 2) * pulse(level * 2 - 0.1, 0.95, up * 2)
    blinds = hash01(column.floor(), level.floor(), face.number) < 0.3
    # The top of a pane lies in the shadow of its lintel.
    within = ((level - below).remainder(1.0) / tall).clamp(0, 1)

    joints = pulse(face.y / 0.085, 0.84, face.footprint / 0.085)
    joints = joints * (0.5 + 0.5 * pulse(face.u / 0.24, 0.93, face.stretched / 0.24))
    wall = face.colour * (1 + 0.07 * face.fine[0] + 0.09 * face.large[0] + 0.05 * face.fine[2])
    wall = torch.where(face.draw(11) < 0.3, wall * (0.72 + 0.3 * joints), wall)
    # Streaks below eaves, dirt near the ground, a band between storeys on some buildings, darker shop fronts.
    eaves = 0.12 * smoothstep(1.2, 0.0, face.height - face.y) * (0.6 + 0.4 * face.large[2]).clamp(0, 1)
    bands = pulse(level + 0.04, 0.08, up) * (face.key > 0.55)
    sills = pulse(level - below + 0.09, 0.07, up) * pulse(column - left + 0.04, wide + 0.08, across) * inside
    wall = wall * (1 - 0.22 * torch.exp(-face.y.clamp(min=0) / 0.9) - eaves) * (1 - 0.25 * bands + 0.2 * sills)
    wall = torch.where((face.key > 0.4) & tower & (face.y < face.storey), wall * 0.55, wall)
    trim = torch.where(face.key > 0.5, 0.7, 0.18).expand_as(wall)
    wall = torch.lerp(wall, trim, (frame * 0.75 + (window - glass)).clamp(0, 1))
    pane = torch.where(blinds, 0.30 * (1 - 0.5 * smoothstep(0.75, 1.0, within)), 0.02).expand_as(wall)
    return Wall(torch.lerp(wall, pane, glass), glass * torch.where(blinds, 0.35, 1.0), frame)
