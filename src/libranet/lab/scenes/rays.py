"""Cameras, the rays through their pixels, and the nearest surface that each ray meets.

Axes: x right, y up, z forward. Pixel centres lie at half-integers.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

Point = tuple[float, float, float]
SKY = -1
GROUND = 0


@dataclass(frozen=True)
class Camera:
    """A pinhole camera."""

    position: Point
    yaw: float  # radians, 0 looks along +z, positive turns towards +x
    pitch: float  # radians, positive looks up
    roll: float
    view_angle: float  # horizontal field of view in radians
    width: int
    height: int

    @property
    def focal(self) -> float:
        return 0.5 * self.width / math.tan(0.5 * self.view_angle)

    def rotation(self) -> Tensor:  # [3, 3] float64, columns are right, up, forward in the world
        cy, sy, cp, sp = math.cos(self.yaw), math.sin(self.yaw), math.cos(self.pitch), math.sin(self.pitch)
        cr, sr = math.cos(self.roll), math.sin(self.roll)
        right, up, forward = (cy, 0.0, -sy), (-sy * sp, cp, -cy * sp), (sy * cp, sp, cy * cp)
        rolled_right = [cr * a + sr * b for a, b in zip(right, up, strict=True)]
        rolled_up = [cr * b - sr * a for a, b in zip(right, up, strict=True)]
        return torch.tensor([rolled_right, rolled_up, list(forward)], dtype=torch.float64).T

    def directions(self, x: Tensor, y: Tensor) -> Tensor:
        """Unit rays [3, ...] through image points in pixels."""
        r = self.rotation().tolist()
        a, b = (x - self.width / 2) / self.focal, (self.height / 2 - y) / self.focal
        inverse = torch.rsqrt(a * a + b * b + 1)
        return torch.stack([(r[i][0] * a + r[i][1] * b + r[i][2]) * inverse for i in range(3)])

    def project(self, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Image x, y and forward distance of points [3, ...] relative to the camera; behind it where forward <= 0."""
        r = self.rotation().tolist()
        right, up, forward = (sum(r[i][j] * offsets[i] for i in range(3)) for j in range(3))
        scale = self.focal / torch.as_tensor(forward).clamp(min=1e-3)
        return self.width / 2 + right * scale, self.height / 2 - up * scale, torch.as_tensor(forward)


@dataclass(frozen=True)
class Window:
    """A rectangle of the raster: rows [top, bottom), columns [left, right)."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def area(self) -> int:
        return (self.bottom - self.top) * (self.right - self.left)

    @property
    def slices(self) -> tuple[slice, slice]:
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def within(self, rows: tuple[int, int]) -> "Window | None":
        """The part inside a band of rows, in the band's own coordinates."""
        top, bottom = max(self.top, rows[0]), min(self.bottom, rows[1])
        return Window(top - rows[0], bottom - rows[0], self.left, self.right) if top < bottom else None


@dataclass
class Rays:
    """Rays from `origin` along unit `direction`, with the nearest hit found so far."""

    origin: Tensor  # [3, 1, 1, 1] or [3, S, h, w], relative to `anchor`
    direction: Tensor  # [3, S, h, w] or [3, 1, 1, 1]
    anchor: Point
    distance: Tensor  # [S, h, w], infinite without a hit
    surface: Tensor  # [S, h, w] int32: SKY, GROUND, or the number of an object

    @staticmethod
    def start(origin: Tensor, direction: Tensor, anchor: Point) -> "Rays":
        """Rays without hits."""
        shape = torch.broadcast_shapes(origin.shape, direction.shape)[1:]
        distance = torch.full(shape, math.inf, device=direction.device)
        surface = torch.full(shape, SKY, device=direction.device, dtype=torch.int32)
        return Rays(origin, direction, anchor, distance, surface)

    @staticmethod
    def through_pixels(
        camera: Camera, device: torch.device, rows: tuple[int, int] | None = None, *, corners: bool
    ) -> "Rays":
        """Rays through a band of rows (default: all), with one row and one column more than it has pixels.

        Sample set 0 holds pixel centres; with `corners`, set 1 holds the pixels' upper left corners.
        """
        first, last = rows or (0, camera.height)
        x = torch.arange(camera.width + 1, device=device, dtype=torch.float32)
        y = torch.arange(first, last + 1, device=device, dtype=torch.float32)[:, None]
        offsets = torch.tensor([0.5, 0.0] if corners else [0.5], device=device).reshape(-1, 1, 1)
        directions = camera.directions(x + offsets + 0 * y, y + offsets + 0 * x)
        return Rays.start(torch.zeros(3, 1, 1, 1, device=device), directions, camera.position)

    def inside(self, window: Window) -> tuple[Tensor, Tensor]:
        """Origins and directions inside a window; what all rays share is not cropped."""
        rows, columns = window.slices

        def part(t: Tensor) -> Tensor:
            return t if t.shape[-1] == 1 and t.shape[-2] == 1 else t[:, :, rows, columns]

        return part(self.origin), part(self.direction)

    def meet(self, window: Window, distance: Tensor, surface: Tensor | int) -> None:
        """Record hits inside a window where they are nearer than the known ones."""
        rows, columns = window.slices
        known = self.distance[:, rows, columns]
        nearer = distance < known
        self.surface[:, rows, columns] = torch.where(nearer, surface, self.surface[:, rows, columns])
        self.distance[:, rows, columns] = torch.where(nearer, distance, known)


