"""Chooses where the camera looks: a good picture has a horizon, things near and far, and no wall before the lens."""

import dataclasses
import math
import random

import torch

from libranet.scenes.camera import CameraPath
from libranet.scenes.rays import SKY
from libranet.scenes.solids import Solids
from libranet.scenes.terrain import Terrain
from libranet.scenes.trace import trace, visible_objects
from libranet.scenes.trees import Trees

_SIZE = (48, 27)
_CANDIDATES = 4


def choose_view(
    path: CameraPath,
    *,
    rng: random.Random,
    spread: float,  # how far the camera may turn away, radians
    terrain: Terrain,
    solids: Solids,
    trees: Trees,
) -> CameraPath:
    """The best of a few variations of yaw and pitch, judged by small depth pictures along the way (on the host)."""
    variations, outlines = [path], trees.outlines()
    for i in range(_CANDIDATES - 1):
        turn = rng.gauss(0, 0.12 if path.road is not None else spread * (1 + i))
        tilt = rng.gauss(0, 0.06)
        variations.append(dataclasses.replace(path, yaw=path.yaw + turn, pitch=path.pitch + tilt))
    return max(variations, key=lambda p: _score(p, terrain, solids, outlines))


def _score(path: CameraPath, terrain: Terrain, solids: Solids, trees: Trees) -> float:
    worst = math.inf
    for time in (0.0, 4.0):
        camera = path.at(time, *_SIZE)
        profile = terrain.profile(camera)
        large = [[(i, w) for i, w in group if w.area > 15] for group in visible_objects(solids, trees, camera, time)]
        rays = trace(solids, trees, camera, time, profile=profile, visible=(large[0], large[1]))
        distance, surface = rays.distance[0, :-1, :-1], rays.surface[0, :-1, :-1]
        depth = distance.clamp(1.0, 3000.0).log()
        sky = float((surface == SKY).float().mean())
        blocked = float((distance < 4.0).float().mean())
        crowded = float((distance < 9.0).float().mean())
        spread = float(torch.quantile(depth.flatten(), 0.9) - torch.quantile(depth.flatten(), 0.1))
        score = (
            spread
            - 6.0 * max(0.0, blocked - 0.12)
            - 4.0 * max(0.0, sky - 0.6)
            - 4.0 * max(0.0, crowded - 0.45)
            - 3.0 * max(0.0, 0.08 - sky)
        )
        worst = min(worst, score)
    return worst
