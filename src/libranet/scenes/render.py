"""Traces and shades one frame in bands of rows, so that memory stays bounded at any size.

Two rays per pixel: through its centre, which gives depth, flow and half of the colour, and through its corner; a pixel
is half its centre and an eighth of each of its four corners.
"""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.scenes.camera import Camera
from libranet.scenes.light import develop
from libranet.scenes.rays import GROUND, SKY, Rays
from libranet.scenes.sky import sky_radiance
from libranet.scenes.trace import trace, visible_objects
from libranet.scenes.world import World

_BAND_CPU = 1 << 17  # rays per sample set in one band: small enough for the cache
_BAND_GPU = 1 << 22
_METERED = 0.135  # log-mean of exposed radiance that a middling picture has


@dataclass(frozen=True)
class View:
    """One frame as traced."""

    image: Tensor | None  # [3, H, W], None where only the geometry was asked for
    distance: Tensor  # [H, W], infinite in the sky
    surface: Tensor  # [H, W] int32
    camera: Camera
    time: float


def render_view(world: World, camera: Camera, time: float, *, colour: bool) -> View:
    """Trace a frame; `colour=False` leaves the shading out."""
    profile = world.terrain.profile(camera)
    visible = visible_objects(world.solids, world.trees, camera, time)
    area = _BAND_CPU if world.solids.device.type == "cpu" else _BAND_GPU
    rows = max(1, min(camera.height, area // (camera.width + 1)))
    images, distances, surfaces = [], [], []
    for top in range(0, camera.height, rows):
        bottom = min(top + rows, camera.height)
        rays = trace(
            world.solids,
            world.trees,
            camera,
            time,
            profile=profile,
            visible=visible,
            rows=(top, bottom),
            corners=colour,
        )
        distances.append(rays.distance[0, : bottom - top, : camera.width].clone())
        surfaces.append(rays.surface[0, : bottom - top, : camera.width].clone())
        if colour:
            shaded = develop(_shade(world, camera, time, rays), world.light)
            centre, corner = shaded[:, 0, :-1, :-1], shaded[:, 1]
            around = corner[:, :-1, :-1] + corner[:, 1:, :-1] + corner[:, :-1, 1:] + corner[:, 1:, 1:]
            images.append(0.5 * centre + 0.125 * around)
    image = torch.cat(images, dim=1).clamp(0, 1) if colour else None
    return View(image, torch.cat(distances), torch.cat(surfaces), camera, time)


def exposed(world: World) -> World:
    """The world with its exposure corrected, in part, for what the camera sees at the start: a light meter."""
    camera = world.path.at(0.0, 64, 36)
    visible = visible_objects(world.solids, world.trees, camera, 0.0)
    rays = trace(
        world.solids, world.trees, camera, 0.0, profile=world.terrain.profile(camera), visible=visible, corners=False
    )
    radiance = _shade(world, camera, 0.0, rays)
    grey = 0.2126 * radiance[0] + 0.7152 * radiance[1] + 0.0722 * radiance[2]
    level = float(grey.clamp(min=1e-3, max=2.0).log().mean().exp()) * world.light.exposure
    light = dataclasses.replace(world.light, exposure=world.light.exposure * (_METERED / level) ** 0.55)
    return dataclasses.replace(world, light=light)


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
            value = world.facades.radiance(points, d, t * pixel, surface[at].long() - 1, time)
        else:
            value = world.foliage.radiance(points, t, surface[at].long() - first_lobe, pixel)
        if name != "sky":
            veil = 1 - torch.exp(-t / 90_000.0)  # what clear air adds
            air = torch.tensor(world.light.horizon, device=d.device).reshape(3, 1)
            value = value + (air - value) * veil
        out[:, at] = value
    return out.reshape(3, *shape)