def windows(
    x: Tensor,  # [N, K] raster coordinates of the corners of N bounding volumes
    y: Tensor,  # [N, K]
    forward: Tensor,  # [N, K] distance in front of the camera plane
    width: int,
    height: int,
) -> list[tuple[int, Window]]:
    """The rectangle each volume may cover, nearest volume first; those out of view are left out."""
    near = 0.2
    behind, crossing = (forward < near).all(dim=1), (forward < near).any(dim=1)
    left = torch.where(crossing, torch.zeros(()), (x.amin(dim=1) - 1).floor().clamp(0, width))
    right = torch.where(crossing, torch.full((), float(width)), (x.amax(dim=1) + 2).ceil().clamp(0, width))
    top = torch.where(crossing, torch.zeros(()), (y.amin(dim=1) - 1).floor().clamp(0, height))
    bottom = torch.where(crossing, torch.full((), float(height)), (y.amax(dim=1) + 2).ceil().clamp(0, height))
    seen = ~behind & (right > left) & (bottom > top)
    # A volume far smaller than a pixel adds only noise to a sample.
    seen &= crossing | ((x.amax(dim=1) - x.amin(dim=1)) > 0.25) | ((y.amax(dim=1) - y.amin(dim=1)) > 0.5)
    order = forward.amin(dim=1).argsort()
    table = torch.stack([top, bottom, left, right], dim=1).int()[order].tolist()
    keep = seen[order].tolist()
    return [(i, Window(*bounds)) for i, bounds, k in zip(order.tolist(), table, keep, strict=True) if k]


def windows_in_view(camera: Camera, corners: Tensor) -> list[tuple[int, Window]]:
    """`windows` of bounding volumes with corners [3, N, K], for the rays of `Rays.through_pixels`."""
    x, y, forward = camera.project(corners - torch.tensor(camera.position).reshape(3, 1, 1))
    return windows(x, y, forward, camera.width + 1, camera.height + 1)


def box_corners(
    x: Tensor,  # [N] middle of each box
    z: Tensor,  # [N]
    heights: tuple[Tensor, Tensor],  # [N] lowest and highest y
    half: tuple[Tensor, Tensor],  # [N] half sizes along the box's own x and z
    turn: tuple[Tensor, Tensor],  # [N] cosine and sine of its yaw
) -> Tensor:  # [3, N, 8]
    """Corners of boxes that stand upright, turned about the vertical."""
    signs = torch.tensor([[i & 1, i >> 1 & 1, i >> 2] for i in range(8)]).T * 2.0 - 1.0
    x, z, low, high, half_x, half_z, c, s = (t[:, None] for t in (x, z, *heights, *half, *turn))
    lx, lz = signs[0] * half_x, signs[2] * half_z
    return torch.stack([x + lx * c + lz * s, torch.where(signs[1] > 0, high, low), z - lx * s + lz * c])


def slab(origin: Tensor, direction: Tensor, half: float) -> tuple[Tensor, Tensor]:
    """Distances at which rays enter and leave the space between two planes at -half and +half."""
    inverse = 1.0 / nonzero(direction)
    middle, reach = -origin * inverse, half * inverse.abs()
    return middle - reach, middle + reach


def nonzero(x: Tensor) -> Tensor:
    return torch.where(x.abs() < 1e-7, 1e-7, x)
