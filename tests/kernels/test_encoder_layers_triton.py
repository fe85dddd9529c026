"""The encoders' convolutions and norms against their references."""

import pytest
import torch

from kernel_agreement import assert_agree, poison
from libranet.kernels.encoder_layers import reference
from libranet.kernels.tiles import STEM_TILE, EncoderTile

B = 2


def maps(side: int, channels: int, device: str) -> torch.Tensor:
    return torch.randn(2, B, side, side, channels, device=device).half()


@pytest.mark.parametrize(
    ("stride", "cin", "cout", "side", "tile"),
    [
        (1, 24, 24, 6, EncoderTile(16, rows=2, block_n=32)),
        (1, 8, 16, 4, EncoderTile(8, rows=3, block_n=16, block_k=16)),
        (1, 48, 48, 6, EncoderTile(16, lines=4, block_n=32, block_k=64)),
        (2, 24, 48, 4, EncoderTile(16, lines=1, block_n=64)),
        (2, 48, 40, 8, EncoderTile(8, lines=4, block_n=64)),
        (1, 24, 24, 6, EncoderTile(8, rows=4, block_n=64, pairs=True)),
        (1, 24, 24, 8, EncoderTile(4, rows=4, block_n=32, block_k=64, pairs=True)),
    ],
    ids=str,
)
def test_convolution_and_sums(device: str, stride: int, cin: int, cout: int, side: int, tile: EncoderTile) -> None:
    from libranet.kernels.encoder_layers.gpu import conv_out

    x = reference.make_maps(2, B, stride * side, cin, device)
    x.copy_(maps(stride * side, cin, device))
    weights = torch.randn(2, cout, cin, 3, 3, device=device) * 0.1
    packed = reference.pack_pairs(weights) if tile.pairs else reference.pack_weights(weights)
    written = {
        "out": poison(2, B, side, side, cout, device=device),
        "sums": poison(2, B, tile.parts(side, cout), 2, 8, device=device, dtype=torch.float32),
    }
    inputs = {"x": x, "weight": packed, "stride": stride}
    assert_agree(reference.conv_out, conv_out, inputs, written, atol=4e-3, rtol=2e-3, tile=tile)


@pytest.mark.parametrize("planes", [True, False])
def test_head_convolutions(device: str, planes: bool) -> None:
    from libranet.kernels.encoder_layers.gpu import conv_out

    weight = reference.pack_weights(torch.randn(1, 40, 24, 3, 3, device=device) * 0.1)
    inputs = {"x": maps(8, 24, device)[:1], "weight": weight, "bias": torch.randn(40, device=device)}
    if planes:
        out, exact = poison(1, B, 40, 8, 8, device=device, dtype=torch.float32), 1e-4
    else:
        out, exact = poison(1, B, 8, 8, 40, device=device), 4e-3
    inputs |= {"planes": planes, "activate": not planes}
    tile = EncoderTile(8, 8, block_n=32, block_k=16)
    assert_agree(reference.conv_out, conv_out, inputs, {"out": out}, atol=exact, rtol=exact / 2, tile=tile)


@pytest.mark.parametrize("channels", [8, 24])
def test_stem(device: str, channels: int) -> None:
    from libranet.kernels.encoder_layers.gpu import stem_out

    side = 18
    weight = reference.pack_stem(torch.randn(2, channels, 3, 3, 3) * 0.3).to(device)
    inputs = {"x": torch.randn(B, 2 * side, 2 * side, 4, device=device).half(), "weight": weight}
    written = {
        "out": poison(2, B, side, side, channels, device=device),
        "sums": poison(2, B, STEM_TILE.parts(side * side), 2, 8, device=device, dtype=torch.float32),
    }
    assert_agree(reference.stem_out, stem_out, inputs, written, atol=4e-3, rtol=2e-3)


@pytest.mark.parametrize("skipped", [True, False])
def test_norm(device: str, skipped: bool) -> None:
    from libranet.kernels.encoder_layers.gpu import normalise_out

    side = 12  # 144 pixels of 32 padded channels take two programs
    raw, skip = maps(side, 24, device), reference.make_maps(2, B, side, 24, device)
    skip.copy_(maps(side, 24, device))
    groups = raw.float().unflatten(4, (8, -1))
    totals = torch.stack([groups.sum((2, 3, 5)), groups.square().sum((2, 3, 5))], dim=2)  # [2, B, 2, 8]
    inputs = {
        "raw": raw,
        "sums": totals[:, :, None] * torch.tensor([0.25, 0.75, 0.0], device=device).view(3, 1, 1),
        "weight": torch.randn(2, 24, device=device),
        "bias": torch.randn(2, 24, device=device),
        "skip": skip if skipped else None,
    }
    ring = poison(2, B + 3, side, side, 24, device=device)
    slots = ring[:, 1 : 1 + B]
    assert_agree(reference.normalise_out, normalise_out, inputs, {"out": slots}, atol=4e-3, rtol=2e-3)
    assert ring[:, 0].isnan().all()
    assert ring[:, 1 + B :].isnan().all()
    gapped = reference.make_maps(2, B, side, 24, device)
    normalise_out(**inputs, out=gapped)
    assert torch.equal(gapped, slots)
    assert not gapped.as_strided((2 * B * side, 24), ((side + 1) * 24, 1), 0).any()  # gaps stay zero
