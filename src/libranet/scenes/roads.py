"""The road a scene is laid out along, and in towns the grid of streets around it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Road:
    """A main road running along z, gently winding and rolling; optional parallel and cross streets."""

    half_width: float
    """Metres from the centre to the edge of the asphalt; 0 means no road at all."""
    walk: float
    """Width of the pavement on each side, 0 for a country road."""
    bend: float
    """Sideways amplitude in metres."""
    bend_length: float
    rise: float
    """Up-and-down amplitude in metres."""
    rise_length: float
    phase: float
    block: tuple[float, float] | None
    """Distance between parallel and between cross streets; None for a single road."""
    paved: bool
    town: float
    """With blocks: metres to each side of the main road to which the town reaches."""

    def centre(self, z: float) -> float:
        return self.bend * (math.sin(z / self.bend_length + self.phase) - math.sin(self.phase))

    def heading(self, z: float) -> float:
        return math.atan(self.bend / self.bend_length * math.cos(z / self.bend_length + self.phase))

    def level(self, z: float) -> float:
        return self.rise * (math.sin(z / self.rise_length + self.phase) - math.sin(self.phase))

    def side(self, x: Tensor, z: Tensor) -> Tensor:
        """Signed metres to the right of the centre line."""
        angle = z / self.bend_length + self.phase
        cosine = torch.rsqrt(1 + (self.bend / self.bend_length * torch.cos(angle)) ** 2)
        return (x - self.bend * (torch.sin(angle) - math.sin(self.phase))) * cosine

    def levels(self, z: Tensor) -> Tensor:
        return self.rise * (torch.sin(z / self.rise_length + self.phase) - math.sin(self.phase))

    def streets(self, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Signed metres to the nearest street along z, and to the nearest one across (far away where there is none)."""
        side = self.side(x, z)
        if self.block is None:
            return side, torch.full_like(z, 1e4)
        along, across = self.block
        inside = self.in_town(x, z)
        nearest = torch.where(inside, (side + along / 2).remainder(along) - along / 2, side)
        return nearest, torch.where(inside, (z + 0.37 * across).remainder(across) - across / 2, 1e4)

    def in_town(self, x: Tensor, z: Tensor) -> Tensor:
        """Where the grid of streets lies."""
        return (self.side(x, z).abs() < self.town) & (z > -160.0) & (z < 560.0)
