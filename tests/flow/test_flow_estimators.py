"""RAFT-small and DIS on pictures that move by a known amount."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from libranet.flow.metric_estimators import DisFlow, FlowEstimator, RaftFlow
from libranet.flow.raft import RaftSmall
from libranet.metrics.temporal import warp_error


def _world(height: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(1, 3, height, width)
    for octave in range(1, 6):
        noise = torch.randn(1, 3, height >> octave, width >> octave, generator=generator)
        total += torch.nn.functional.interpolate(noise, size=(height, width), mode="bicubic") * 2.0 ** (octave - 5)
    return (0.45 + 0.2 * total[0]).clamp(0, 1)


def _check_shift(estimator: FlowEstimator) -> None:
    world, (dx, dy) = _world(160, 200), (5, -3)
    previous = world[:, 10:138, 10:170]
    current = world[:, 10 + dy : 138 + dy, 10 + dx : 170 + dx]
    flow = estimator.estimate(current, previous)
    assert flow.shape == (2, 128, 160)
    inner = flow[:, 24:-24, 24:-24].flatten(1).median(dim=1).values
    assert inner.tolist() == pytest.approx([dx, dy], abs=0.25)
    assert warp_error(current, previous, flow) < 0.3 * warp_error(current, previous, torch.zeros_like(flow))


def test_dis_finds_a_known_shift() -> None:
    _check_shift(DisFlow())


def test_raft_finds_a_known_shift(published: Callable[[str], dict[str, Tensor]]) -> None:
    _check_shift(RaftFlow(RaftSmall.from_weights(published("raft-small"))))


def test_raft_finds_it_on_a_reduced_copy_too(published: Callable[[str], dict[str, Tensor]]) -> None:
    world = _world(320, 400)
    previous, current = world[:, 20:276, 20:340], world[:, 20:276, 28:348]
    estimator = RaftFlow(RaftSmall.from_weights(published("raft-small")), long_side=160)
    inner = estimator.estimate(current, previous)[:, 48:-48, 48:-48].flatten(1).median(dim=1).values
    assert inner.tolist() == pytest.approx([8, 0], abs=0.6)
    assert "160" in estimator.name


def test_a_static_clip_has_exactly_no_flow() -> None:
    torch.manual_seed(0)
    frame = _world(64, 80)
    for estimator in (DisFlow(), RaftFlow(RaftSmall().eval())):
        flow = estimator.estimate(frame, frame.clone())
        assert not flow.any(), estimator.name
        assert warp_error(frame, frame, flow) == 0.0


@pytest.mark.parametrize("size", [(16, 16), (33, 50), (64, 72)])
def test_raft_takes_any_size(size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    net = RaftSmall().eval()
    assert sum(p.numel() for p in net.parameters()) == 990_162
    first, second = torch.rand(1, 3, *size), torch.rand(1, 3, *size)
    flow = net(first, second, 2)
    assert flow.shape == (1, 2, *size)
    assert flow.isfinite().all()
