"""The ground and its roads: height maps baked once per clip, and the exact point where each ray meets them.

Along each azimuth the ground's slope as seen from the camera, made monotonic by a running maximum, is a sorted list.
A binary search finds the first ground point that hides a ray; a few secant steps refine it.
"""

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.lab.scenes.rays import Camera
from libranet.lab.scenes.textures import normalised, sample_periodic, smoothstep, spectral_noise

NEAR = 512.0  # metres from the middle to the edge of the fine map
FAR = 14_000.0
MIDDLE_Z = 60.0  # both maps are centred on x = 0 and this z
_SIZE = 1024  # texels along the side of a map
_DISTANCES = 480
_FIRST = 0.4


@dataclass(frozen=True)
class Road:
    """A main road running along z, gently winding and rolling; optional parallel and cross streets."""

    half_width: float  # metres from the centre to the edge of the asphalt; 0 means no road at all
    walk: float  # width of the pavement on each side, 0 for a country road
    bend: float  # sideways amplitude in metres
    bend_length: float
    rise: float  # up-and-down amplitude in metres
    rise_length: float
    phase: float
    block: tuple[float, float] | None
    """Distance between parallel and between cross streets; None for a single road."""
    paved: bool
    town: float  # with blocks: metres to each side of the main road to which the town reaches

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


@dataclass(frozen=True)
class Relief:
    """The shape of the land."""

    hills: float  # amplitude in metres of the hills, kilometres long
    rolls: float  # amplitude of the rolls of a few hundred metres
    mountains: float  # height of the range in the distance
    mountain_start: float  # distance in metres at which the range begins
    forest: float  # share of the land under closed forest, 0 to 1
    sea: float | None  # height of the water; None for none
    shore: float  # with a sea: how steeply the land falls towards -x beyond 40 m; metres per metre
    clearing: float  # metres around the road that stay free of closed forest


