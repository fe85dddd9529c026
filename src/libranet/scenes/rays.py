"""Bundles of rays on a regular raster, and what each of them has met so far."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SKY = -1
GROUND = 0


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

    def within(self, rows: tuple[int, int]) -> "Window | None":
        """The part inside a band of rows, in the band's own coordinates."""
        top, bottom = max(self.top, rows[0]), min(self.bottom, rows[1])
        return Window(top - rows[0], bottom - rows[0], self.left, self.right) if top < bottom else None


@dataclass
class Rays:
    """Rays from `origin` along unit `direction`, with the nearest hit found so far."""

    origin: Tensor  # [3, 1, 1, 1] or [3, S, h, w], relative to `anchor`
    direction: Tensor  # [3, S, h, w] or [3, 1, 1, 1]
    anchor: tuple[float, float, float]
    distance: Tensor  # [S, h, w], infinite where nothing was met
    surface: Tensor  # [S, h, w] int32: SKY, GROUND, or the number of a solid or a leaf lobe

    @staticmethod
    def start(origin: Tensor, direction: Tensor, anchor: tuple[float, float, float]) -> "Rays":
        shape = torch.broadcast_shapes(origin.shape, direction.shape)[1:]
        distance = torch.full(shape, math.inf, device=direction.device)
        surface = torch.full(shape, SKY, device=direction.device, dtype=torch.int32)
        return Rays(origin, direction, anchor, distance, surface)

    def cut(self, window: Window) -> tuple[Tensor, Tensor]:
        """Origins and directions inside a window (what is the same for all rays stays so)."""
        rows, columns = slice(window.top, window.bottom), slice(window.left, window.right)

        def part(t: Tensor) -> Tensor:
            return t if t.shape[-1] == 1 and t.shape[-2] == 1 else t[:, :, rows, columns]

        return part(self.origin), part(self.direction)

    def meet(self, window: Window, distance: Tensor, surface: Tensor | int) -> None:
        """Record hits inside a window where they are nearer than what is there."""
        rows, columns = slice(window.top, window.bottom), slice(window.left, window.right)
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
