"""Outdoor light: sun, sky and clouds, and the shadows of objects, from maps rendered once per clip."""

import math
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.lab.scenes.objects import Solids, Trees
from libranet.lab.scenes.rays import Point, Rays, Window, windows
from libranet.lab.scenes.textures import Colour, DetailTexture, graded, scaled, smoothstep

_FAR = 900.0


@dataclass(frozen=True)
class Tone:
    """How the camera turns radiance into display values."""

    exposure: float
    white_balance: Colour
    saturation: float
    contrast: float


@dataclass(frozen=True)
class Light:
    """What lights a scene."""

    towards_sun: Point
    sun: Colour
    sky: Colour  # light from above, without the sun
    bounce: Colour  # light from the ground below
    tone: Tone
    zenith: Colour
    horizon: Colour
    clouds: float  # cover from 0 (none) to 1 (overcast)
    cloud_scale: float
    cloud_shift: tuple[float, float]


def draw_light(rng: random.Random, heading: float) -> Light:
    """Draw time of day, cloud cover and tone. `heading`: the camera's yaw; the sun is seldom in view."""
    clouds = rng.choice([0.0, rng.uniform(0.1, 0.4), rng.uniform(0.25, 0.55), rng.uniform(0.5, 0.8), 1.0])
    elevation = math.radians(rng.choice([rng.uniform(9, 22), rng.uniform(20, 45), rng.uniform(35, 65)]))
    azimuth = heading + rng.choice([-1, 1]) * math.radians(rng.triangular(25, 180, 110))
    overcast = clouds > 0.85
    low = math.exp(-math.degrees(elevation) / 11.0)  # 0 at noon, near 0.4 when the sun is low
    sun_colour = (1.0, 0.93 - 0.38 * low, 0.82 - 0.72 * low)
    strength = 0.0 if overcast else (2.6 - 1.1 * low) * (1 - 0.35 * max(0.0, clouds - 0.4))
    blue = rng.uniform(0.75, 1.1)
    if overcast:
        level = rng.uniform(0.85, 1.1)
        zenith = scaled((0.74, 0.80, 0.88), level * 0.85)
        horizon = scaled((0.90, 0.93, 0.97), level * 0.85)
        sky = scaled((0.92, 0.97, 1.04), level)
    else:
        zenith = scaled((0.10, 0.26, 0.70), blue * (1 - 0.3 * low))
        horizon = _blend(scaled((0.50, 0.70, 0.98), rng.uniform(0.8, 1.05)), (1.0, 0.66, 0.38), 1.2 * low)
        sky = _blend(scaled((0.42, 0.55, 0.80), 0.85), (0.8, 0.82, 0.86), 0.7 * clouds)
    total = strength * math.sin(elevation) * 0.85 + sum(sky) / 3
    bounce = scaled((0.16, 0.15, 0.12), total)
    # A camera removes most, not all, of the light's colour.
    mix = [sun_colour[i] * strength * math.sin(elevation) + sky[i] for i in range(3)]
    red, green, blue_ = ((mix[1] / m) ** 0.6 for m in mix)
    warm = rng.gauss(-0.03, 0.05)
    return Light(
        towards_sun=(
            math.cos(elevation) * math.sin(azimuth),
            math.sin(elevation),
            math.cos(elevation) * math.cos(azimuth),
        ),
        sun=scaled(sun_colour, strength),
        sky=sky,
        bounce=bounce,
        tone=Tone(
            exposure=0.88 / total**0.85 * 2 ** rng.gauss(0.0, 0.3),
            white_balance=(red * (1.0 + warm), green, blue_ * (1.0 - warm)),
            saturation=rng.uniform(0.9, 1.35),
            contrast=rng.uniform(0.98, 1.2),
        ),
        zenith=zenith,
        horizon=horizon,
        clouds=clouds,
        cloud_scale=rng.uniform(0.6, 1.3),
        cloud_shift=(rng.uniform(0, 9), rng.uniform(0, 9)),
    )


def _blend(a: Colour, b: Colour, share: float) -> Colour:
    share = min(max(share, 0.0), 1.0)
    return (a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share)


