"""Chooses a view of a furnished room, traces it, and develops the picture.

Two rays per pixel, through its centre and its corner, as in the outdoor scenes; corners are shaded only where something
begins or ends.
"""

import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.scenes.camera import Camera
from libranet.scenes.noise import textures
from libranet.scenes.rays import Rays, windows
from libranet.scenes.rooms.lamps import RoomLight
from libranet.scenes.rooms.patterns import Patterns
from libranet.scenes.rooms.plan import Plan
from libranet.scenes.rooms.shapes import SHELL, Shapes

_CHUNK = 1 << 16  # points shaded at once: small enough for the cache
_PREVIEW = (64, 36)
_CANDIDATES = 10
_WALL_ALBEDO = 0.75  # of the wall that exposure is made for


@dataclass(frozen=True)
class Eye:
    """Where a picture is taken from, without its size."""

    position: tuple[float, float, float]
    yaw: float
    pitch: float
    roll: float
    view_angle: float
    """Horizontal field of view in radians."""

    def camera(self, width: int, height: int) -> Camera:
        focal = 0.5 * width / math.tan(0.5 * self.view_angle)
        return Camera(self.position, self.yaw, self.pitch, self.roll, focal, width, height)


@dataclass(frozen=True)
class Mood:
    """How the photographer develops."""

    wall: float
    """Display value of a white wall in middling light."""
    vignette: float
    saturation: float
    contrast: float


class Renderer:
    """One room, ready to be looked at."""

    def __init__(self, plan: Plan, rng: random.Random, device: torch.device) -> None:
        self.shapes = Shapes(plan.shapes, plan.half, device)
        self.patterns = Patterns([*plan.faces, *(s.finish for s in plan.shapes)], textures(device)[0], device)
        self.light = RoomLight(plan.lamps, self.shapes, [face.colour for face in plan.faces], rng)
        self.eye = _choose_eye(self.shapes, rng)
        self.mood = Mood(rng.uniform(0.68, 0.9), rng.uniform(0.0, 0.2), rng.uniform(0.9, 1.15), rng.uniform(1.0, 1.12))
        self.exposure = self._metered()

    def image(self, width: int, height: int) -> tuple[Tensor, Tensor]:
        """Display values [3, H, W] and metres along the ray [H, W]."""
        camera = self.eye.camera(width, height)
        rays = trace(self.shapes, camera)
        centre = rays.surface[0, :-1, :-1]
        corner = rays.surface[1]
        rows, columns = (slice(None, -1), slice(1, None)), (slice(None, -1), slice(1, None))
        around = [corner[r, c] for r in rows for c in columns]
        depth = rays.distance[0, :-1, :-1]
        # The shell's faces meet without a change of surface: there the nearest wall changes, seen by its bend in depth.
        edge = torch.stack([a != centre for a in around]).any(dim=0) | _bent(depth)
        needed = torch.zeros_like(corner, dtype=torch.bool)
        for r in rows:
            for c in columns:
                needed[r, c] |= edge
        image = self._shade(camera, rays, 0, torch.ones_like(centre, dtype=torch.bool))
        corners = self._shade(camera, rays, 1, needed)
        mean = sum((corners[:, r, c] for r in rows for c in columns), torch.zeros(())) * 0.25
        image = torch.where(edge, 0.5 * (image + mean), image)
        return self._vignetted(image, camera).clamp(0, 1), depth.clone()

    def _shade(self, camera: Camera, rays: Rays, sample: int, mask: Tensor) -> Tensor:
        """Developed colours of the masked rays of one sample set; [3, h, w] of the mask's shape."""
        at = mask.flatten().nonzero()[:, 0]
        height, width = mask.shape
        out = torch.zeros(3, height * width, device=mask.device)
        flat = (
            rays.direction[:, sample, :height, :width].reshape(3, -1),
            rays.distance[sample, :height, :width].flatten(),
        )
        surface = rays.surface[sample, :height, :width].flatten().long()
        for part in at.split(_CHUNK):
            value = self._radiance(camera, flat[0][:, part], flat[1][part], surface[part])
            out[:, part] = self._developed(value)
        return out.reshape(3, height, width)

    def _radiance(self, camera: Camera, direction: Tensor, distance: Tensor, surface: Tensor) -> Tensor:
        """Exposed radiance [3, N]; 1 is display white."""
        points = torch.tensor(camera.position, device=direction.device).reshape(3, 1) + direction * distance
        spot = self.shapes.spots(points, surface)
        slope = -(direction * spot.normal).sum(dim=0).clamp(-1, -0.1)
        albedo = self.patterns.albedo(spot, distance / camera.focal * slope**-0.5)
        light = self.light.at(points + 0.01 * spot.normal, spot.normal) * self.exposure
        gloss, glow = self.patterns.mirror_and_glow(spot.row)
        # A mirrored share of the room's light, more at grazing angles: enough for a sheen.
        fresnel = gloss * (0.4 + 0.6 * (1 - slope) ** 3)
        return (albedo + 0.5 * fresnel) * light + albedo * glow

    def _metered(self) -> float:
        """Exposure that brings a white wall in the picture's middling light to the mood's level."""
        camera = self.eye.camera(*_PREVIEW)
        rays = trace(self.shapes, camera)
        direction, distance = rays.direction[:, 0].reshape(3, -1), rays.distance[0].flatten()
        surface = rays.surface[0].flatten().long()
        points = torch.tensor(camera.position, device=direction.device).reshape(3, 1) + direction * distance
        spot = self.shapes.spots(points, surface)
        grey = self.light.at(points + 0.01 * spot.normal, spot.normal).mean(dim=0)
        upright = (surface == SHELL) & (spot.normal[1].abs() < 0.5)
        chosen = grey[upright] if int(upright.sum()) > 100 else grey
        wall = self.mood.wall**2.2 / (_WALL_ALBEDO * max(float(chosen.quantile(0.6)), 1e-6))
        # What lies right under a lamp must not burn out.
        bright = (self.patterns.albedo(spot, distance / camera.focal).mean(dim=0) * grey).quantile(0.97)
        return min(wall, 1.3 / max(float(bright), 1e-6))

    def _developed(self, x: Tensor) -> Tensor:
        """Exposed radiance to display values: a shoulder for what is brighter than paper, gamma, saturation."""
        x = torch.where(x < 0.7, x, 0.7 + 0.3 * (1 - torch.exp(-(x - 0.7) / 0.3))).clamp(min=1e-5) ** (1 / 2.2)
        grey = (0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2])[None]
        x = grey + (x - grey) * self.mood.saturation
        return 0.6 + (x - 0.6) * self.mood.contrast

    def _vignetted(self, image: Tensor, camera: Camera) -> Tensor:
        x = (torch.arange(camera.width, device=image.device) + 0.5) / camera.width * 2 - 1
        y = (torch.arange(camera.height, device=image.device) + 0.5) / camera.height * 2 - 1
        return image * (1 - 0.5 * self.mood.vignette * (0.6 * x[None] ** 2 + 0.4 * y[:, None] ** 2) ** 2)


