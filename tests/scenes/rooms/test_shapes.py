"""Rays against bodies whose distances are known from geometry."""

import math

import pytest
import torch

from libranet.scenes.camera import Camera
from libranet.scenes.rooms.finishes import WHITE, paint
from libranet.scenes.rooms.render import trace
from libranet.scenes.rooms.shapes import SHELL, Form, Shape, Shapes, block, moved

CPU = torch.device("cpu")
ROOM = (2.0, 1.25, 3.0)
PLAIN = paint(WHITE)
CAMERA = Camera((0.0, 1.25, 0.0), yaw=0.0, pitch=0.0, roll=0.0, focal=40.0, width=64, height=36)
BOX = Shape((0.0, 1.25, 2.0), (0.4, 0.4, 0.25), PLAIN)
BALL = Shape((0.0, 1.25, 1.5), (0.2, 0.3, 0.25), PLAIN, form=Form.BALL)
DRUM = Shape((0.0, 1.25, 2.5), (0.5, 0.3, 0.3), PLAIN, form=Form.DRUM)


def hit(shapes: list[Shape], direction: tuple[float, float, float] = (0.0, 0.0, 1.0)) -> tuple[float, int]:
    """Distance and surface along one ray from the camera."""
    yaw, pitch = math.atan2(direction[0], direction[2]), math.asin(direction[1])
    # One pixel whose centre looks along the ray.
    camera = Camera(CAMERA.position, yaw, pitch, 0.0, 40.0, 1, 1)
    rays = trace(Shapes(shapes, ROOM, CPU), camera)
    return float(rays.distance[0, 0, 0]), int(rays.surface[0, 0, 0])


def test_every_pixel_of_an_empty_room_has_the_depth_of_its_wall() -> None:
    rays = trace(Shapes([], ROOM, CPU), CAMERA)
    x, y, z = (d.abs() for d in rays.direction[:, 0])
    expected = torch.minimum(torch.minimum(2.0 / x, 1.25 / y), 3.0 / z)
    torch.testing.assert_close(rays.distance[0], expected)
    assert (rays.surface == SHELL).all()


@pytest.mark.parametrize(("shape", "distance"), [(BOX, 1.75), (BALL, 1.25), (DRUM, 2.2)])
def test_bodies_are_met_where_they_stand(shape, distance) -> None:
    assert hit([shape]) == (pytest.approx(distance, abs=1e-4), 1)


def test_the_nearest_body_wins_in_any_order() -> None:
    assert hit([BOX, BALL, DRUM]) == (pytest.approx(1.25, abs=1e-4), 2)
    assert hit([DRUM, BALL, BOX]) == (pytest.approx(1.25, abs=1e-4), 2)
    assert hit([DRUM, BOX]) == (pytest.approx(1.75, abs=1e-4), 2)


def test_a_body_beside_the_ray_is_passed() -> None:
    assert hit([BOX], (0.6, 0.0, 0.8)) == (pytest.approx(2.0 / 0.6, abs=1e-4), SHELL)


def test_a_turned_box_shows_its_edge() -> None:
    turned = Shape((0.0, 1.25, 2.0), (0.3, 0.3, 0.3), PLAIN, yaw=math.pi / 4)
    assert hit([turned])[0] == pytest.approx(2.0 - 0.3 * math.sqrt(2), abs=2e-3)


def test_moving_turns_about_the_origin_then_shifts() -> None:
    (shape,) = moved([block((1.0, 2.0), (0.0, 1.0), (0.0, 0.5), PLAIN)], 0.0, 1.0, 5.0, math.pi / 2)
    assert shape.centre == pytest.approx((0.25, 1.5, 3.5))
    assert shape.yaw == pytest.approx(math.pi / 2)


@pytest.mark.parametrize("shape", [BOX, BALL, DRUM])
def test_normals_look_at_the_camera_and_are_units(shape) -> None:
    shapes = Shapes([shape], ROOM, CPU)
    rays = trace(shapes, CAMERA)
    direction = rays.direction[:, 0].reshape(3, -1)
    points = direction * rays.distance[0].flatten() + torch.tensor(CAMERA.position)[:, None]
    spot = shapes.spots(points, rays.surface[0].flatten().long())
    assert ((direction * spot.normal).sum(dim=0) < 1e-3).all()
    torch.testing.assert_close(spot.normal.norm(dim=0), torch.ones(points.shape[1]))
    assert spot.across.abs().max() < 3.2  # a drum's side is pi half sizes long
    assert (spot.row[rays.surface[0].flatten() == 1] == 6).all()


def test_the_shells_faces_have_rows_of_their_own() -> None:
    points = torch.tensor([(-2.0, 1, 0), (2.0, 1, 0), (0, 0.0, 0), (0, 2.5, 0), (0, 1, -3.0), (0, 1, 3.0)]).T
    spot = Shapes([], ROOM, CPU).spots(points, torch.zeros(6, dtype=torch.long))
    assert spot.row.tolist() == [0, 1, 2, 3, 4, 5]
    assert (spot.normal * (points - torch.tensor([0, 1.25, 0])[:, None])).sum(dim=0).max() < 0
