"""Trees and bushes: crowns of overlapping ellipsoids whose two shells are pierced by a leaf pattern fixed in space."""

import math
import random
from dataclasses import dataclass, field

import torch
from torch import Tensor

from libranet.haze.scenes.noise import SolidTexture
from libranet.haze.scenes.rays import Rays, Window
from libranet.haze.scenes.solids import Colour, Solid, Stuff


@dataclass(frozen=True)
class Tree:
    """One crown. Lobes are (x, y, z, radius) around the crown's middle, in a space stretched by `squash` along y."""

    middle: tuple[float, float, float]
    lobes: list[tuple[float, float, float, float]]
    squash: float
    """Width over height of each lobe."""
    radius: float
    colour: Colour
    gaps: float
    """How open the crown is: the leaf noise below which a shell has a hole, in standard deviations."""
    leaf: float
    """Period of the leaf pattern in metres."""


@dataclass
class Trees:
    """All crowns of a scene."""

    items: list[Tree]
    device: torch.device
    leaves: SolidTexture
    first: int
    """The surface number of the first lobe."""
    lobes: Tensor = field(init=False)  # [4, M] crown-relative lobes on the device
    shade: Tensor = field(init=False)  # [9, M]: crown middle, colour, radius, squash, key

    def __post_init__(self) -> None:
        lobes, shade, self.starts = [], [], [0]
        for number, tree in enumerate(self.items):
            lobes += tree.lobes
            shade += [[*tree.middle, *tree.colour, tree.radius, tree.squash, (number * 0.618) % 1.0]] * len(tree.lobes)
            self.starts.append(len(lobes))
        self.lobes = torch.tensor(lobes, dtype=torch.float32).reshape(-1, 4).T.contiguous().to(self.device)
        self.shade = torch.tensor(shade, dtype=torch.float32).reshape(-1, 9).T.contiguous().to(self.device)

    def corners(self) -> Tensor:  # [3, N, 8] on the host
        middle = torch.tensor([t.middle for t in self.items], dtype=torch.float32).reshape(-1, 3)
        reach = torch.tensor(
            [
                (
                    max(math.hypot(x, z) + r for x, _, z, r in t.lobes),
                    max((abs(y) + r) / t.squash for _, y, _, r in t.lobes),
                )
                for t in self.items
            ],
            dtype=torch.float32,
        ).reshape(-1, 2)
        signs = torch.tensor([[sx, sy, sz] for sx in (-1, 1) for sy in (-1, 1) for sz in (-1, 1)], dtype=torch.float32)
        return (middle[:, None] + signs * reach[:, [0, 1, 0]][:, None]).permute(2, 0, 1)

    def intersect(self, rays: Rays, index: int, window: Window, pixel: float) -> None:
        """Meet the rays inside the window with one crown. `pixel`: the angle one pixel covers, 0 for parallel rays."""
        tree = self.items[index]
        start, end = self.starts[index], self.starts[index + 1]
        lobes = self.lobes[:, start:end]
        shift = [a - m for a, m in zip(rays.anchor, tree.middle, strict=True)]
        origin, direction = rays.cut(window)
        o = [origin[i] + shift[i] for i in range(3)]
        d = [direction[i] for i in range(3)]
        k = tree.squash
        so, sd = (o[0], o[1] * k, o[2]), (d[0], d[1] * k, d[2])
        a = sd[0] * sd[0] + sd[1] * sd[1] + sd[2] * sd[2]
        od = so[0] * sd[0] + so[1] * sd[1] + so[2] * sd[2]
        oo = so[0] * so[0] + so[1] * so[1] + so[2] * so[2]
        cx, cy, cz, r = (lobes[i].reshape(-1, 1, 1, 1) for i in range(4))
        b = od - (cx * sd[0] + cy * sd[1] + cz * sd[2])
        rest = oo - 2 * (cx * so[0] + cy * so[1] + cz * so[2]) + (cx * cx + cy * cy + cz * cz)
        closest = b * b - a * rest  # a * radius^2 more than this is a hit
        found = torch.full_like(torch.broadcast_tensors(closest, closest)[0][0], math.inf)
        number = torch.zeros_like(found, dtype=torch.int32)
        for shell, gaps in ((1.0, tree.gaps), (0.8, tree.gaps - 0.35)):
            root = closest + a * (r * r * shell * shell)
            t, lobe = torch.where(root > 0, (-b - root.clamp(min=0).sqrt()) / a, math.inf).min(dim=0)
            t = torch.where(t > 0.05, t, math.inf)
            at = torch.where(t < math.inf, t, 0.0)
            noise = self.leaves.sample(o[0] + at * d[0], o[1] + at * d[1], o[2] + at * d[2], tree.leaf)
            if pixel:  # leaves smaller than the pixel merge into a closed crown
                noise = noise * (1.5 - at * (pixel * 10.0 / tree.leaf)).clamp(0, 1)
            open_ = (noise > gaps) & (t < found)
            found = torch.where(open_, t, found)
            number = torch.where(open_, lobe.to(torch.int32), number)
        rays.meet(window, found, number + (self.first + start))


