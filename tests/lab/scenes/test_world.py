"""Outdoor scenes: ground, depth, flow and occlusion against the camera geometry and the rendered frames."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.lab.scenes import SKY_DEPTH, render_clip
from libranet.lab.scenes.rays import GROUND
from libranet.lab.scenes.terrain import Profile
from libranet.lab.scenes.world import World, build_world, flow_between, render_view

CPU = torch.device("cpu")
SIZE = (160, 90)


@functools.cache
def world_of(seed: int) -> World:
    return build_world(seed, CPU)


@pytest.fixture
def plain() -> World:
    """Open land, nothing moves."""
    world = world_of(2)
    assert not world.solids.moving
    return world


@pytest.fixture
def street() -> World:
    """A street with moving cars."""
    return world_of(43)


def warped(image: Tensor, flow: Tensor) -> Tensor:
    """`image` [C, H, W] of the next frame brought back onto this one."""
    h, w = flow.shape[1:]
    y, x = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
    grid = torch.stack([(x + flow[0]) / w * 2 - 1, (y + flow[1]) / h * 2 - 1], dim=-1)[None]
    return F.grid_sample(image[None], grid, align_corners=False, padding_mode="border")[0]


def test_flow_brings_the_next_frame_back_onto_this_one() -> None:
    errors, still = [], []
    for seed in (1, 2, 9):
        now, after = render_clip(seed, frames=2, width=320, height=180)
        seen = ~now.occluded
        assert seen.float().mean() > 0.4
        difference = (warped(after.image, now.flow) - now.image).abs().mean(dim=0)
        errors.append(float(difference[seen].mean()))
        still.append(float((after.image - now.image).abs().mean(dim=0)[seen].mean()))
    assert max(errors) < 0.02, errors
    assert sum(errors) < 0.4 * sum(still)  # without the flow it is far worse


@pytest.mark.slow
def test_flow_of_many_seeds() -> None:
    errors = []
    for seed in range(20):
        now, after = render_clip(seed, frames=2, width=320, height=180)
        difference = (warped(after.image, now.flow) - now.image).abs().mean(dim=0)
        errors.append(float(difference[~now.occluded].mean()))
    assert sum(errors) / len(errors) < 0.015, errors
    assert max(errors) < 0.02, errors


def test_depth_of_visible_points_agrees_between_frames(plain: World) -> None:
    """A static point's distance in the next frame is what its position says, where that frame shows it."""
    world = plain
    cameras = [world.path.at(t, *SIZE) for t in (0.0, 0.2)]
    a, b = (render_view(world, c, t, colour=False) for c, t in zip(cameras, (0.0, 0.2), strict=True))
    flow, hidden = flow_between(world, a, b)
    x, y = torch.meshgrid(torch.arange(SIZE[0]) + 0.5, torch.arange(SIZE[1]) + 0.5, indexing="xy")
    points = cameras[0].directions(x, y) * a.distance
    offset = torch.tensor(cameras[0].position) - torch.tensor(cameras[1].position)
    expected = (points + offset.reshape(3, 1, 1)).norm(dim=0)
    ground = (a.surface == GROUND) & ~hidden & torch.isfinite(a.distance)
    found = warped(b.distance.clamp(max=SKY_DEPTH)[None], flow)[0]
    relative = ((found - expected).abs() / expected)[ground]
    assert relative.median() < 0.01


def test_flow_is_the_projection_of_the_rays_points(plain: World) -> None:
    """Re-derived with plain matrices: X = p0 + d t, then K R^T (X - p1)."""
    world = plain
    now, after = world.path.at(0.0, *SIZE), world.path.at(0.2, *SIZE)
    a, b = render_view(world, now, 0.0, colour=False), render_view(world, after, 0.2, colour=False)
    flow, _ = flow_between(world, a, b)
    for column, row in ((20, 85), (80, 80), (140, 70), (80, 60)):
        distance = float(a.distance[row, column])
        local = torch.tensor([column + 0.5 - SIZE[0] / 2, SIZE[1] / 2 - row - 0.5, now.focal], dtype=torch.float64)
        point = torch.tensor(now.position, dtype=torch.float64) + now.rotation() @ (local / local.norm()) * distance
        seen = after.rotation().T @ (point - torch.tensor(after.position, dtype=torch.float64))
        target = (SIZE[0] / 2 + after.focal * seen[0] / seen[2], SIZE[1] / 2 - after.focal * seen[1] / seen[2])
        assert float(flow[0, row, column]) == pytest.approx(float(target[0]) - column - 0.5, abs=0.02)
        assert float(flow[1, row, column]) == pytest.approx(float(target[1]) - row - 0.5, abs=0.02)


