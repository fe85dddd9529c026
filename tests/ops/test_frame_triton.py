"""The passes over 8-bit frames against their twins."""

import pytest
import torch
import torch.nn.functional as F

from libranet.ops import frame_torch

H, W = 5, 18  # cells


@pytest.fixture
def ring(device: str) -> torch.Tensor:
    """Three frames; tests read the last and the first, across the ring's seam."""
    return torch.randint(0, 256, (3, 4 * H, 4 * W, 3), dtype=torch.uint8, device=device)


def test_cells_are_pixel_unshuffle() -> None:
    frame = torch.randint(0, 256, (1, 16, 24, 3), dtype=torch.uint8)
    weight = torch.randn(8, 48, 3, 3) * 0.1
    image = frame.permute(0, 3, 1, 2) / 255.0
    _, cells = frame_torch.read_cells(frame)
    by_cells = F.conv2d(cells.float().permute(0, 3, 1, 2), frame_torch.pack_cell_weight(weight), padding=1)
    torch.testing.assert_close(by_cells, F.conv2d(F.pixel_unshuffle(image, 4), weight, padding=1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("channels", [48, 64])
def test_read_cells(ring: torch.Tensor, channels: int) -> None:
    from libranet.ops.frame_triton import read_cells_out

    low = torch.full((2, 3, H, W), float("nan"), device=ring.device)
    cells = torch.full((2, H, W, channels), float("nan"), device=ring.device).half()
    read_cells_out(ring, low, cells, first=2)
    want_low, want_cells = frame_torch.read_cells(ring[[2, 0]])
    torch.testing.assert_close(low, want_low, atol=1e-6, rtol=1e-6)
    rows = cells.unflatten(3, (4, -1))
    assert torch.equal(rows[..., :12].flatten(3), want_cells)
    assert not rows[..., 12:].any()


def test_wide_cell_weights_skip_the_padding() -> None:
    weight = torch.randn(8, 48, 3, 3)
    rows = frame_torch.pack_cell_weight(weight, wide=True).unflatten(1, (4, 16))
    assert torch.equal(rows[:, :, :12].flatten(1, 2), frame_torch.pack_cell_weight(weight))
    assert not rows[:, :, 12:].any()


@pytest.mark.parametrize(
    ("tail", "strength"), [("fused", 0.0), ("fused", 0.7), ("gather", 0.7), ("product", 0.0), ("product", 0.7)]
)
def test_project_and_finish(ring: torch.Tensor, tail: str, strength: float) -> None:
    from libranet.ops import frame_triton as kernels
    from libranet.ops.conv_triton import ConvTile, pack_weight

    device = ring.device
    x = torch.randn(2, H, W, 16, device=device).half()
    weight, bias = torch.randn(48, 16, 3, 3, device=device) * 0.02, torch.randn(48, device=device) * 0.05
    delta = torch.randn(2, 3, H, W, device=device) * 0.1
    scale = torch.tensor([strength], device=device)
    packed, packed_bias = frame_torch.pack_project(weight, bias)
    out = torch.zeros(2, 4 * H, 4 * W, 3, dtype=torch.uint8, device=device)
    if tail == "fused":
        tile = ConvTile(2, 16, 16, False)
        kernels.project_frame_out(x, pack_weight(packed), packed_bias, ring, delta, scale, out, first=2, tile=tile)
    else:
        raw = F.conv2d(x.float().permute(0, 3, 1, 2), packed, packed_bias, padding=1).permute(0, 2, 3, 1)
        enlarge = frame_torch.enlargement().to(device) if tail == "product" else None
        kernels.finish_frame_out(ring, raw.half().contiguous(), delta, scale, out, first=2, enlarge=enlarge)

    image = ring[[2, 0]].permute(0, 3, 1, 2) / 255.0
    residual = F.pixel_shuffle(F.conv2d(x.float().permute(0, 3, 1, 2), weight, bias, padding=1), 4)
    upsampled = F.interpolate(delta, scale_factor=4, mode="bilinear", align_corners=False)
    reference = (image + upsampled + strength * residual).clamp(0, 1) * 255
    difference = (out.permute(0, 3, 1, 2).float() - reference).abs()
    assert difference.max() <= 0.5 + 0.1  # rounding, and half precision of the residual
