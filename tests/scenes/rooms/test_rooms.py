"""Rendered rooms as their users see them: shapes, ranges, reproducibility, bright walls, clear errors."""

import functools
import random

import pytest
import torch

from libranet.errors import InputError
from libranet.scenes import RoomImage, render_room
from libranet.scenes.rooms.plan import draw_plan
from libranet.scenes.rooms.render import Renderer, trace
from libranet.scenes.rooms.shapes import SHELL

SEED = 36


@functools.cache
def room(seed: int, width: int = 96, height: int = 54) -> RoomImage:
    return render_room(seed, width=width, height=height)


def test_pictures_have_the_promised_shapes_and_ranges() -> None:
    picture = room(SEED)
    assert picture.image.shape == (3, 54, 96)
    assert picture.depth.shape == (54, 96)
    assert picture.image.dtype == picture.depth.dtype == torch.float32
    assert 0.0 <= picture.image.min() < 0.2
    assert 0.6 < picture.image.max() <= 1.0
    assert torch.isfinite(picture.depth).all()
    assert picture.depth.min() > 0.05
    assert picture.depth.max() < 25.0


def test_same_seed_same_room_bit_for_bit_whatever_the_global_random_state() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    again = render_room(SEED, width=96, height=54)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(again.image, room(SEED).image)
    assert torch.equal(again.depth, room(SEED).depth)


def test_one_seed_is_one_room_at_every_size() -> None:
    small, large = room(SEED), room(SEED, 192, 108)
    shrunk = torch.nn.functional.interpolate(large.image[None], size=(54, 96), mode="area")[0]
    assert (shrunk - small.image).abs().mean() < 0.02
    centres = torch.nn.functional.interpolate(large.depth[None, None], size=(54, 96), mode="area")[0, 0]
    assert ((centres - small.depth).abs() / small.depth).median() < 0.002


def test_seeds_differ() -> None:
    a, b = room(SEED), room(16)
    assert (a.image - b.image).abs().mean() > 0.05
    assert (a.depth - b.depth).abs().mean() > 0.3


@torch.no_grad()
def test_pale_walls_come_out_bright_but_not_burnt() -> None:
    rng = random.Random(SEED)
    plan = draw_plan(rng)
    while min(min(plan.faces[i].colour) for i in (0, 1, 4, 5)) < 0.55:
        plan = draw_plan(rng)
    renderer = Renderer(plan, rng, torch.device("cpu"))
    image, _ = renderer.image(96, 54)
    camera = renderer.eye.camera(96, 54)
    rays = trace(renderer.shapes, camera)
    surface, points = rays.surface[0, :-1, :-1], rays.direction[:, 0, :-1, :-1] * rays.distance[0, :-1, :-1]
    height = points[1] + camera.position[1]
    walls = (surface == SHELL) & (height > 0.05) & (height < 2 * plan.half[1] - 0.05)
    assert walls.float().mean() > 0.1
    assert 0.55 < image.mean(dim=0)[walls].median() < 0.95


def test_errors_name_rule_and_value() -> None:
    with pytest.raises(InputError, match="at least 16x16 pixels, got 64x8"):
        render_room(0, width=64, height=8)
    with pytest.raises(InputError, match="must not be negative, got seed=-1"):
        render_room(-1, width=64, height=36)