def test_sky_moves_with_the_rotation_alone(street: World) -> None:
    camera = street.path.at(0.0, *SIZE)
    moved = street.path.at(0.2, *SIZE)
    a, b = render_view(street, camera, 0.0, colour=False), render_view(street, moved, 0.2, colour=False)
    flow, _ = flow_between(street, a, b)
    sky = ~torch.isfinite(a.distance)
    assert sky.any()
    x, y = torch.meshgrid(torch.arange(SIZE[0]) + 0.5, torch.arange(SIZE[1]) + 0.5, indexing="xy")
    tx, ty, _ = moved.project(camera.directions(x, y))
    assert torch.allclose(flow[0][sky], (tx - x)[sky], atol=1e-3)
    assert torch.allclose(flow[1][sky], (ty - y)[sky], atol=1e-3)


def test_a_still_camera_sees_only_what_drives_move(street: World) -> None:
    camera = street.path.at(0.0, 320, 180)
    assert street.solids.moving
    a, b = (render_view(street, camera, t, colour=False) for t in (0.0, 0.2))
    flow, hidden = flow_between(street, a, b)
    number = a.surface.long() - 1
    moving = torch.isin(number, torch.tensor(street.solids.moving))
    assert flow.norm(dim=0)[~moving].max() < 1e-2
    assert not hidden[1:-1, 1:-1][~moving[1:-1, 1:-1]].float().mean() > 0.02


def test_points_that_leave_the_frame_are_called_occluded() -> None:
    frame = next(iter(render_clip(2, frames=1, width=160, height=90)))
    y, x = torch.meshgrid(torch.arange(90) + 0.5, torch.arange(160) + 0.5, indexing="ij")
    tx, ty = x + frame.flow[0], y + frame.flow[1]
    outside = (tx < 0) | (ty < 0) | (tx > 160) | (ty > 90)
    assert outside.any()
    assert frame.occluded[outside].all()
    assert not frame.occluded.all()


def test_bands_do_not_change_the_image(street: World, monkeypatch: pytest.MonkeyPatch) -> None:
    camera = street.path.at(0.0, 64, 48)
    whole = render_view(street, camera, 0.0, colour=True)
    monkeypatch.setattr("libranet.lab.scenes.world._BAND_CPU", 65 * 5)
    parts = render_view(street, camera, 0.0, colour=True)
    assert torch.equal(whole.surface, parts.surface)
    assert torch.allclose(whole.distance, parts.distance)
    assert whole.image is not None
    assert parts.image is not None
    assert (whole.image - parts.image).abs().max() < 1e-3


def test_ground_is_met_where_a_fine_march_meets_it(plain: World) -> None:
    terrain = plain.terrain
    camera = plain.path.at(0.0, 64, 48)
    x, y = torch.tensor([10.5, 32.5, 50.5, 20.5]), torch.tensor([46.5, 40.5, 44.5, 36.5])
    directions = camera.directions(x, y)
    found = Profile(terrain, camera).intersect(directions)
    steps = torch.arange(0.2, 600.0, 0.02)
    px, py, pz = (camera.position[i] + directions[i][:, None] * steps for i in range(3))
    below = py < terrain.height(px, pz)
    for i in range(4):
        assert below[i].any()
        march = float(steps[below[i].float().argmax()])
        assert float(found[i]) == pytest.approx(march, rel=0.03, abs=0.15)


def test_nothing_stands_in_the_cameras_way() -> None:
    for seed in (2, 9):
        world = world_of(seed)
        for t in (0.0, 1.0, 2.0):
            x, y, z = world.path.at(t, 64, 48).position
            for solid in world.solids.items:
                reach = math.hypot(solid.half_x, solid.half_z)
                if solid.velocity == (0.0, 0.0) and y < solid.base + solid.height:
                    assert math.hypot(x - solid.x, z - solid.z) > min(reach, 1.0)
