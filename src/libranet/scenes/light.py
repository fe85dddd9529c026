"""Sun and sky light, and the shadows the scene's objects cast: maps drawn once per clip from the light's side."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.scenes.rays import Rays, Window, windows
from libranet.scenes.solids import Colour, Solids
from libranet.scenes.trees import Trees

_FAR = 900.0


@dataclass(frozen=True)
class Light:
    """What lights a scene and how the camera develops it."""

    towards_sun: tuple[float, float, float]
    sun: Colour
    sky: Colour
    """Light from above, without the sun."""
    bounce: Colour
    """Light from the ground below."""
    exposure: float
    white_balance: Colour
    saturation: float
    contrast: float
    zenith: Colour
    horizon: Colour
    clouds: float
    """Cover from 0 (none) to 1 (overcast)."""
    cloud_scale: float
    cloud_shift: tuple[float, float]


class ParallelMap:
    """Distance to the first object as seen along one direction, over a square region."""

    def __init__(
        self,
        solids: Solids,
        trees: Trees,
        *,
        towards: tuple[float, float, float],
        centre: tuple[float, float, float],
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
        if corners.shape[1] == 0:
            return []
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

    def __init__(
        self, light: Light, solids: Solids, trees: Trees, centre: tuple[float, float, float], reach: float
    ) -> None:
        self.light = light
        self.sunny = max(light.sun) > 0.05
        self.sun_map = (
            ParallelMap(solids, trees, towards=light.towards_sun, centre=centre, reach=reach, size=1536)
            if self.sunny
            else None
        )
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


def develop(radiance: Tensor, light: Light) -> Tensor:
    """Scene radiance [3, ...] -> display values [3, ...] in [0, 1]: exposure, white balance, filmic curve, sRGB."""
    balance = torch.tensor(light.white_balance, device=radiance.device).reshape(3, *([1] * (radiance.dim() - 1)))
    x = radiance.clamp(min=0) * (light.exposure * balance)
    x = (x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14)
    x = torch.where(x < 0.0031308, 12.92 * x, 1.055 * x.clamp(min=0.0031308) ** (1 / 2.4) - 0.055)
    grey = (0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2])[None]
    x = grey + (x - grey) * light.saturation
    return (0.45 + (x - 0.45) * light.contrast).clamp(0, 1)
