"""Chooses a view of a furnished room and renders it.

Two rays go through each pixel, through its centre and its corner, as in the outdoor scenes; corners are shaded only at
edges.
"""

import math
import random
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from libranet.lab.scenes.rays import Camera, Point, Rays
from libranet.lab.scenes.textures import graded, shared_textures
from rooms.plan import Plan
from rooms.shading import Patterns, RoomLight
from rooms.shapes import SHELL, Shapes

_CHUNK = 1 << 16  # points shaded at once: small enough for the cache
_PREVIEW = (64, 36)
_CANDIDATES = 10
_WALL_ALBEDO = 0.75  # of the wall that exposure is made for


@dataclass(frozen=True)
class RoomTone:
    """How the camera turns light into display values."""

    wall: float  # display value of a white wall in medium light
    vignette: float
    saturation: float
    contrast: float


class RoomRenderer:
    """One room with its light and its camera."""

    def __init__(self, plan: Plan, rng: random.Random, device: torch.device) -> None:
        self.shapes = Shapes(plan.shapes, plan.half, device)
        self.patterns = Patterns([*plan.faces, *(s.finish for s in plan.shapes)], shared_textures(device)[0], device)
        self.light = RoomLight(plan.lamps, self.shapes, [face.colour for face in plan.faces], rng)
        self.camera = _choose_camera(self.shapes, rng)  # of the preview's size
        wall, vignette = rng.uniform(0.68, 0.9), rng.uniform(0.0, 0.2)
        self.tone = RoomTone(wall, vignette, rng.uniform(0.9, 1.15), rng.uniform(1.0, 1.12))
        self.exposure = self._metered()

    def render(self, width: int, height: int) -> tuple[Tensor, Tensor]:
        """Display values [3, H, W] and metres along the ray [H, W]."""
        camera = replace(self.camera, width=width, height=height)
        rays = self.shapes.trace(camera)
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
        """Exposure that brings a white wall in the image's medium light to the tone's level."""
        camera = self.camera
        rays = self.shapes.trace(camera)
        direction, distance = rays.direction[:, 0].reshape(3, -1), rays.distance[0].flatten()
        surface = rays.surface[0].flatten().long()
        points = torch.tensor(camera.position, device=direction.device).reshape(3, 1) + direction * distance
        spot = self.shapes.spots(points, surface)
        grey = self.light.at(points + 0.01 * spot.normal, spot.normal).mean(dim=0)
        upright = (surface == SHELL) & (spot.normal[1].abs() < 0.5)
        chosen = grey[upright] if int(upright.sum()) > 100 else grey
        wall = self.tone.wall**2.2 / (_WALL_ALBEDO * max(float(chosen.quantile(0.6)), 1e-6))
        # What lies right under a lamp must not burn out.
        bright = (self.patterns.albedo(spot, distance / camera.focal).mean(dim=0) * grey).quantile(0.97)
        return min(wall, 1.3 / max(float(bright), 1e-6))

    def _developed(self, x: Tensor) -> Tensor:
        """Exposed radiance to display values: a shoulder for what is brighter than paper, gamma, saturation."""
        x = torch.where(x < 0.7, x, 0.7 + 0.3 * (1 - torch.exp(-(x - 0.7) / 0.3))).clamp(min=1e-5) ** (1 / 2.2)
        return graded(x, self.tone.saturation, self.tone.contrast, 0.6)

    def _vignetted(self, image: Tensor, camera: Camera) -> Tensor:
        x = (torch.arange(camera.width, device=image.device) + 0.5) / camera.width * 2 - 1
        y = (torch.arange(camera.height, device=image.device) + 0.5) / camera.height * 2 - 1
        return image * (1 - 0.5 * self.tone.vignette * (0.6 * x[None] ** 2 + 0.4 * y[:, None] ** 2) ** 2)


def _bent(depth: Tensor) -> Tensor:
    """Where depth bends: edges within one surface."""
    inverse = 1.0 / depth
    bent = torch.zeros_like(depth, dtype=torch.bool)
    across = (inverse[:, 2:] - 2 * inverse[:, 1:-1] + inverse[:, :-2]).abs()
    down = (inverse[2:] - 2 * inverse[1:-1] + inverse[:-2]).abs()
    bent[:, 1:-1] |= across > 2e-4
    bent[1:-1] |= down > 2e-4
    return bent


def _choose_camera(shapes: Shapes, rng: random.Random) -> Camera:
    """The best of a few places near walls, judged by small depth maps: a free view with much to see."""
    cameras = [_draw_camera(shapes.room, rng) for _ in range(_CANDIDATES)]
    return max(cameras, key=lambda camera: _score(shapes, camera))


def _draw_camera(room: Point, rng: random.Random) -> Camera:
    x, z = room[0] - rng.uniform(0.2, 0.6), room[2] - rng.uniform(0.2, 0.6)
    x, z = (x * rng.uniform(-1, 1), z) if rng.random() < 0.4 else (x, z * rng.choice((1.0, 1.0, rng.uniform(0, 1))))
    x, z = x * rng.choice((-1, 1)), z * rng.choice((-1, 1))
    reach = rng.uniform(0.0, 0.5)
    target = (-x * reach + rng.gauss(0, 0.5), -z * reach + rng.gauss(0, 0.5))
    height = min(rng.uniform(1.2, 1.9), 2 * room[1] - 0.3)
    return Camera(
        position=(x, height, z),
        yaw=math.atan2(target[0] - x, target[1] - z),
        pitch=rng.gauss(-0.12, 0.08),
        roll=rng.gauss(0, 0.01),
        view_angle=math.radians(rng.uniform(45, 80)),
        width=_PREVIEW[0],
        height=_PREVIEW[1],
    )


def _score(shapes: Shapes, camera: Camera) -> float:
    eye = camera.position
    for shape in shapes.items:
        centre, half = shape.centre, shape.half
        reach = math.hypot(half[0], half[2]) + 0.1
        gap = math.hypot(eye[0] - centre[0], eye[2] - centre[2])
        if gap < reach and abs(eye[1] - centre[1]) < half[1] + 0.1:
            return -100.0 + gap
    rays = shapes.trace(camera, min_area=21)
    distance, surface = rays.distance[0], rays.surface[0]
    near, close = (float((distance < metres).float().mean()) for metres in (0.8, 1.6))
    things = float((surface != SHELL).float().mean())
    kinds = torch.unique(surface).numel()
    spread = float(torch.quantile(distance, 0.9) / torch.quantile(distance, 0.1))
    blocked = 8 * max(0.0, near - 0.03) + 2 * max(0.0, close - 0.12)
    return min(things, 0.5) + 0.008 * min(kinds, 80) + 0.05 * min(spread, 6) - blocked
