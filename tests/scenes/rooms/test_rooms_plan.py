"""Furnished rooms as drawn, before anything is rendered."""

import math
import random

import pytest

from libranet.scenes.rooms.finishes import Kind
from libranet.scenes.rooms.plan import Plan, draw_plan
from libranet.scenes.rooms.shapes import Form

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
