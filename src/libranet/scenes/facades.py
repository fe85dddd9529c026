"""The look of solids: house walls, roofs, cars, bark, painted metal."""

from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.scenes.light import Light, Shade
from libranet.scenes.noise import DetailTexture, hash01, pulse, smoothstep, step
from libranet.scenes.solids import Solids, Stuff
from libranet.scenes.walls import Face, draw_wall


@dataclass(frozen=True)
class Facades:
    """Shades points of solids."""

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
        speed = self.solids.velocity[:, number]
        px, pz, base, hx, hz, height, c, s, slope, stuff = row[:10]
        colour, roof, storey, bay, key, hovers = row[10:13], row[13:16], row[16], row[17], row[18], row[19]
        wx, wz = points[0] - px - speed[0] * time, points[2] - pz - speed[1] * time
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
        round_ = ((stuff == Stuff.TRUNK) | (stuff == Stuff.POLE)) & ~level
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
        wall = draw_wall(face)
        building, body = stuff == Stuff.BUILDING, stuff == Stuff.CAR
        cabin = (stuff == Stuff.CABIN) & ~level
        plain = colour * (1 + 0.10 * face.fine[0] + 0.08 * face.large[0])
        bark = colour * torch.exp(0.35 * self.texture.sample(u * 3.0 + shift, y * 0.6, 2.6, footprint)[0])
        albedo = torch.where(stuff == Stuff.TRUNK, bark, plain)
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