def sky_radiance(directions: Tensor, light: Light, texture: DetailTexture, pixel: float) -> Tensor:
    """Radiance [3, N] along unit directions [3, N]; `pixel` is the angle one pixel covers.

    It depends on direction alone, so that the sky stays put while the camera moves.
    """
    dx, dy, dz = directions
    height = dy.clamp(min=0.0)
    sun = light.towards_sun
    glow = (dx * sun[0] + dy * sun[1] + dz * sun[2]).clamp(min=0)
    rise = 1 - torch.exp(-4.2 * height)
    low = torch.exp(-14.0 * height)
    base = [light.horizon[i] + (light.zenith[i] - light.horizon[i]) * rise for i in range(3)]
    halo = 0.10 * glow**8 * (0.4 + 0.6 * low) + 0.35 * glow**180 + 30.0 * smoothstep(0.99990, 0.99996, glow)
    scatter = [base[i] + light.sun[i] * halo * (1 - 0.9 * light.clouds) for i in range(3)]

    reach = 1.0 / (height + 0.07)
    u, v = dx * reach * light.cloud_scale + light.cloud_shift[0], dz * reach * light.cloud_scale + light.cloud_shift[1]
    footprint = pixel * reach * reach * light.cloud_scale * 0.7
    large = texture.sample(u, v, 9.0, footprint)
    fine = texture.sample(u + 3.7, v + 1.9, 3.2, footprint)
    field = large[3] + 0.32 * fine[0]
    edge = 1.7 - 3.2 * light.clouds
    density = smoothstep(edge, edge + 1.1, field) * smoothstep(0.0, 0.05, height) * min(1.0, light.clouds * 6)
    # Thick parts are darker below; towards the sun clouds glow.
    thick = smoothstep(edge + 0.5, edge + 2.2, field + 0.25 * fine[1])
    bright = 1.0 - 0.42 * thick + 0.10 * fine[0] + 0.35 * glow**6
    silver = [0.26 * light.sun[i] + 0.75 * light.sky[i] + 0.12 * light.horizon[i] for i in range(3)]
    return torch.stack([torch.lerp(scatter[i], silver[i] * bright, density * 0.92) for i in range(3)])


class ParallelMap:
    """Distance to the first object as seen along one direction, over a square region."""

    def __init__(
        self,
        solids: Solids,
        trees: Trees,
        *,
        towards: Point,
        centre: Point,
        reach: float,
        size: int,
    ) -> None:
        self.centre, self.reach, self.size, self.towards = centre, reach, size, towards
        ax, ay, az = towards
        flat = math.hypot(ax, az)
        self.u = (az / flat, 0.0, -ax / flat) if flat > 1e-3 else (1.0, 0.0, 0.0)
        ux, _, uz = self.u
        self.v = (ay * uz, az * ux - ax * uz, -ay * ux)  # towards x u
        device = solids.device
        axis = ((torch.arange(size, device=device) * 2 + 1) / size - 1) * reach
        a, b = axis[None, :], axis[:, None]
        origin = torch.stack([self.u[i] * a + self.v[i] * b + towards[i] * _FAR for i in range(3)])[:, None]
        direction = torch.tensor([-t for t in towards], device=device).reshape(3, 1, 1, 1)
        rays = Rays.start(origin, direction, centre)
        moving = set(solids.moving)
        for i, window in self._windows(solids.corners(0.0)):
            if i not in moving:
                solids.intersect(rays, i, window, 0.0)
        for i, window in self._windows(trees.corners()):
            trees.intersect(rays, i, window, 0.0)
        self.distance = rays.distance[0].clamp(max=1e6)  # [size, size]

    def _windows(self, corners: Tensor) -> list[tuple[int, Window]]:
        offsets = [corners[i] - self.centre[i] for i in range(3)]
        x, y = (
            (sum(axis[i] * offsets[i] for i in range(3)) / self.reach * 0.5 + 0.5) * self.size
            for axis in (self.u, self.v)
        )
        return windows(torch.as_tensor(x), torch.as_tensor(y), torch.ones_like(offsets[0]), self.size, self.size)

    def covered(self, points: Tensor, bias: float) -> Tensor:
        """Share [N] in [0, 1] of the light's direction that objects take away at points [3, N]."""
        offset = [points[i] - self.centre[i] for i in range(3)]
        a, b, depth = (
            torch.as_tensor(sum(axis[i] * offset[i] for i in range(3))) for axis in (self.u, self.v, self.towards)
        )
        limit = _FAR - depth - bias
        x = (a / self.reach * 0.5 + 0.5) * self.size - 0.5
        y = (b / self.reach * 0.5 + 0.5) * self.size - 0.5
        inside = (x > 0) & (y > 0) & (x < self.size - 2) & (y < self.size - 2)
        x, y = x.clamp(0, self.size - 2), y.clamp(0, self.size - 2)
        column, row = x.long(), y.long()
        fx, fy = x - column, y - row
        start = row * self.size + column
        table = self.distance.reshape(-1)
        c00, c01, c10, c11 = ((table[start + k] < limit).float() for k in (0, 1, self.size, self.size + 1))
        return torch.lerp(torch.lerp(c00, c01, fx), torch.lerp(c10, c11, fx), fy) * inside