def broadleaf(
    rng: random.Random, x: float, z: float, base: float, height: float, colour: Colour, lobes: int
) -> tuple[Tree, Solid]:
    """A round-headed tree and its trunk."""
    crown = height * rng.uniform(0.3, 0.4)
    squash = rng.uniform(0.75, 1.1)
    parts = [(0.0, 0.0, 0.0, crown * 0.72)]
    for i in range(lobes - 1):
        angle = i * 2.4 + rng.random()
        up = rng.uniform(-0.5, 0.75)
        out = crown * rng.uniform(0.4, 0.62) * math.sqrt(max(0.2, 1 - up * up * 0.8))
        parts.append((out * math.cos(angle), crown * up, out * math.sin(angle), crown * rng.uniform(0.34, 0.55)))
    middle = (x, base + height - crown / squash, z)
    tree = Tree(middle, parts, squash, crown * 1.15, colour, rng.uniform(-0.75, -0.2), rng.uniform(3.0, 4.5))
    radius = max(0.09, height * 0.018)
    return tree, _trunk(rng, x, z, base, radius, middle[1] - base)


def conifer(
    rng: random.Random, x: float, z: float, base: float, height: float, colour: Colour, lobes: int
) -> tuple[Tree, Solid]:
    """A spruce: flat whorls, wide at the foot, and its trunk."""
    squash = 1.6
    width = height * rng.uniform(0.15, 0.22)
    parts = []
    for i in range(lobes):
        share = i / max(1, lobes - 1)
        radius = width * (1.05 - 0.9 * share)
        lean = width * 0.12
        parts.append(
            (rng.uniform(-lean, lean), (share - 0.5) * height * 0.8 * squash, rng.uniform(-lean, lean), radius)
        )
    # Whorls of few lobes must still touch each other.
    stretch = min(squash, 2.6 * width * lobes / (height * 0.8 * 2.0))
    parts = [(px, py / squash * stretch, pz, pr) for px, py, pz, pr in parts]
    middle = (x, base + height * 0.56, z)
    tree = Tree(middle, parts, stretch, width, colour, rng.uniform(-0.6, -0.2), rng.uniform(2.5, 3.5))
    return tree, _trunk(rng, x, z, base, max(0.08, height * 0.012), height * 0.5)


def bush(rng: random.Random, x: float, z: float, base: float, size: float, colour: Colour) -> Tree:
    parts = [
        (
            rng.uniform(-0.5, 0.5) * size,
            rng.uniform(-0.1, 0.2) * size,
            rng.uniform(-0.5, 0.5) * size,
            size * rng.uniform(0.4, 0.65),
        )
        for _ in range(3)
    ]
    return Tree((x, base + size * 0.3, z), parts, 1.2, size, colour, rng.uniform(-0.9, -0.5), rng.uniform(1.5, 2.5))


def _trunk(rng: random.Random, x: float, z: float, base: float, radius: float, height: float) -> Solid:
    grey = rng.uniform(0.6, 1.2)
    colour = (0.11 * grey, 0.085 * grey, 0.065 * grey)
    return Solid(
        x, z, base, radius, radius, height, yaw=rng.random(), stuff=Stuff.TRUNK, colour=colour, key=rng.random()
    )
