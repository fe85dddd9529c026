"""Traces and shades one frame in bands of rows, so that memory stays bounded at any size.

Two rays per pixel: through its centre, which gives depth, flow and half of the colour, and through its corner; a pixel
is half its centre and an eighth of each of its four corners.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.haze.scenes.camera import Camera
from libranet.haze.scenes.light import develop
from libranet.haze.scenes.rays import GROUND, SKY, Rays, Window, windows
from libranet.haze.scenes.sky import sky_radiance
from libranet.haze.scenes.terrain import Profile
from libranet.haze.scenes.world import World

_BAND_CPU = 1 << 16  # rays per sample set in one band: small enough for the cache
_BAND_GPU = 1 << 22


@dataclass(frozen=True)
class View:
    """One frame as traced."""

    image: Tensor | None  # [3, H, W], None where only the geometry was asked for
    distance: Tensor  # [H, W], infinite in the sky
    surface: Tensor  # [H, W] int32
    camera: Camera
    time: float


def render_view(world: World, camera: Camera, time: float, device: torch.device, *, colour: bool) -> View:
    """Trace a frame; `colour=False` leaves the shading out."""
    profile = world.terrain.profile(camera, device)
    visible = _visible(world, camera, time)
    area = _BAND_CPU if device.type == "cpu" else _BAND_GPU
    rows = max(1, min(camera.height, area // (camera.width + 1)))
    images, distances, surfaces = [], [], []
    for top in range(0, camera.height, rows):
        bottom = min(top + rows, camera.height)
        rays = _trace(world, camera, time, profile, visible, (top, bottom), device, corners=colour)
        distances.append(rays.distance[0, : bottom - top, : camera.width].clone())
        surfaces.append(rays.surface[0, : bottom - top, : camera.width].clone())
        if colour:
            shaded = develop(_shade(world, camera, time, rays), world.light)
            centre, corner = shaded[:, 0, :-1, :-1], shaded[:, 1]
            around = corner[:, :-1, :-1] + corner[:, 1:, :-1] + corner[:, :-1, 1:] + corner[:, 1:, 1:]
            images.append(0.5 * centre + 0.125 * around)
    image = torch.cat(images, dim=1).clamp(0, 1) if colour else None
    return View(image, torch.cat(distances), torch.cat(surfaces), camera, time)


def _visible(world: World, camera: Camera, time: float) -> tuple[list[tuple[int, Window]], list[tuple[int, Window]]]:
    found = []
    for corners in (world.solids.corners(time), world.trees.corners()):
        if corners.shape[1] == 0:
            found.append([])
            continue
        offsets = corners - torch.tensor(camera.position).reshape(3, 1, 1)
        x, y, forward = camera.project(offsets)
        found.append(windows(x, y, forward, camera.width + 1, camera.height + 1))
    return found[0], found[1]


def _trace(
    world: World,
    camera: Camera,
    time: float,
    profile: Profile,
    visible: tuple[list[tuple[int, Window]], list[tuple[int, Window]]],
    band: tuple[int, int],
    device: torch.device,
    *,
    corners: bool,
) -> Rays:
    """All rays of a band. Sample set 0 are pixel centres, set 1 their upper left corners (one row and column more)."""
    x = torch.arange(camera.width + 1, device=device, dtype=torch.float32)
    y = torch.arange(band[0], band[1] + 1, device=device, dtype=torch.float32)[:, None]
    offsets = torch.tensor([0.5, 0.0] if corners else [0.5], device=device).reshape(-1, 1, 1)
    directions = camera.directions(x + offsets + 0 * y, y + offsets + 0 * x)
    rays = Rays.start(torch.zeros(3, 1, 1, 1, device=device), directions, camera.position)
    distance = profile.intersect(directions)
    rays.distance = distance
    rays.surface = torch.where(torch.isfinite(distance), GROUND, SKY).to(torch.int32)
    pixel = 1.0 / camera.focal
    rows = (band[0], band[1] + 1)
    solids, trees = visible
    for i, window in solids:
        part = window.within(rows)
        if part is not None:
            world.solids.intersect(rays, i, part, time)
    for i, window in trees:
        part = window.within(rows)
        if part is not None:
            world.trees.intersect(rays, i, part, pixel)
    return rays


def _shade(world: World, camera: Camera, time: float, rays: Rays) -> Tensor:  # [3, S, h, w] radiance
    shape = rays.distance.shape
    directions = rays.direction.reshape(3, -1)
    distance, surface = rays.distance.reshape(-1), rays.surface.reshape(-1)
    out = torch.empty_like(directions)
    pixel = 1.0 / camera.focal
    origin = torch.tensor(camera.position, device=directions.device).reshape(3, 1)
    first_lobe = world.trees.first
    cars = []
    for i in world.solids.moving:
        solid = world.solids.items[i]
        if solid.height < 1.2:
            cars.append((*world.solids.place(i, time), solid.half_x, solid.half_z))
    groups = {
        "sky": surface == SKY,
        "ground": surface == GROUND,
        "solid": (surface > GROUND) & (surface < first_lobe),
        "leaf": surface >= first_lobe,
    }
    for name, mask in groups.items():
        at = mask.nonzero()[:, 0]
        if at.numel() == 0:
            continue
        d, t = directions[:, at], distance[at]
        points = origin + d * t if name != "sky" else d
        if name == "sky":
            value = sky_radiance(d, world.light, world.texture, pixel)
        elif name == "ground":
            value = world.ground.radiance(points, d, t, pixel, cars)
        elif name == "solid":
            value = world.facades.radiance(points, d, t, surface[at].long() - 1, pixel, time)
        else:
            value = world.foliage.radiance(points, t, surface[at].long() - first_lobe, pixel)
        if name != "sky":
            veil = 1 - torch.exp(-t / 90_000.0)  # what clear air adds
            air = torch.tensor(world.light.horizon, device=d.device).reshape(3, 1)
            value = value + (air - value) * veil
        out[:, at] = value
    return out.reshape(3, *shape)


def finite(distance: Tensor, sky: float) -> Tensor:
    """Distances with the sky at `sky` metres and nothing beyond it."""
    return torch.where(torch.isfinite(distance), distance, math.inf).clamp(max=sky)