class Terrain:
    """Height, normal and cover of the ground at any place."""

    def __init__(self, relief: Relief, road: Road, generator: torch.Generator) -> None:
        self.relief, self.road = relief, road
        fields = [spectral_noise(256, slope, generator) for slope in (2.1, 2.2, 1.9)]
        near, far = (self._bake(extent, fields, generator) for extent in (NEAR, FAR))
        self.maps = ((near, NEAR), (far, FAR))
        self.heights = ((near[:, :1].contiguous(), NEAR), (far[:, :1].contiguous(), FAR))
        self.bare = near[0, 4].numpy()

    def _bake(self, extent: float, fields: list[Tensor], generator: torch.Generator) -> Tensor:
        """Height, slopes along x and z, forest cover and bare ground: [1, 5, _SIZE, _SIZE]."""
        size = _SIZE
        axis = ((torch.arange(size) * 2 + 1) / size - 1) * extent
        column, row = axis, axis + MIDDLE_Z
        x, z = column.expand(size, size), row[:, None].expand(size, size)
        relief, road = self.relief, self.road
        side = road.side(x, z).abs() if road.half_width else torch.hypot(x, z - MIDDLE_Z)
        radius = torch.hypot(x, z - MIDDLE_Z)

        macro = sample_periodic(fields[0], column, row, 9000.0)
        macro = macro - sample_periodic(fields[0], torch.zeros(1), torch.full((1,), MIDDLE_Z), 9000.0)
        rolls = sample_periodic(fields[1], column, row, 620.0)
        ridge = (1.25 - sample_periodic(fields[0], column + 4000, row, 15000.0).abs()).clamp(min=0.0)
        range_ = smoothstep(relief.mountain_start, relief.mountain_start * 2.2 + 1500, radius) * relief.mountains
        height = relief.hills * macro * smoothstep(0, 1200, radius) + relief.rolls * rolls
        # Spurs and gullies grow with the height of the mountain they cut into.
        spurs = 0.5 - sample_periodic(fields[2], column, row, 6000.0).abs()
        height = height + range_ * ridge * (1 + 0.45 * spurs).clamp(min=0.2)
        if relief.sea is not None:
            fall = (-x - 45.0 + 18.0 * sample_periodic(fields[1], column, row, 900.0)).clamp(min=0)
            height = height - (fall * relief.shore).clamp(max=60.0 + relief.hills * 1.5)
        if road.half_width:
            reach = road.half_width + road.walk + 1.5
            keep = torch.maximum(smoothstep(reach, reach + 45.0, side), smoothstep(600.0, 1400.0, radius))
            height = torch.lerp(road.levels(z), height, keep)
        ground = height

        forest = torch.zeros_like(x)
        tint = torch.zeros_like(x)
        if relief.forest > 0:
            mask = sample_periodic(fields[1], column + 311, row + 97, 1500.0)
            # Ragged edges; above the tree line none.
            mask = mask + 0.25 * sample_periodic(fields[2], column, row, 350.0) - 2.5 * smoothstep(160.0, 420.0, height)
            edge = math.sqrt(2) * torch.erfinv(torch.tensor(1 - 2 * min(relief.forest, 0.98))).item()
            forest = smoothstep(edge - 0.15, edge + 0.15, mask) * smoothstep(relief.clearing, relief.clearing + 8, side)
            if relief.sea is not None:
                forest = forest * smoothstep(relief.sea + 1.5, relief.sea + 3.0, height)
            if extent == NEAR:
                bump, tint = _canopy(x, z, 5.5, generator)
            else:  # texels are wider than trees
                tint = torch.rand(x.shape, generator=generator)
                bump = 9.0 + 4.0 * tint
            height = height + (forest > 0.5) * bump
        if relief.sea is not None:
            height = height.clamp(min=relief.sea)
        texel = 2 * extent / size
        padded = F.pad(height[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
        slope_x = (padded[1:-1, 2:] - padded[1:-1, :-2]) / (2 * texel)
        slope_z = (padded[2:, 1:-1] - padded[:-2, 1:-1]) / (2 * texel)
        covered = (forest > 0.5).float() * (1 + tint)
        # The slope up to the first crowns belongs to the forest too.
        covered = torch.maximum(covered, (F.max_pool2d(covered[None, None], 3, 1, 1)[0, 0] > 0).float())
        return torch.stack([height, slope_x, slope_z, covered, ground])[None].contiguous()

    def to(self, device: torch.device) -> "Terrain":
        """The same terrain with its maps on another device."""
        moved = copy.copy(self)
        moved.maps, moved.heights = (
            ((near.to(device), NEAR), (far.to(device), FAR)) for (near, _), (far, _) in (self.maps, self.heights)
        )
        return moved

    def level(self, x: float, z: float) -> float:
        """Height of the bare ground at one place within the fine map."""
        size = len(self.bare)
        column = min(max((x / NEAR * 0.5 + 0.5) * size - 0.5, 0.0), size - 1.001)
        row = min(max(((z - MIDDLE_Z) / NEAR * 0.5 + 0.5) * size - 0.5, 0.0), size - 1.001)
        i, j = int(row), int(column)
        upper, lower = self.bare[i], self.bare[i + 1]
        a = upper[j] + (upper[j + 1] - upper[j]) * (column - j)
        b = lower[j] + (lower[j + 1] - lower[j]) * (column - j)
        return float(a + (b - a) * (row - i))

    def height(self, x: Tensor, z: Tensor) -> Tensor:
        """Height of the ground with its closed forest, of the shape of `x` and `z`."""
        return _read(self.heights, x, z)[0]

    def surface(self, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Unit normal [3, N], forest cover (0 none, else 1 + a shade in [0, 1)), bare ground height."""
        _, slope_x, slope_z, cover, ground = _read(self.maps, x, z)
        normal = normalised(torch.stack([-slope_x, torch.ones_like(slope_x), -slope_z]))
        return normal, cover, ground


class Profile:
    """The ground as seen from one camera: for every azimuth, how high it rises up to each distance."""

    def __init__(self, terrain: Terrain, camera: Camera) -> None:
        self.terrain, self.camera = terrain, camera
        device = terrain.maps[0][0].device
        xs = torch.linspace(-1.0, camera.width + 1.0, 65)
        ys = torch.linspace(-1.0, camera.height + 1.0, 65)
        border = torch.cat(
            [torch.stack([xs, torch.full_like(xs, v)]) for v in (-1.0, camera.height + 1.0)]
            + [torch.stack([torch.full_like(ys, v), ys]) for v in (-1.0, camera.width + 1.0)],
            dim=1,
        )
        azimuth = self._azimuth(camera.directions(border[0], border[1]))
        self.low, high = float(azimuth.min()), float(azimuth.max())
        self.columns = max(16, math.ceil((high - self.low) / math.atan(1 / camera.focal)) + 1)
        self.step = (high - self.low) / (self.columns - 1)
        ratio = (FAR * 0.95 / _FIRST) ** (1 / (_DISTANCES - 1))
        self.distances = _FIRST * ratio ** torch.arange(_DISTANCES, device=device, dtype=torch.float32)
        angles = camera.yaw + self.low + self.step * torch.arange(self.columns, device=device, dtype=torch.float32)
        x0, y0, z0 = camera.position
        chunks = []
        for part in angles.split(1024):
            x = x0 + torch.sin(part)[:, None] * self.distances
            z = z0 + torch.cos(part)[:, None] * self.distances
            chunks.append(((terrain.height(x, z) - y0) / self.distances).cummax(dim=1).values)
        self.slopes = torch.cat(chunks).contiguous()  # [columns, distances], rising along each row

    def _azimuth(self, directions: Tensor) -> Tensor:
        yaw = self.camera.yaw
        right = directions[0] * math.cos(yaw) - directions[2] * math.sin(yaw)
        forward = directions[0] * math.sin(yaw) + directions[2] * math.cos(yaw)
        return torch.atan2(right, forward)

    def intersect(self, directions: Tensor) -> Tensor:
        """Distance along unit rays [3, ...] to the ground, infinite where a ray meets only sky."""
        flat = torch.hypot(directions[0], directions[2]).clamp(min=1e-4)
        slope = directions[1] / flat
        column = ((self._azimuth(directions) - self.low) / self.step).round().clamp(0, self.columns - 1).long()
        base = column * _DISTANCES
        table = self.slopes.reshape(-1)
        low = torch.zeros_like(base)  # index of the first distance whose slope reaches the ray's
        span = 1 << (_DISTANCES - 1).bit_length() - 1
        while span:
            probe = low + span
            below = table[base + (probe - 1).clamp(max=_DISTANCES - 1)] < slope
            low = torch.where(below & (probe <= _DISTANCES), probe, low)
            span >>= 1
        hit = low < _DISTANCES
        index = low.clamp(max=_DISTANCES - 1)
        far = self.distances[index]
        near = torch.where(index > 0, self.distances[(index - 1).clamp(min=0)], 0.05)
        x0, y0, z0 = self.camera.position
        ux, uz = directions[0] / flat, directions[2] / flat

        def clearance(r: Tensor) -> Tensor:
            return y0 + slope * r - self.terrain.height(x0 + ux * r, z0 + uz * r)

        above, below_ = clearance(near), clearance(far)
        for _ in range(3):
            share = (above / (above - below_).clamp(min=1e-6)).clamp(0.02, 0.98)
            middle = near + (far - near) * share
            value = clearance(middle)
            under = value < 0
            far, below_ = torch.where(under, middle, far), torch.where(under, value, below_)
            near, above = torch.where(under, near, middle), torch.where(under, above, value)
        share = (above / (above - below_).clamp(min=1e-6)).clamp(0.0, 1.0)
        return torch.where(hit, (near + (far - near) * share) / flat, math.inf)


def _canopy(x: Tensor, z: Tensor, spacing: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Crowns of a closed forest seen from outside: height above ground in metres and a shade per tree."""
    n = 97
    table = torch.rand(2, n, n, generator=generator)
    sx, sz = x[0] / spacing, z[:, 0] / spacing  # the map is a regular raster: cells are looked up by row and column
    cx, cz = sx.floor(), sz.floor()
    best, shade = torch.full_like(x, 81.0), torch.zeros_like(x)
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            kx, kz = cx + i, cz + j
            cells = table[:, kz.long().remainder(n)][:, :, kx.long().remainder(n)]
            dx, dz = (sx - kx - 0.2) - 0.6 * cells[0], (sz - kz - 0.2)[:, None] - 0.6 * cells[1]
            d = dx * dx + dz * dz + 0.25 * cells[1]
            closer = d < best
            best, shade = torch.where(closer, d, best), torch.where(closer, cells[0], shade)
    return 5.0 + 3.0 * shade + 6.5 * (1.0 - 1.2 * best).clamp(min=0.0), shade * 0.98


def _read(maps: tuple[tuple[Tensor, float], ...], x: Tensor, z: Tensor) -> Tensor:  # [C, ...]
    local = torch.stack([x, z - MIDDLE_Z], dim=-1)
    blend = smoothstep(0.82, 0.98, local.abs().amax(dim=-1) / NEAR)
    values = []
    for texture, extent in maps:
        grid = (local / extent).reshape(1, 1, -1, 2)
        out = F.grid_sample(texture, grid, mode="bilinear", padding_mode="border", align_corners=False)
        values.append(out.reshape(-1, *x.shape))
    return torch.lerp(values[0], values[1], blend)
