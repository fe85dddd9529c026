"""Warping, resizing and inverting flows that are known."""

import numpy as np
import pytest
import torch
from test_estimators import sheared_pair

from libranet.errors import InputError
from libranet.flow import invert_flow, resize_flow, warp, warp_tensor
from small_sets import texture


def test_warping_with_the_true_flow_brings_the_next_frame_over() -> None:
    first, second, flow = sheared_pair()
    moved, inside = warp(second, flow)
    assert 0.9 < inside.mean() < 1.0
    error = np.abs(moved.astype(float) - first).mean(axis=2)
    assert error[inside].mean() < 1.0


def test_both_warps_agree() -> None:
    _, second, flow = sheared_pair()
    image = second.astype(np.float32) / 255
    expected, expected_inside = warp(image, flow)
    warped, inside = warp_tensor(torch.from_numpy(image).permute(2, 0, 1), torch.from_numpy(flow))
    assert torch.equal(inside, torch.from_numpy(expected_inside))
    difference = np.abs(warped.permute(1, 2, 0).numpy() - expected)
    assert difference.max() < np.abs(np.diff(image, axis=1)).max() / 16, "OpenCV rounds positions to 1/32 pixel"


def test_a_position_outside_is_marked() -> None:
    frame = torch.rand(3, 20, 20, generator=torch.Generator().manual_seed(3))
    _, inside = warp_tensor(frame, torch.tensor([5.0, 0.0])[:, None, None].expand(2, 20, 20))
    assert inside[:, :15].all()
    assert not inside[:, 15:].any()


def test_a_half_pixel_is_the_mean_of_two() -> None:
    frame = torch.arange(8.0).expand(3, 4, 8) / 8
    warped, _ = warp_tensor(frame, torch.tensor([0.5, 0.0])[:, None, None].expand(2, 4, 8))
    torch.testing.assert_close(warped[:, :, :7], frame[:, :, :7] + 1 / 16)


def test_no_flow_returns_the_frame_exactly() -> None:
    frame = torch.from_numpy(texture(31, 47)).permute(2, 0, 1) / 255
    warped, inside = warp_tensor(frame, torch.zeros(2, 31, 47))
    assert torch.equal(warped, frame)
    assert inside.all()


def test_a_flow_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected a flow of \[2, 20, 20\]"):
        warp_tensor(torch.zeros(3, 20, 20), torch.zeros(2, 10, 10))


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
