"""The encoders' input against `downsample`."""

import pytest
import torch

from libranet.kernels.resample.reference import downsample


@pytest.mark.parametrize(("height", "width", "size"), [(68, 72, 16), (20, 148, 32), (16, 16, 32)])
def test_reduced_frames(device: str, height: int, width: int, size: int) -> None:
    from libranet.kernels.resample.triton import make_reduction, reduce_frames_out

    ring = torch.randint(0, 256, (3, height, width, 3), dtype=torch.uint8, device=device)
    out = torch.full((2, size, size, 4), float("nan"), device=device).half()
    reduce_frames_out(ring, make_reduction(height, width, size).to(torch.device(device)), out, first=2)
    reference = downsample(ring[[2, 0]].permute(0, 3, 1, 2) / 255.0, (size, size)) * 2.0 - 1.0
    torch.testing.assert_close(out[..., :3].float(), reference.permute(0, 2, 3, 1), atol=2e-3, rtol=1e-3)
    assert not out[..., 3].any()
