"""The look of solids: plaster and brick with windows, tiled roofs, painted metal, bark."""

import torch
from torch import Tensor

from libranet.haze.scenes.light import Light, Shade
from libranet.haze.scenes.noise import DetailTexture, hash01, pulse, smoothstep, step
from libranet.haze.scenes.solids import Solids, Stuff


class Facades:
    """Shades points of solids."""

    def __init__(self, solids: Solids, light: Light, shade: Shade, texture: DetailTexture) -> None:
        self.solids, self.light, self.shade, self.texture = solids, light, shade, texture

    def radiance(
        self,
        points: Tensor,  # [3, N]
        directions: Tensor,  # [3, N]
        distance: Tensor,  # [N]
        number: Tensor,  # [N] which solid
        pixel: float,
        time: float,
    ) -> Tensor:  # [3, N]
        row = self.solids.table[:, number]
        speed = self.solids.velocity[:, number]
        px, pz, base, hx, hz, height, c, s, slope, stuff = row[:10]
        colour, roof, storey, bay, key = row[10:13], row[13:16], row[16], row[17], row[18]
        wx, wz = points[0] - px - speed[0] * time, points[2] - pz - speed[1] * time
        x, y, z = wx * c - wz * s, points[1] - base, wx * s + wz * c

        # The face is the one whose plane is nearest.
        top = (height + slope * (hx - x.abs()) - y) * torch.rsqrt(1 + slope * slope)
        to_x, to_z = hx - x.abs(), hz - z.abs()
        on_top = (top < to_x) & (top < to_z)
        on_x = ~on_top & (to_x < to_z)
        flat = torch.rsqrt(1 + slope * slope)
        nx = torch.where(on_top, slope * flat * x.sign(), torch.where(on_x, x.sign(), 0.0))
        nz = torch.where(on_top | on_x, 0.0, z.sign())
        ny = torch.where(on_top, flat, 0.0)
        round_ = (stuff == Stuff.TRUNK) | (stuff == Stuff.POLE)
        radial = torch.rsqrt(x * x + z * z + 1e-6)
        nx, nz = torch.where(round_ & ~on_top, x * radial, nx), torch.where(round_ & ~on_top, z * radial, nz)
        normal = torch.stack([nx * c + nz * s, ny, -nx * s + nz * c])

        facing = (-(directions * normal).sum(dim=0)).clamp(min=0.05)
        footprint = pixel * distance
        stretched = footprint / facing  # along the direction in which the face turns away
        u = torch.where(on_x, z, x)
        half = torch.where(on_x, hz, hx)
        v = torch.where(on_top, z, y)
        shift = key * 37.0
        fine = self.texture.sample(u + shift, v, 1.7, footprint * facing**-0.45)
        large = self.texture.sample(u + shift, v + 0.3 * x, 19.0, footprint * facing**-0.45)

        wall, glass, frame = self._wall(
            u, y, half, height, colour, storey, bay, key, number, on_x, fine, large, footprint, stretched
        )
        tiles = roof * (1 + 0.12 * fine[0] + 0.12 * large[0])
        along = torch.where(slope > 0, x.abs() * torch.sqrt(1 + slope * slope), z)
        courses = 0.8 + 0.2 * pulse(along / 0.34, 0.75, stretched / 0.34)
        tiles = torch.where(slope > 0, tiles * courses, tiles * (1 + 0.1 * large[1]))
        building = stuff == Stuff.BUILDING
        plain = colour * (1 + 0.10 * fine[0] + 0.08 * large[0])
        bark = colour * torch.exp(0.35 * self.texture.sample(u * 3.0 + shift, y * 0.6, 1.3, footprint)[0])
        cabin = (stuff == Stuff.CABIN) & ~on_top
        body = stuff == Stuff.CAR
        albedo = torch.where(building, torch.where(on_top, tiles, wall), torch.where(stuff == Stuff.TRUNK, bark, plain))
        shiny = torch.where(building & ~on_top, glass, cabin.float() * 0.95)
        # Cars: dark sills and wheels, lamps at the ends.
        lateral = torch.where(on_x, z, hz + 0 * z)
        wheels = torch.maximum(
            smoothstep(0.42, 0.34, torch.hypot(lateral.abs() - hz * 0.62, y - 0.05)), smoothstep(0.16, 0.06, y)
        )
        lamps = (
            step(0.14 - (y - height * 0.7).abs(), footprint) * step(x.abs() - hx * 0.62, footprint) * (~on_x & ~on_top)
        )
        lamp_colour = torch.where(z > 0, torch.tensor(0.75, device=z.device), 0.3)
        painted = torch.stack(
            [
                albedo[0] * (1 - lamps) + lamps * 0.75,
                *(albedo[i] * (1 - lamps) + lamps * lamp_colour * (z > 0) for i in (1, 2)),
            ]
        )
        albedo = torch.where(body, painted * (1 - 0.93 * wheels), albedo)
        albedo = torch.where(cabin, torch.full_like(albedo, 0.03), albedo)

        crowd = self.shade.crowded(points[0] + normal[0] * 2.5, points[2] + normal[2] * 2.5)
        low = torch.exp(-y.clamp(min=0) / 4.0)
        open_sky = 1 - (0.75 * crowd * low).clamp(0, 0.75) - 0.15 * torch.exp(-y.clamp(min=0) / 0.5)
        open_sky = torch.where(on_top, 1.0, open_sky) * (1 - 0.25 * frame)
        out = self.shade.lit(albedo.clamp(0.003, 0.9), normal, points, open_sky, bias=0.25)
        return out + self._reflection(
            directions, normal, number, u, y, storey, bay, shiny, body & ~on_top, body | (stuff == Stuff.CABIN)
        )

    def _wall(
        self,
        u: Tensor,
        y: Tensor,
        half: Tensor,
        height: Tensor,
        colour: Tensor,
        storey: Tensor,
        bay: Tensor,
        key: Tensor,
        number: Tensor,
        on_x: Tensor,
        fine: Tensor,
        large: Tensor,
        footprint: Tensor,
        stretched: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Albedo of a wall with its windows, how glassy each point is, and where recesses darken it."""
        # Whole windows only: bays are fitted between the corners.
        count = (2 * half / bay).floor().clamp(min=1)
        column = (u + half) / (2 * half) * count
        fu = stretched * count / (2 * half)
        floors = (height / storey).round().clamp(min=1)
        level = y / height * floors
        fv = footprint * floors / height
        wide = 0.32 + 0.38 * hash01(number, number)
        tall = 0.42 + 0.2 * hash01(number, number * 0 + 7)
        curtain = hash01(number, number * 0 + 3) < 0.22  # glass all over
        tall_building = height > 14.0
        wide = torch.where(curtain & tall_building, 0.9, wide)
        tall = torch.where(curtain & tall_building, 0.82, tall)
        below = 0.27
        inside = step(y, footprint) * step(height - 0.25 - y, footprint)
        window = pulse(column - (0.5 - wide / 2), wide, fu) * pulse(level - below, tall, fv) * inside
        rim_u, rim_v = 0.16 / (2 * half) * count, 0.16 * floors / height
        outer = pulse(column - (0.5 - wide / 2) + rim_u / 2, wide + rim_u, fu) * pulse(
            level - below + rim_v / 2, tall + rim_v, fv
        )
        frame = (outer * inside - window).clamp(min=0)
        bars = pulse(column * 2, 0.93, fu * 2) * pulse(level * 2 - 0.1, 0.95, fv * 2)
        glass = window * bars
        blinds = hash01(column.floor(), level.floor(), number) < 0.3

        brick = hash01(number, number * 0 + 11) < 0.3
        joints = pulse(y / 0.085, 0.84, footprint / 0.085) * (0.5 + 0.5 * pulse(u / 0.24, 0.93, stretched / 0.24))
        wall = colour * (1 + 0.07 * fine[0] + 0.09 * large[0] + 0.05 * fine[2])
        wall = torch.where(brick, wall * (0.72 + 0.3 * joints), wall)
        # Streaks below eaves, dirt near the ground, a band between storeys on some houses.
        stain = (
            1
            - 0.22 * torch.exp(-y.clamp(min=0) / 0.9)
            - 0.12 * smoothstep(1.2, 0.0, height - y) * (0.6 + 0.4 * large[2]).clamp(0, 1)
        )
        bands = pulse(level + 0.04, 0.08, fv) * (key > 0.55)
        wall = wall * stain * (1 - 0.25 * bands)
        shop = (key > 0.4) & tall_building & (y < storey)
        wall = torch.where(shop, wall * 0.55, wall)
        trim = torch.where(key > 0.5, 0.7, 0.18)
        wall = torch.lerp(wall, trim.expand_as(wall), frame * 0.75)
        pane = torch.where(blinds, 0.32, 0.02).expand_as(wall)
        return torch.lerp(wall, pane, glass), glass * torch.where(blinds, 0.35, 1.0), frame

    def _reflection(
        self,
        directions: Tensor,
        normal: Tensor,
        number: Tensor,
        u: Tensor,
        y: Tensor,
        storey: Tensor,
        bay: Tensor,
        shiny: Tensor,
        body: Tensor,
        car: Tensor,
    ) -> Tensor:
        """What panes and car paint mirror: sky above, dim surroundings below, a little different for each pane."""
        facing = (-(directions * normal).sum(dim=0)).clamp(0.02, 1)
        mirror = directions[1] + 2 * facing * normal[1]
        pane = hash01((u / bay).floor(), (y / storey).floor(), number)
        tilt = mirror + (pane - 0.5) * 0.35 - 0.05
        sky = smoothstep(-0.08, 0.12, tilt)
        fresnel = 0.06 + 0.94 * (1 - facing) ** 4
        fresnel = torch.where(car, fresnel * 0.7, fresnel)
        amount = torch.maximum(shiny, body.float() * 0.5) * fresnel
        light = self.light
        return torch.stack(
            [
                amount * (0.18 * light.bounce[i] + sky * (0.6 * light.horizon[i] + 0.4 * light.zenith[i]))
                for i in range(3)
            ]
        )
