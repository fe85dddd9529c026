"""Draws a whole scene from a seed: the land, what stands on it, the light, and the camera's path through it."""

import dataclasses
import math
import random
from dataclasses import dataclass

import torch

from libranet.scenes.biome import Biome, draw_biome
from libranet.scenes.camera import TURN, CameraPath
from libranet.scenes.facades import Facades
from libranet.scenes.foliage import Foliage
from libranet.scenes.ground import Ground
from libranet.scenes.light import Light, Shade
from libranet.scenes.noise import DetailTexture, textures
from libranet.scenes.planting import plant
from libranet.scenes.roadside import furnish
from libranet.scenes.site import Site
from libranet.scenes.solids import Solids
from libranet.scenes.terrain import Terrain
from libranet.scenes.town import build
from libranet.scenes.trees import Trees
from libranet.scenes.view_choice import choose_view
from libranet.scenes.weather import draw_light

_HOST = torch.device("cpu")


@dataclass(frozen=True)
class World:
    """Everything a renderer needs, on one device."""

    biome: Biome
    terrain: Terrain
    solids: Solids
    trees: Trees
    light: Light
    texture: DetailTexture
    ground: Ground
    facades: Facades
    foliage: Foliage
    path: CameraPath


def build_world(seed: int, device: torch.device) -> World:
    """The scene of a seed. All random numbers are drawn on the host, so that every device gets the same scene."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed & 0x7FFF_FFFF_FFFF_FFFF)
    biome = draw_biome(rng)
    middle_z = 60.0
    host = Terrain(biome.relief, biome.road, middle_z, generator)
    path = _draw_path(rng, biome, host)
    path = _lifted(path, host)
    site = Site(rng, biome, host, path)
    build(site)
    furnish(site)
    plant(site)
    first = len(site.solids) + 1
    path = choose_view(
        path,
        rng=rng,
        spread=biome.look_around,
        terrain=host,
        solids=Solids(site.solids, _HOST),
        trees=Trees(site.trees, _HOST, textures(_HOST)[1], first),
    )
    light = draw_light(rng, path.yaw)
    terrain = host.to(device)
    solids = Solids(site.solids, device)
    texture, leaves = textures(device)
    trees = Trees(site.trees, device, leaves, first)
    reach = biome.shadow_reach
    forward = 0.72 * reach
    centre = (
        path.start[0] + math.sin(path.yaw) * forward,
        host.level(path.start[0], path.start[2] + forward),
        path.start[2] + math.cos(path.yaw) * forward,
    )
    shade = Shade(light, solids, trees, centre, reach)
    return World(
        biome=biome,
        terrain=terrain,
        solids=solids,
        trees=trees,
        light=light,
        texture=texture,
        ground=Ground(biome.palette, terrain, light, shade, texture, trees.leaves),
        facades=Facades(solids, light, shade, texture),
        foliage=Foliage(trees, shade),
        path=path,
    )


def _draw_path(rng: random.Random, biome: Biome, terrain: Terrain) -> CameraPath:
    """Drive, fly, walk sideways or pan, whichever suits the place."""
    move = rng.choices(["drive", "fly", "pan", "dolly"], weights=biome.moves)[0]
    road = biome.road
    angle = math.radians(rng.uniform(48, 78))
    phase = rng.uniform(0, 6.28)
    lane = road.half_width * 0.45 * rng.choice([-1, 1]) if road.half_width else 0.0
    if move == "drive":
        speed = rng.uniform(2.0, 8.0)
        y = rng.uniform(1.4, 2.6)
        return CameraPath(
            start=(lane, y, 0.0),
            velocity=(0.0, 0.0, speed),
            yaw=rng.gauss(0, 0.06),
            yaw_rate=0.0,
            pitch=rng.uniform(-0.06, 0.04),
            pitch_rate=0.0,
            sway=1.0,
            phase=phase,
            view_angle=angle,
            road=road,
        )
    yaw = rng.gauss(0, biome.look_around) + biome.look_towards
    if move == "fly":
        altitude = rng.choice([rng.uniform(7, 20), rng.uniform(18, 75)])
        if biome.kind == "forest":
            altitude += 18.0  # above the crowns
        speed = rng.uniform(3.0, 11.0)
        x = rng.uniform(-15, 15)
        course = yaw + rng.gauss(0, 0.5)
        return CameraPath(
            start=(x, _clear_height(terrain, x, 0.0, course) + altitude, 0.0),
            velocity=(speed * math.sin(course), rng.uniform(-0.8, 1.2), speed * math.cos(course)),
            yaw=yaw,
            yaw_rate=rng.gauss(0, 0.03),
            pitch=-rng.uniform(0.0, 0.14) - 0.0024 * altitude,
            pitch_rate=0.0,
            sway=0.5,
            phase=phase,
            view_angle=angle,
            road=None,
        )
    speed = rng.uniform(0.5, 2.0) if move == "dolly" else 0.0
    course = yaw + rng.choice([-1, 1]) * math.pi / 2 * rng.uniform(0.6, 1.0)
    side = rng.choice([-1, 1]) * (road.half_width + road.walk * 0.6 + 0.6) if road.half_width else 0.0
    rate = math.radians(rng.uniform(2.0, 9.0)) * rng.choice([-1, 1]) if move == "pan" else rng.gauss(0, 0.01)
    return CameraPath(
        start=(side, terrain.level(side, 0.0) + rng.uniform(1.5, 3.5), 0.0),
        velocity=(speed * math.sin(course), 0.0, speed * math.cos(course)),
        yaw=yaw - rate * 1.5,
        yaw_rate=rate,
        pitch=rng.uniform(-0.06, 0.08),
        pitch_rate=0.0,
        sway=0.4,
        phase=phase,
        view_angle=angle,
        road=None,
    )


def _clear_height(terrain: Terrain, x: float, z: float, course: float) -> float:
    """The highest ground along the first hundred metres."""
    return max(terrain.level(x + math.sin(course) * d, z + math.cos(course) * d) for d in range(0, 120, 10))


def _lifted(path: CameraPath, terrain: Terrain) -> CameraPath:
    """The same path, high enough to stay above ground and closed forest."""
    if path.road is not None:
        return path
    x, y, z = (
        torch.tensor([path.at(0.25 * i, 16, 16).position[k] for i in range(int(4 * TURN) + 1)]) for k in range(3)
    )
    lacking = float((terrain.height(x, z) + 1.4 - y).max())
    start = path.start
    return dataclasses.replace(path, start=(start[0], start[1] + max(0.0, lacking), start[2]))
