"""Flow on motion that is known, warping, inversion, and RAFT where torchvision is there."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from libranet.errors import InputError, MissingDependencyError
from libranet.flow.estimators import DisFlow, invert_flow, resize_flow, warp
from libranet.flow.torchvision_raft import RaftFlow
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


def test_dis_finds_the_motion() -> None:
    first, second, flow = sheared_pair()
    found = DisFlow().estimate(first, second)
    assert found.shape == flow.shape
    textured = np.s_[:, 50:-10, 10:-10]
    assert np.abs(found - flow)[textured].mean() < 0.25


def test_warping_with_the_true_flow_brings_the_next_frame_over() -> None:
    first, second, flow = sheared_pair()
    moved, inside = warp(second, flow)
    assert 0.9 < inside.mean() < 1.0
    error = np.abs(moved.astype(float) - first).mean(axis=2)
    assert error[inside].mean() < 1.0


def test_the_inverse_leads_back() -> None:
    _, _, flow = sheared_pair()
    back = invert_flow(flow)
    there, inside = warp(np.ascontiguousarray(flow.transpose(1, 2, 0)), back)
    assert np.abs(there.transpose(2, 0, 1) + back)[:, inside].max() < 0.05


def test_a_flow_grows_with_its_frame() -> None:
    flow = np.ones((2, 10, 20), np.float32)
    large = resize_flow(flow, 80, 20)
    assert large.shape == (2, 20, 80)
    np.testing.assert_allclose(large[0], 4.0)
    np.testing.assert_allclose(large[1], 2.0)
    assert resize_flow(flow, 20, 10) is flow


def test_raft_finds_the_motion_or_says_what_is_missing(tmp_path: Path) -> None:
    try:
        from torchvision.models import optical_flow
    except (ImportError, RuntimeError):
        with pytest.raises(MissingDependencyError, match=r"RAFT flow needs torchvision .* use --flow dis"):
            RaftFlow(tmp_path / "raft.pth")
        return
    with pytest.raises(InputError, match=r"no file .*none\.pth"):
        RaftFlow(tmp_path / "none.pth")
    (tmp_path / "bad.pth").write_bytes(b"not weights")
    with pytest.raises(InputError, match=r"could not read .*bad\.pth"):
        RaftFlow(tmp_path / "bad.pth")
    torch.manual_seed(0)
    torch.save(optical_flow.raft_small().state_dict(), tmp_path / "raft.pth")
    raft = RaftFlow(tmp_path / "raft.pth")
    first, second, _ = sheared_pair()
    flow = raft.estimate(first, second)
    assert flow.shape == (2, 120, 160)
    assert np.isfinite(flow).all()
