"""The passes over 8-bit frames against their twins."""

import pytest
import torch
import torch.nn.functional as F

from libranet.kernels.frame_io import reference as frame_reference

H, W = 5, 18  # cells


@pytest.fixture
def ring(device: str) -> torch.Tensor:
    """Three frames; tests read the last and the first, across the ring's seam."""
    return torch.randint(0, 256, (3, 4 * H, 4 * W, 3), dtype=torch.uint8, device=device)


def test_cells_are_pixel_unshuffle() -> None:
    frame = torch.randint(0, 256, (1, 16, 24, 3), dtype=torch.uint8)
    weight = torch.randn(8, 48, 3, 3) * 0.1
    image = frame.permute(0, 3, 1, 2) / 255.0
    _, cells = frame_reference.read_cells(frame)
    by_cells = F.conv2d(cells.float().permute(0, 3, 1, 2), frame_reference.pack_cell_weight(weight), padding=1)
    torch.testing.assert_close(by_cells, F.conv2d(F.pixel_unshuffle(image, 4), weight, padding=1), atol=1e-5, rtol=1e-5)


def test_read_cells(ring: torch.Tensor) -> None:
    from libranet.kernels.frame_io.triton import read_cells_out

    low = torch.full((2, 3, H, W), float("nan"), device=ring.device)
    cells = torch.full((2, H, W, 64), float("nan"), device=ring.device).half()
    read_cells_out(ring, low, cells, first=2)
    want_low, want_cells = frame_reference.read_cells(ring[[2, 0]])
    torch.testing.assert_close(low, want_low, atol=1e-6, rtol=1e-6)
    assert torch.equal(cells, want_cells)


@pytest.mark.parametrize("strength", [0.0, 0.7])
def test_finish(ring: torch.Tensor, strength: float) -> None:
    from libranet.kernels.frame_io.triton import finish_frame_out

    device = ring.device
    x = torch.randn(2, H, W, 16, device=device).half()
    weight, bias = torch.randn(48, 16, 3, 3, device=device) * 0.02, torch.randn(48, device=device) * 0.05
    delta = torch.randn(2, 3, H, W, device=device) * 0.1
    scale = torch.tensor([strength], device=device)
    packed, packed_bias = frame_reference.pack_project(weight, bias)
    out = torch.zeros(2, 4 * H, 4 * W, 3, dtype=torch.uint8, device=device)
    raw = F.conv2d(x.float().permute(0, 3, 1, 2), packed, packed_bias, padding=1).permute(0, 2, 3, 1)
    finish_frame_out(ring, raw.half().contiguous(), delta, scale, out, first=2)

    image = ring[[2, 0]].permute(0, 3, 1, 2) / 255.0
    residual = F.pixel_shuffle(F.conv2d(x.float().permute(0, 3, 1, 2), weight, bias, padding=1), 4)
    upsampled = F.interpolate(delta, scale_factor=4, mode="bilinear", align_corners=False)
    reference = (image + upsampled + strength * residual).clamp(0, 1) * 255
    difference = (out.permute(0, 3, 1, 2).float() - reference).abs()
    assert difference.max() <= 0.5 + 0.1  # rounding, and half precision of the residual
