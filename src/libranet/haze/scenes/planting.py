"""Puts houses, trees, cars and poles where they belong in a biome."""

import math
import random

from libranet.haze.scenes.biome import Biome, car_colour, facade_colour, heading_noise, roof_colour
from libranet.haze.scenes.camera import CameraPath
from libranet.haze.scenes.solids import Colour, Solid, Stuff
from libranet.haze.scenes.terrain import Terrain
from libranet.haze.scenes.trees import Tree, broadleaf, bush, conifer

_METAL: Colour = (0.22, 0.23, 0.24)


class Planter:
    """Collects the solids and trees of one scene; keeps things out of each other's and the camera's way."""

    def __init__(self, rng: random.Random, biome: Biome, terrain: Terrain, path: CameraPath) -> None:
        self.rng, self.biome, self.terrain, self.path = rng, biome, terrain, path
        self.solids: list[Solid] = []
        self.trees: list[Tree] = []
        self._taken: list[tuple[float, float, float]] = []

    def plant(self) -> None:
        kind = self.biome.kind
        if kind == "city":
            self._blocks()
        elif kind == "street":
            self._street()
        elif kind == "suburb":
            self._houses(34, 14.0, 45.0, -20, 260)
        elif kind in ("country", "coast", "mountain", "dry"):
            self._houses(self.rng.randint(0, 9), 20.0, 160.0, 40, 330)
        if self.biome.road.half_width:
            self._cars()
            self._poles()
        self._grow()

    # Where things may stand

    def _free(self, x: float, z: float, radius: float) -> bool:
        sea = self.terrain.relief.sea
        if sea is not None and self.terrain.level(x, z) < sea + 0.6:
            return False
        if any((x - a) ** 2 + (z - b) ** 2 < (radius + r) ** 2 for a, b, r in self._taken):
            return False
        return all(
            math.hypot(x - c.position[0], z - c.position[2]) > radius + 2.5
            for c in (self.path.at(0.5 * i, 16, 16) for i in range(-1, 13))
        )

    def _base(self, x: float, z: float, radius: float) -> float:
        """Lowest ground under a footprint."""
        return min(
            self.terrain.level(x + dx * radius, z + dz * radius)
            for dx, dz in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
        )

    # Buildings

    def _building(self, x: float, z: float, hx: float, hz: float, height: float, yaw: float, slope: float) -> None:
        rng = self.rng
        base = self._base(x, z, min(hx, hz))
        colour, roof, key = facade_colour(rng), roof_colour(rng), rng.random()
        storey = rng.uniform(2.8, 3.6)
        bay = rng.uniform(1.8, 3.8)
        flat_roof: Colour = (0.26, 0.25, 0.24)
        self.solids.append(
            Solid(
                x,
                z,
                base,
                hx,
                hz,
                height,
                yaw,
                slope,
                Stuff.BUILDING,
                colour,
                roof if slope else flat_roof,
                storey,
                bay,
                key,
            )
        )
        self._taken.append((x, z, math.hypot(hx, hz) * 0.8))
        if slope and rng.random() < 0.7:  # chimney
            lx, lz = hx * 0.35, hz * rng.uniform(-0.6, 0.6)
            cx, cz = x + lx * math.cos(yaw) + lz * math.sin(yaw), z - lx * math.sin(yaw) + lz * math.cos(yaw)
            self.solids.append(
                Solid(
                    cx, cz, base, 0.35, 0.35, height + slope * hx + 0.6, yaw, 0.0, Stuff.WALL, (0.25, 0.13, 0.09), roof
                )
            )
        elif not slope:
            if rng.random() < 0.7:  # stair head or machine room
                self.solids.append(
                    Solid(
                        x + hx * rng.uniform(-0.4, 0.4), z + hz * rng.uniform(-0.4, 0.4), base,
                        hx * 0.3, hz * 0.3, height + rng.uniform(2, 4), yaw, 0.0, Stuff.WALL, (0.35, 0.34, 0.33), flat_roof,
                    )
                )  # fmt: skip
            # A cornice a little wider than the walls.
            self.solids.append(
                Solid(
                    x,
                    z,
                    base + height - 0.1,
                    hx + 0.25,
                    hz + 0.25,
                    0.45,
                    yaw,
                    0.0,
                    Stuff.WALL,
                    tuple(0.8 * c for c in colour),
                    flat_roof,
                )  # type: ignore[arg-type]
            )

    def _street(self) -> None:
        """Rows of houses along both sides of the main road, and towers behind them."""
        rng, road = self.rng, self.biome.road
        assert road.block is not None
        tall = rng.uniform(5, 22)
        gabled = rng.random() < 0.4
        for side in (-1, 1):
            z = -30.0
            setback = road.half_width + road.walk + rng.choice([0.3, 0.3, rng.uniform(2, 7)])
            while z < 420:
                half_z = rng.uniform(5, 12)
                cross = (z + half_z + 0.37 * road.block[1]) % road.block[1] - road.block[1] / 2
                if abs(cross) < half_z + road.half_width + road.walk:
                    z += 3.0
                    continue
                hx = rng.uniform(5, 9)
                height = max(3.2, tall * rng.uniform(0.55, 1.4))
                slope = rng.uniform(0.45, 0.9) if gabled and height < 16 else 0.0
                self._building(side * (setback + hx), z + half_z, hx, half_z, height, 0.0, slope)
                z += 2 * half_z + (0.0 if rng.random() < 0.7 else rng.uniform(1, 9))
        for _ in range(rng.randint(0, 16)):
            x, z = rng.choice([-1, 1]) * rng.uniform(45, 220), rng.uniform(60, 460)
            half = rng.uniform(7, 13)
            if self._free(x, z, half * 1.3):
                self._building(x, z, half, rng.uniform(7, 13), rng.uniform(14, 70), 0.0, 0.0)

    def _blocks(self) -> None:
        """Filled blocks between a grid of streets."""
        rng, road = self.rng, self.biome.road
        assert road.block is not None
        along, across = road.block
        edge = road.half_width + road.walk + 1.0
        tall = rng.uniform(9, 38)
        for i in range(-5, 5):
            for j in range(-1, 7):
                x0, z0 = (i + 0.0) * along, (j + 0.13) * across
                low_x, high_x, low_z, high_z = x0 + edge, x0 + along - edge, z0 + edge, z0 + across - edge
                if rng.random() < 0.1:
                    continue  # a park
                columns, rows = (2 if along > 70 else 1), max(1, round((high_z - low_z) / 28))
                for a in range(columns):
                    for b in range(rows):
                        wx, wz = (high_x - low_x) / columns, (high_z - low_z) / rows
                        hx, hz = wx / 2 * rng.uniform(0.6, 0.98), wz / 2 * rng.uniform(0.6, 1.0)
                        x, z = low_x + wx * (a + 0.5), low_z + wz * (b + 0.5)
                        height = max(5.0, tall * rng.lognormvariate(-0.1, 0.5))
                        if self._free(x, z, max(hx, hz)) and rng.random() < 0.92:
                            self._building(x, z, hx, hz, height, 0.0, 0.0)

    def _houses(self, count: int, near: float, far: float, low_z: float, high_z: float) -> None:
        """Detached houses with gardens."""
        rng, road = self.rng, self.biome.road
        for _ in range(count * 3):
            z = rng.uniform(low_z, high_z)
            x = road.centre(z) + rng.choice([-1, 1]) * rng.uniform(near, far)
            hx, hz = rng.uniform(3.5, 5.5), rng.uniform(4.5, 8.5)
            if count > 0 and self._free(x, z, hz * 1.25):
                self._building(x, z, hx, hz, rng.uniform(2.8, 6.5), heading_noise(rng), rng.uniform(0.4, 1.0))
                count -= 1

    # Small things

    def _cars(self) -> None:
        rng, road = self.rng, self.biome.road
        if not road.paved:
            return
        busy = self.biome.kind in ("street", "city")
        for _ in range(rng.randint(2, 6) if busy else rng.randint(0, 3)):
            lane = rng.choice([-1, 1])
            z = rng.uniform(14, 170)
            if abs(self.path.start[0] - lane * road.half_width * 0.45) < 1.5 and z < 30:
                continue
            speed = lane * rng.uniform(5, 13) if road.bend == 0 else 0.0
            if self.path.road is not None and speed < 0 and z < 100:
                z += 100
            self._car(lane * road.half_width * 0.45, z, speed)
        if road.walk:
            for side in (-1, 1):
                z = rng.uniform(0, 10)
                while z < 220:
                    z += rng.uniform(5.2, 16 if busy else 50)
                    if rng.random() < 0.7 and road.half_width > 4.2:
                        self._car(side * (road.half_width - 1.0), z, 0.0)

    def _car(self, side: float, z: float, speed: float) -> None:
        rng, road = self.rng, self.biome.road
        x, yaw, base = road.centre(z) + side, road.heading(z), road.level(z)
        if speed == 0 and not self._free(x, z, 2.0):
            return
        turned = yaw + (math.pi if side < 0 else 0.0)
        colour = car_colour(rng)
        van = rng.random() < 0.2
        length, width = rng.uniform(1.9, 2.4), rng.uniform(0.82, 0.92)
        self.solids.append(
            Solid(
                x,
                z,
                base + 0.12,
                width,
                length,
                1.0 if van else 0.72,
                turned,
                0.0,
                Stuff.CAR,
                colour,
                colour,
                velocity=(0.0, speed),
            )
        )
        back = 0.0 if van else -0.25
        self.solids.append(
            Solid(
                x + math.sin(turned) * back, z + math.cos(turned) * back, base + 0.12, width * 0.86,
                length * (0.9 if van else 0.52), 1.8 if van else 1.28, turned, 0.0, Stuff.CABIN, colour, colour, velocity=(0.0, speed),
            )
        )  # fmt: skip

    def _poles(self) -> None:
        rng, road = self.rng, self.biome.road
        if rng.random() < 0.3:
            return
        side = rng.choice([-1, 1])
        spacing, height = rng.uniform(22, 40), rng.uniform(5.5, 9.0)
        wood = road.walk == 0
        for i in range(-1, 9):
            z = i * spacing + 6.0
            x = road.centre(z) + side * (road.half_width + max(0.4, road.walk - 0.4) + (1.2 if wood else 0.0))
            base = self.terrain.level(x, z)
            colour: Colour = (0.16, 0.12, 0.09) if wood else _METAL
            if not self._free(x, z, 0.2):
                continue
            self.solids.append(Solid(x, z, base, 0.09, 0.09, height, 0.0, 0.0, Stuff.POLE, colour, colour))
            arm = 0.9 if wood else 0.7
            self.solids.append(
                Solid(
                    x - side * (0.0 if wood else arm),
                    z,
                    base + height - 0.35,
                    arm,
                    0.06,
                    0.14,
                    0.0,
                    0.0,
                    Stuff.WALL,
                    colour,
                    colour,
                )
            )

    # Plants

    def _grow(self) -> None:
        rng, biome, road = self.rng, self.biome, self.biome.road
        edge = road.half_width + road.walk
        for attempt in range(biome.trees * 2):
            if len(self.trees) >= biome.trees:
                break
            z = 330.0 * rng.random() ** (1.6 if biome.kind == "forest" else 1.25) - 8
            reach = {"street": 4.0, "forest": 26.0, "city": 120.0}.get(biome.kind, 70.0)
            gap = edge + (0.8 if road.walk else 2.2) if road.half_width else 3.0
            out = gap + reach * rng.random() ** 1.5
            if biome.kind == "street":
                out = road.half_width + road.walk * 0.5
            x = road.centre(z) + rng.choice([-1, 1]) * out
            height = rng.uniform(5, 9) if road.walk else rng.uniform(6, 17)
            far = math.hypot(x - self.path.start[0], z)
            if not self._free(x, z, height * 0.16 if biome.kind == "forest" else height * 0.2):
                continue
            base, colour = self.terrain.level(x, z), rng.choice(biome.leaves)
            if rng.random() < biome.conifers:
                tone = rng.uniform(0.8, 1.2)
                tree, trunk = conifer(
                    rng, x, z, base, height * 1.2, (0.035 * tone, 0.062 * tone, 0.026 * tone), 9 if far < 120 else 6
                )
            else:
                tone = rng.uniform(0.8, 1.2)
                colour = (colour[0] * tone, colour[1] * tone, colour[2] * tone)
                tree, trunk = broadleaf(rng, x, z, base, height, colour, 10 if far < 60 else 6)
            self.trees.append(tree)
            if far < 150:
                self.solids.append(trunk)
            self._taken.append((x, z, height * 0.12))
        if biome.kind in ("street", "city"):
            return
        for _ in range(biome.trees // 2):
            z = 130.0 * rng.random() ** 1.4
            x = road.centre(z) + rng.choice([-1, 1]) * (edge + 1.5 + 25 * rng.random() ** 1.5)
            size = rng.uniform(0.5, 1.6)
            if self._free(x, z, size):
                self.trees.append(bush(rng, x, z, self.terrain.level(x, z), size, rng.choice(biome.leaves)))
