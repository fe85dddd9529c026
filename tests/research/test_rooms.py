"""Rooms: rays against bodies of known distance, patterns of finishes, light and shadow, and furnished plans."""

import functools
import math
import random
from dataclasses import replace

import pytest
import torch
from rooms import RoomImage, render_room
from rooms.plan import Plan, draw_plan
from rooms.render import RoomRenderer
from rooms.shading import Lamp, Patterns, RoomLight
from rooms.shapes import SHELL, WHITE, Finish, Form, Kind, Shape, Shapes, Spot, block, moved, paint

from libranet.errors import InputError
from libranet.lab.scenes.rays import Camera
from libranet.lab.scenes.textures import shared_textures

CPU = torch.device("cpu")
ROOM = (2.0, 1.25, 3.0)
FURNISHED = 36  # a seed
PLAIN = paint(WHITE)
CAMERA = Camera((0.0, 1.25, 0.0), yaw=0.0, pitch=0.0, roll=0.0, view_angle=1.35, width=64, height=36)
BOX = Shape((0.0, 1.25, 2.0), (0.4, 0.4, 0.25), PLAIN)
BALL = Shape((0.0, 1.25, 1.5), (0.2, 0.3, 0.25), PLAIN, form=Form.BALL)
DRUM = Shape((0.0, 1.25, 2.5), (0.5, 0.3, 0.3), PLAIN, form=Form.DRUM)


def hit(shapes: list[Shape], direction: tuple[float, float, float] = (0.0, 0.0, 1.0)) -> tuple[float, int]:
    """Distance and surface along one ray from the camera."""
    yaw, pitch = math.atan2(direction[0], direction[2]), math.asin(direction[1])
    # One pixel whose centre looks along the ray.
    camera = Camera(CAMERA.position, yaw, pitch, 0.0, 0.5, 1, 1)
    rays = Shapes(shapes, ROOM, CPU).trace(camera)
    return float(rays.distance[0, 0, 0]), int(rays.surface[0, 0, 0])


def test_every_pixel_of_an_empty_room_has_the_depth_of_its_wall() -> None:
    rays = Shapes([], ROOM, CPU).trace(CAMERA)
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
    rays = shapes.trace(CAMERA)
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


RED, BLUE = (0.6, 0.05, 0.05), (0.05, 0.05, 0.6)


def albedo(kind: Kind, u: torch.Tensor, v: torch.Tensor, footprint: float) -> torch.Tensor:
    patterns = Patterns([Finish(kind, RED, BLUE, 0.1, 0.3)], shared_textures(CPU)[0], CPU)
    n = u.shape[0]
    row, tall = torch.zeros(n, dtype=torch.long), torch.zeros(n, dtype=torch.bool)
    spot = Spot(torch.zeros(3, n), u, v, u / 2, v / 2, tall, row)
    return patterns.albedo(spot, torch.full((n,), footprint))


def field() -> tuple[torch.Tensor, torch.Tensor]:
    axis = torch.linspace(-1.99, 1.99, 64)
    u, v = torch.meshgrid(axis, axis, indexing="xy")
    return u.flatten(), v.flatten()


@pytest.mark.parametrize("kind", list(Kind))
def test_albedos_can_exist_and_are_not_plastic(kind) -> None:
    colours = albedo(kind, *field(), 0.002)
    assert colours.min() > 0
    assert colours.max() < 1
    assert colours.std(dim=1).max() > 0.002


@pytest.mark.parametrize(
    "kind", [Kind.PAINT, Kind.STRIPES, Kind.CHECKER, Kind.FABRIC, Kind.CARPET, Kind.LEAF, Kind.SLATS]
)
def test_from_afar_a_pattern_is_its_mean(kind) -> None:
    near, far = (albedo(kind, *field(), footprint) for footprint in (0.002, 3.0))
    assert far.std(dim=1).max() < 0.35 * near.std(dim=1).max() + 0.003
    torch.testing.assert_close(far.mean(dim=1), near.mean(dim=1), atol=0.04, rtol=0.1)


