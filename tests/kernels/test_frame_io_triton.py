"""The passes over 8-bit frames against their references."""

import pytest
import torch

from kernel_agreement import assert_agree, poison
from libranet.kernels.frame_io import reference
from libranet.kernels.tiles import PixelTile

H, W = 3, 18  # cells


@pytest.fixture
def ring(device: str) -> torch.Tensor:
    """Three frames; tests read the last and the first, across the ring's seam."""
    return torch.randint(0, 256, (3, 4 * H, 4 * W, 3), dtype=torch.uint8, device=device)


def test_read_cells(device: str, ring: torch.Tensor) -> None:
    from libranet.kernels.frame_io.gpu import read_cells_out

    written = {
        "low": poison(2, 3, H, W, device=device, dtype=torch.float32),
        "cells": poison(2, H, W, 64, device=device),
    }
    inputs = {"frames": ring, "first": 2}
    assert_agree(reference.read_cells_out, read_cells_out, inputs, written, atol=1e-6, rtol=1e-6)
    assert torch.equal(written["cells"] * 256.0, (written["cells"] * 256.0).round())  # bytes, exactly


@pytest.mark.parametrize("strength", [0.0, 0.7])
def test_finish_frame(device: str, ring: torch.Tensor, strength: float) -> None:
    from libranet.kernels.frame_io.gpu import finish_frame_out

    inputs = {
        "frames": ring,
        "residual": (torch.randn(2, H, W, 64, device=device) * 0.1).half(),
        "delta": torch.randn(2, 3, H, W, device=device) * 0.1,
        "strength": torch.tensor([strength, 0.5 * strength], device=device),
        "first": 2,
    }
    out, want = (torch.zeros(2, 4 * H, 4 * W, 3, dtype=torch.uint8, device=device) for _ in range(2))
    finish_frame_out(**inputs, out=out, tile=PixelTile(16))
    reference.finish_frame_out(**inputs, out=want)
    difference = (out.int() - want.int()).abs()
    assert difference.max() <= 1  # where a sum lies within rounding of a half
    assert difference.float().mean() < 0.02
