"""The encoders' input against its reference."""

import pytest
import torch

from kernel_agreement import assert_agree, poison
from libranet.kernels.resample import reference


@pytest.mark.parametrize(("height", "width", "size"), [(68, 72, 16), (20, 148, 32), (16, 16, 32)])
def test_reduced_frames(device: str, height: int, width: int, size: int) -> None:
    from libranet.kernels.resample.gpu import ResizeBands, reduce_frames_out

    ring = torch.randint(0, 256, (3, height, width, 3), dtype=torch.uint8, device=device)
    written = {"out": poison(2, size, size, 4, device=device)}
    bands = ResizeBands.make(height, width, size).to(torch.device(device))
    inputs = {"frames": ring, "first": 2}
    assert_agree(reference.reduce_frames_out, reduce_frames_out, inputs, written, atol=2e-3, rtol=1e-3, bands=bands)