def test_a_checkerboard_alternates_its_colours() -> None:
    u = torch.tensor([0.05, 0.15, 0.15, 0.25])
    v = torch.tensor([0.05, 0.05, 0.15, 0.05])
    colours = albedo(Kind.CHECKER, u, v, 0.001)
    torch.testing.assert_close(colours[:, 0], colours[:, 2])
    torch.testing.assert_close(colours[:, 0], colours[:, 3])
    assert (colours[:, 0] - colours[:, 1]).abs().max() > 0.5


def test_a_chart_has_many_colours_and_a_grey_row() -> None:
    x = (torch.arange(6) + 0.5) / 3 * 2 - 2
    upper, lowest = (albedo(Kind.CHART, x, torch.full((6,), y), 0.001) for y in (0.5, -1.5))
    assert (upper.amax(dim=0) - upper.amin(dim=0)).max() > 0.3
    torch.testing.assert_close(lowest[0], lowest[2])
    assert (lowest[0].diff() < 0).all()


LIT_ROOM = (2.0, 1.25, 2.0)
LAMP = Lamp((0.0, 2.4, 0.0), (0.0, -1.0, 0.0), (1.0, 1.0, 1.0))
UP = torch.tensor([[0.0], [1.0], [0.0]])
GREY = [(0.5, 0.5, 0.5)] * 6
BOARD = Shape((0.0, 1.0, 0.0), (0.5, 0.02, 0.5), paint(WHITE))


def light(shapes: list[Shape], faces=GREY) -> RoomLight:
    return RoomLight([LAMP], Shapes(shapes, LIT_ROOM, CPU), faces, random.Random(0))


def at(room: RoomLight, x: float, y: float, z: float) -> torch.Tensor:
    return room.at(torch.tensor([[x], [y], [z]]), UP)[:, 0]


def test_a_board_shades_the_floor_under_it_and_no_more() -> None:
    bare, shaded = light([]), light([BOARD])
    assert at(shaded, 0.0, 0.01, 0.0).mean() < 0.45 * at(bare, 0.0, 0.01, 0.0).mean()
    assert at(shaded, 1.8, 0.01, 1.8).mean() > 0.8 * at(bare, 1.8, 0.01, 1.8).mean()
    assert at(shaded, 0.0, 1.03, 0.0).mean() > 0.9 * at(bare, 0.0, 1.03, 0.0).mean()


def test_what_throws_no_shadow_throws_none() -> None:
    ghost = Shape(BOARD.centre, BOARD.half, BOARD.finish, casts=False)
    torch.testing.assert_close(at(light([ghost]), 0.0, 0.01, 0.0), at(light([]), 0.0, 0.01, 0.0))


def test_light_falls_off_with_distance_and_towards_corners() -> None:
    room = light([])
    levels = [float(at(room, *place).mean()) for place in ((0, 1.5, 0), (0, 0.01, 0), (1, 0.01, 1), (1.9, 0.01, 1.9))]
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] > 0.02 * levels[0]


def test_a_red_wall_reddens_the_room() -> None:
    red = light([], [(0.6, 0.05, 0.05), *GREY[1:]])
    r, g, b = at(red, -1.5, 0.01, 0.0)
    assert r > 1.02 * g
    torch.testing.assert_close(g, b)


@torch.no_grad()
def test_pale_walls_come_out_bright_but_not_burnt() -> None:
    rng = random.Random(36)
    plan = draw_plan(rng)
    while min(min(plan.faces[i].colour) for i in (0, 1, 4, 5)) < 0.55:
        plan = draw_plan(rng)
    renderer = RoomRenderer(plan, rng, CPU)
    image, _ = renderer.render(96, 54)
    camera = replace(renderer.camera, width=96, height=54)
    rays = renderer.shapes.trace(camera)
    surface, points = rays.surface[0, :-1, :-1], rays.direction[:, 0, :-1, :-1] * rays.distance[0, :-1, :-1]
    height = points[1] + camera.position[1]
    walls = (surface == SHELL) & (height > 0.05) & (height < 2 * plan.half[1] - 0.05)
    assert walls.float().mean() > 0.1
    assert 0.55 < image.mean(dim=0)[walls].median() < 0.95


PLANS = 80


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [draw_plan(random.Random(seed)) for seed in range(PLANS)]


