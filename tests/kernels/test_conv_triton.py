"""The convolution kernel against torch's, in every way of cutting it up."""

import pytest
import torch
import torch.nn.functional as F

# rows, cols, block_k, pixels_first: one row, several, more channels fetched than there are, both orders of the product
TILES = [
    (1, 32, 16, True),
    (2, 16, 32, False),
    (3, 16, 64, True),
    (4, 16, 16, False),
]


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("with_bias", [True, False])
def test_matches_torch(device: str, tile: tuple, with_bias: bool) -> None:
    from libranet.kernels.conv3x3.triton import ConvTile, conv3x3_out, pack_weight, tile_count

    b, h, w, cin, cout = 2, 7, 19, 48, 16
    cut = ConvTile(*tile)
    x = torch.randn(b, h, w, cin, device=device).half()
    weight = torch.randn(cout, cin, 3, 3, device=device) * 0.05
    bias = torch.randn(cout, device=device) if with_bias else None
    out = torch.full((b, h, w, cout), float("nan"), device=device).half()
    sums = torch.full((b, tile_count(cut, h, w), 2, 8), float("nan"), device=device)

    conv3x3_out(x, pack_weight(weight), out, bias=bias, sums=sums, tile=cut)

    reference = F.conv2d(x.float().permute(0, 3, 1, 2), weight.half().float(), bias, padding=1)
    torch.testing.assert_close(out.float(), reference.permute(0, 2, 3, 1), atol=3e-3, rtol=2e-3)
    groups = reference.unflatten(1, (8, -1))
    totals = torch.stack([groups.sum((2, 3, 4)), groups.square().sum((2, 3, 4))], dim=1)
    torch.testing.assert_close(sums.sum(1), totals, atol=2e-2, rtol=1e-3)
