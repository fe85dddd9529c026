"""A building site: what has been put where, and whether a place is still free."""

import math
import random
from dataclasses import dataclass, field

from libranet.scenes.biome import Biome
from libranet.scenes.camera import CameraPath
from libranet.scenes.solids import Solid
from libranet.scenes.terrain import Terrain
from libranet.scenes.trees import Tree

_MARGIN = 2.5  # metres kept free around the camera's path


@dataclass
class Site:
    """Collects the solids and trees of one scene; keeps things out of each other's and the camera's way."""

    rng: random.Random
    biome: Biome
    terrain: Terrain
    path: CameraPath
    solids: list[Solid] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    taken: list[tuple[float, float, float]] = field(default_factory=list)
    """Circles x, z, radius in which something stands."""

    def __post_init__(self) -> None:
        self._passed = [self.path.at(0.5 * i, 16, 16).position for i in range(-1, 13)]

    def free(self, x: float, z: float, radius: float) -> bool:
        """Dry, and clear of what stands there and of the camera."""
        sea = self.terrain.relief.sea
        if sea is not None and self.terrain.level(x, z) < sea + 0.6:
            return False
        if any((x - a) ** 2 + (z - b) ** 2 < (radius + r) ** 2 for a, b, r in self.taken):
            return False
        return all(math.hypot(x - a, z - b) > radius + _MARGIN for a, _, b in self._passed)

    def base(self, x: float, z: float, radius: float) -> float:
        """Lowest ground under a footprint."""
        around = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
        return min(self.terrain.level(x + dx * radius, z + dz * radius) for dx, dz in around)
