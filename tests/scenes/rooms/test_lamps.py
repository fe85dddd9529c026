"""Light in rooms: what stands between a lamp and a point darkens it, walls throw their colour back."""

import random

import torch

from libranet.scenes.rooms.finishes import WHITE, paint
from libranet.scenes.rooms.lamps import Lamp, RoomLight
from libranet.scenes.rooms.shapes import Shape, Shapes

CPU = torch.device("cpu")
ROOM = (2.0, 1.25, 2.0)
LAMP = Lamp((0.0, 2.4, 0.0), (0.0, -1.0, 0.0), (1.0, 1.0, 1.0))
UP = torch.tensor([[0.0], [1.0], [0.0]])
GREY = [(0.5, 0.5, 0.5)] * 6
BOARD = Shape((0.0, 1.0, 0.0), (0.5, 0.02, 0.5), paint(WHITE))


def light(shapes: list[Shape], faces=GREY) -> RoomLight:
    return RoomLight([LAMP], Shapes(shapes, ROOM, CPU), faces, random.Random(0))


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