def trace(shapes: Shapes, camera: Camera, *, least_area: int = 0) -> Rays:
    """Rays through pixel centres (set 0) and upper left corners (set 1), one row and column more than pixels.

    Shapes whose window has at most `least_area` pixels are left out.
    """
    x = torch.arange(camera.width + 1, device=shapes.device, dtype=torch.float32)
    y = torch.arange(camera.height + 1, device=shapes.device, dtype=torch.float32)[:, None]
    offsets = torch.tensor([0.5, 0.0], device=shapes.device).reshape(-1, 1, 1)
    directions = camera.directions(x + offsets + 0 * y, y + offsets + 0 * x)
    rays = Rays.start(torch.zeros(3, 1, 1, 1, device=shapes.device), directions, camera.position)
    shapes.meet_shell(rays)
    corners = shapes.corners() - torch.tensor(camera.position).reshape(3, 1, 1)
    for index, window in windows(*camera.project(corners), camera.width + 1, camera.height + 1):
        if window.area > least_area:
            shapes.meet(rays, index + 1, window)
    return rays


def _bent(depth: Tensor) -> Tensor:
    """Where depth does not go on as it came: edges within one surface."""
    inverse = 1.0 / depth
    bent = torch.zeros_like(depth, dtype=torch.bool)
    across = (inverse[:, 2:] - 2 * inverse[:, 1:-1] + inverse[:, :-2]).abs()
    down = (inverse[2:] - 2 * inverse[1:-1] + inverse[:-2]).abs()
    bent[:, 1:-1] |= across > 2e-4
    bent[1:-1] |= down > 2e-4
    return bent


def _choose_eye(shapes: Shapes, rng: random.Random) -> Eye:
    """The best of a few places near walls, judged by small depth pictures: free before the lens, much to see."""
    eyes = [_eye(shapes.room, rng) for _ in range(_CANDIDATES)]
    return max(eyes, key=lambda eye: _score(shapes, eye))


def _eye(room: tuple[float, float, float], rng: random.Random) -> Eye:
    x, z = room[0] - rng.uniform(0.2, 0.6), room[2] - rng.uniform(0.2, 0.6)
    x, z = (x * rng.uniform(-1, 1), z) if rng.random() < 0.4 else (x, z * rng.choice((1.0, 1.0, rng.uniform(0, 1))))
    x, z = x * rng.choice((-1, 1)), z * rng.choice((-1, 1))
    reach = rng.uniform(0.0, 0.5)
    target = (-x * reach + rng.gauss(0, 0.5), -z * reach + rng.gauss(0, 0.5))
    height = min(rng.uniform(1.2, 1.9), 2 * room[1] - 0.3)
    yaw = math.atan2(target[0] - x, target[1] - z)
    return Eye((x, height, z), yaw, rng.gauss(-0.12, 0.08), rng.gauss(0, 0.01), math.radians(rng.uniform(45, 80)))


def _score(shapes: Shapes, eye: Eye) -> float:
    for centre, half in ((s.centre, s.half) for s in shapes.items):
        reach = math.hypot(half[0], half[2]) + 0.1
        gap = math.hypot(eye.position[0] - centre[0], eye.position[2] - centre[2])
        if gap < reach and abs(eye.position[1] - centre[1]) < half[1] + 0.1:
            return -100.0 + gap
    rays = trace(shapes, eye.camera(*_PREVIEW), least_area=20)
    distance, surface = rays.distance[0], rays.surface[0]
    near, close = (float((distance < metres).float().mean()) for metres in (0.8, 1.6))
    things = float((surface != SHELL).float().mean())
    kinds = torch.unique(surface).numel()
    spread = float(torch.quantile(distance, 0.9) / torch.quantile(distance, 0.1))
    blocked = 8 * max(0.0, near - 0.03) + 2 * max(0.0, close - 0.12)
    return min(things, 0.5) + 0.008 * min(kinds, 80) + 0.05 * min(spread, 6) - blocked
