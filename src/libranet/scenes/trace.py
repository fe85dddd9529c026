"""Finds what every ray of a camera meets: ground, solids, leaves."""

import torch

from libranet.scenes.camera import Camera
from libranet.scenes.rays import GROUND, SKY, Rays, Window, windows
from libranet.scenes.solids import Solids
from libranet.scenes.terrain import Profile
from libranet.scenes.trees import Trees

Visible = tuple[list[tuple[int, Window]], list[tuple[int, Window]]]


def visible_objects(solids: Solids, trees: Trees, camera: Camera, time: float) -> Visible:
    """The solids and the crowns in view with the window each may cover, nearest first."""
    found: list[list[tuple[int, Window]]] = []
    for corners in (solids.corners(time), trees.corners()):
        if corners.shape[1] == 0:
            found.append([])
            continue
        x, y, forward = camera.project(corners - torch.tensor(camera.position).reshape(3, 1, 1))
        found.append(windows(x, y, forward, camera.width + 1, camera.height + 1))
    return found[0], found[1]


def trace(
    solids: Solids,
    trees: Trees,
    camera: Camera,
    time: float,
    *,
    profile: Profile,
    visible: Visible,
    rows: tuple[int, int] | None = None,
    corners: bool = False,
) -> Rays:
    """All rays of a band of rows (default: the frame), with one row and one column more than it has pixels.

    Sample set 0 are pixel centres; set 1, if asked for, the pixels' upper left corners.
    """
    first, last = rows or (0, camera.height)
    device = solids.device
    x = torch.arange(camera.width + 1, device=device, dtype=torch.float32)
    y = torch.arange(first, last + 1, device=device, dtype=torch.float32)[:, None]
    offsets = torch.tensor([0.5, 0.0] if corners else [0.5], device=device).reshape(-1, 1, 1)
    directions = camera.directions(x + offsets + 0 * y, y + offsets + 0 * x)
    rays = Rays.start(torch.zeros(3, 1, 1, 1, device=device), directions, camera.position)
    rays.distance = profile.intersect(directions)
    rays.surface = torch.where(torch.isfinite(rays.distance), GROUND, SKY).to(torch.int32)
    for i, window in visible[0]:
        part = window.within((first, last + 1))
        if part is not None:
            solids.intersect(rays, i, part, time)
    for i, window in visible[1]:
        part = window.within((first, last + 1))
        if part is not None:
            trees.intersect(rays, i, part, 1.0 / camera.focal)
    return rays