class Shade:
    """Sun shadows and the dimming near objects for one clip."""

    def __init__(self, light: Light, solids: Solids, trees: Trees, centre: Point, reach: float) -> None:
        self.light = light
        self.sun_map = None
        if max(light.sun) > 0.05:
            self.sun_map = ParallelMap(solids, trees, towards=light.towards_sun, centre=centre, reach=reach, size=1536)
        above = ParallelMap(solids, trees.outlines(), towards=(0.0, 1.0, 0.0), centre=centre, reach=reach, size=512)
        self.above = above
        cover = (above.distance < _FAR + 60.0).float()[None, None]
        wide = F.avg_pool2d(cover, 9, 1, 4, count_include_pad=False)
        wider = F.avg_pool2d(F.avg_pool2d(cover, 17, 1, 8, count_include_pad=False), 17, 1, 8, count_include_pad=False)
        self.crowding = 0.5 * wide + 0.5 * wider

    def crowded(self, x: Tensor, z: Tensor) -> Tensor:
        """How much of the sky nearby objects hide at the ground, [N] in [0, 1]."""
        above = self.above
        gx = ((x - above.centre[0]) * above.u[0] + (z - above.centre[2]) * above.u[2]) / above.reach
        gz = ((x - above.centre[0]) * above.v[0] + (z - above.centre[2]) * above.v[2]) / above.reach
        grid = torch.stack([gx, gz], dim=-1)[None, None]
        return F.grid_sample(self.crowding, grid, padding_mode="zeros", align_corners=False).reshape(x.shape)

    def lit(
        self,
        albedo: Tensor,  # [3, N]
        normal: Tensor,  # [3, N]
        points: Tensor,  # [3, N]
        open_sky: Tensor,  # [N] share of the sky that reaches the point
        *,
        through: float = 0.0,
        bias: float = 0.35,
    ) -> Tensor:  # [3, N] radiance
        """Light leaving a matt surface. `through`: how softly light wraps around, for leaves."""
        light = self.light
        sun_dir = light.towards_sun
        facing = normal[0] * sun_dir[0] + normal[1] * sun_dir[1] + normal[2] * sun_dir[2]
        direct = ((facing + through) / (1 + through)).clamp(min=0)
        if self.sun_map is not None:
            shifted = points + normal * (bias * 0.5)
            direct = direct * (1 - self.sun_map.covered(shifted, bias))
        up = 0.5 + 0.5 * normal[1]
        ambient = open_sky * (0.25 + 0.75 * up)
        below = (1 - up) * (0.4 + 0.6 * open_sky)
        return albedo * torch.stack(
            [light.sun[i] * direct + light.sky[i] * ambient + light.bounce[i] * below for i in range(3)]
        )


def develop(radiance: Tensor, tone: Tone) -> Tensor:
    """Scene radiance [3, ...] -> display values [3, ...] in [0, 1]: exposure, white balance, filmic curve, sRGB."""
    balance = torch.tensor(tone.white_balance, device=radiance.device).reshape(3, *([1] * (radiance.dim() - 1)))
    x = radiance.clamp(min=0) * (tone.exposure * balance)
    x = (x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14)
    x = torch.where(x < 0.0031308, 12.92 * x, 1.055 * x.clamp(min=0.0031308) ** (1 / 2.4) - 0.055)
    return graded(x, tone.saturation, tone.contrast, 0.45).clamp(0, 1)
