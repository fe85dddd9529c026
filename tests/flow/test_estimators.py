"""DIS and RAFT on frames that move by a known amount."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

from libranet.flow import DisFlow, FlowEstimator, RaftFlow, RaftSmall, warp
from small_sets import texture


def sheared_pair(height: int = 120, width: int = 160) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two frames of one texture and the smooth flow between them."""
    wide = texture(height + 40, width + 40, 4)
    flow = np.zeros((2, height, width), np.float32)
    flow[0] = np.linspace(1.0, 4.0, height)[:, None]
    flow[1] = -1.5
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float32) + 20
    second = wide[20:-20, 20:-20]
    first = cv2.remap(wide, columns + flow[0], rows + flow[1], cv2.INTER_LINEAR)
    return first, np.ascontiguousarray(second), flow


def _world(height: int, width: int) -> np.ndarray:  # [H, W, 3] uint8
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(1, 3, height, width)
    for octave in range(1, 6):
        noise = torch.randn(1, 3, height >> octave, width >> octave, generator=generator)
        total += torch.nn.functional.interpolate(noise, size=(height, width), mode="bicubic") * 2.0 ** (octave - 5)
    image = (0.45 + 0.2 * total[0]).clamp(0, 1)
    return (image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def _check_shift(estimator: FlowEstimator) -> None:
    world, (dx, dy) = _world(160, 200), (5, -3)
    second = world[10:138, 10:170]
    first = world[10 + dy : 138 + dy, 10 + dx : 170 + dx]
    flow = estimator.estimate(first, second)
    assert (flow.shape, flow.dtype) == ((2, 128, 160), np.float32)
    inner = np.median(flow[:, 24:-24, 24:-24], axis=(1, 2))
    assert inner.tolist() == pytest.approx([dx, dy], abs=0.25)
    warped, inside = warp(second, flow)
    error, still = (np.abs(first.astype(float) - other)[inside].mean() for other in (warped, second))
    assert error < 0.3 * still


def test_dis_finds_a_known_shift() -> None:
    _check_shift(DisFlow())


def test_dis_finds_a_shear() -> None:
    first, second, flow = sheared_pair()
    found = DisFlow().estimate(first, second)
    assert np.abs(found - flow)[:, 50:-10, 10:-10].mean() < 0.25


def test_raft_finds_a_known_shift(published: Callable[[str], dict[str, Tensor]]) -> None:
    _check_shift(RaftFlow(RaftSmall.from_weights(published("raft-small"))))


def test_raft_finds_it_on_a_reduced_copy_too(published: Callable[[str], dict[str, Tensor]]) -> None:
    world = _world(320, 400)
    second, first = world[20:276, 20:340], world[20:276, 28:348]
    estimator = RaftFlow(RaftSmall.from_weights(published("raft-small")), long_side=160)
    inner = np.median(estimator.estimate(first, second)[:, 48:-48, 48:-48], axis=(1, 2))
    assert inner.tolist() == pytest.approx([8, 0], abs=0.6)
    assert "160" in estimator.name


def test_equal_frames_have_exactly_no_flow() -> None:
    torch.manual_seed(0)
    frame = _world(64, 80)
    for estimator in (DisFlow(), RaftFlow(RaftSmall().eval())):
        assert not estimator.estimate(frame, frame.copy()).any(), estimator.name