def test_most_walls_are_pale_and_some_are_not(plans) -> None:
    walls = [plan.faces[i] for plan in plans for i in (0, 1, 4, 5)]
    pale = sum(f.kind == Kind.PAINT and min(f.colour) > 0.35 for f in walls) / len(walls)
    assert 0.55 < pale < 0.85
    assert {Kind.BRICK, Kind.PLANKS, Kind.STRIPES} <= {f.kind for f in walls}


def test_every_room_has_light_and_most_have_blacks_and_saturated_colours(plans) -> None:
    assert all(plan.lamps for plan in plans)
    colours = [[s.finish.colour for s in plan.shapes] for plan in plans]
    black = sum(any(max(c) < 0.03 for c in room) for room in colours)
    vivid = sum(any(max(c) > 4 * min(c) and max(c) > 0.2 for c in room) for room in colours)
    assert black > 0.8 * PLANS
    assert vivid > 0.8 * PLANS


def test_all_patterns_and_forms_occur(plans) -> None:
    finishes = [f for plan in plans for f in (*plan.faces, *(s.finish for s in plan.shapes))]
    assert {f.kind for f in finishes} == set(Kind)
    assert {s.form for plan in plans for s in plan.shapes} == set(Form)


def test_furniture_stays_inside_and_apart(plans) -> None:
    for plan in plans:
        for shape in plan.shapes:
            assert abs(shape.centre[0]) <= plan.half[0] + 0.1
            assert abs(shape.centre[2]) <= plan.half[2] + 0.1
            assert all(half > 0 and math.isfinite(half) for half in shape.half)
        for i, a in enumerate(plan.taken):
            assert not any(a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3] for b in plan.taken[:i])


def test_lamps_are_in_the_room_and_shine_along_an_axis(plans) -> None:
    for lamp in (lamp for plan in plans for lamp in plan.lamps):
        assert sorted(abs(n) for n in lamp.normal) == [0.0, 0.0, 1.0]
    for plan in plans:
        x, y, z = plan.half
        for lamp in plan.lamps:
            inside = (abs(lamp.position[0]) < x, 0 < lamp.position[1] < 2 * y, abs(lamp.position[2]) < z)
            assert all(inside)


@functools.cache
def room(seed: int, width: int = 96, height: int = 54) -> RoomImage:
    return render_room(seed, width=width, height=height)


def test_rooms_have_the_promised_shapes_and_ranges() -> None:
    view = room(FURNISHED)
    assert view.image.shape == (3, 54, 96)
    assert view.depth.shape == (54, 96)
    assert view.image.dtype == view.depth.dtype == torch.float32
    assert 0.0 <= view.image.min() < 0.2
    assert 0.6 < view.image.max() <= 1.0
    assert torch.isfinite(view.depth).all()
    assert view.depth.min() > 0.05
    assert view.depth.max() < 25.0


def test_same_seed_same_room_bit_for_bit_whatever_the_global_random_state() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    again = render_room(FURNISHED, width=96, height=54)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(again.image, room(FURNISHED).image)
    assert torch.equal(again.depth, room(FURNISHED).depth)


def test_one_seed_is_one_room_at_every_size() -> None:
    small, large = room(FURNISHED), room(FURNISHED, 192, 108)
    shrunk = torch.nn.functional.interpolate(large.image[None], size=(54, 96), mode="area")[0]
    assert (shrunk - small.image).abs().mean() < 0.02
    centres = torch.nn.functional.interpolate(large.depth[None, None], size=(54, 96), mode="area")[0, 0]
    assert ((centres - small.depth).abs() / small.depth).median() < 0.002


def test_seeds_give_different_rooms() -> None:
    a, b = room(FURNISHED), room(16)
    assert (a.image - b.image).abs().mean() > 0.05
    assert (a.depth - b.depth).abs().mean() > 0.3


def test_wrong_arguments_of_a_room_are_refused() -> None:
    with pytest.raises(InputError, match="at least 16x16 pixels, got 64x8"):
        render_room(0, width=64, height=8)
    with pytest.raises(InputError, match="must not be negative, got seed=-1"):
        render_room(-1, width=64, height=36)
