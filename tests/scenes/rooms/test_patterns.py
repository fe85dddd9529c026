"""Finishes at points: in range, of the right colours, and without detail finer than a pixel."""

import pytest
import torch

from libranet.scenes.noise import textures
from libranet.scenes.rooms.finishes import Finish, Kind
from libranet.scenes.rooms.patterns import Patterns
from libranet.scenes.rooms.shapes import Spot

CPU = torch.device("cpu")
RED, BLUE = (0.6, 0.05, 0.05), (0.05, 0.05, 0.6)


def albedo(kind: Kind, u: torch.Tensor, v: torch.Tensor, footprint: float) -> torch.Tensor:
    patterns = Patterns([Finish(kind, RED, BLUE, 0.1, 0.3)], textures(CPU)[0], CPU)
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
