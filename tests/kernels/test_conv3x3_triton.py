"""The convolution kernel against its reference, with every kind of tile."""

import pytest
import torch

from kernel_agreement import assert_agree, poison
from libranet.kernels.conv3x3 import reference
from libranet.kernels.tiles import ConvTile

CASES = [
    (ConvTile(1, 32, 16, pixels_first=True), True),  # a single row
    (ConvTile(2, 16, 32, pixels_first=False), True),
    (ConvTile(3, 16, 64, pixels_first=True), False),  # more channels fetched than there are
    (ConvTile(4, 16, 16, pixels_first=False), False),
]


@pytest.mark.parametrize(("tile", "with_bias"), CASES, ids=str)
def test_agrees_with_the_reference(device: str, tile: ConvTile, with_bias: bool) -> None:
    from libranet.kernels.conv3x3.gpu import conv3x3_out

    b, h, w, cin, cout = 2, 5, 19, 48, 16
    weight = torch.randn(cout, cin, 3, 3, device=device) * 0.05
    inputs = {"x": torch.randn(b, h, w, cin, device=device).half(), "weight": reference.pack_weight(weight)}
    inputs |= {"bias": torch.randn(cout, device=device)} if with_bias else {}
    written = {
        "out": poison(b, h, w, cout, device=device),
        "sums": poison(b, tile.parts(h, w), 2, 8, device=device, dtype=torch.float32),
    }
    assert_agree(reference.conv3x3_out, conv3x3_out, inputs, written, atol=3e-3, rtol=2e-3, tile=tile)
