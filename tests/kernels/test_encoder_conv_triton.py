"""The encoders' convolutions against torch."""

import pytest
import torch
import torch.nn.functional as F

B = 2


def maps(side: int, channels: int, device: str) -> torch.Tensor:
    return torch.randn(2, B, side, side, channels, device=device).half()


def poison(*shape: int, device: str, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.full(shape, float("nan"), device=device, dtype=dtype)


def convolve(x: torch.Tensor, weights: torch.Tensor, **settings: int) -> torch.Tensor:
    """Each encoder by its own weights: [E, B, side, side, C] in and out, in single precision."""
    pairs = zip(x.float(), weights.half().float(), strict=True)
    return torch.stack([F.conv2d(m.permute(0, 3, 1, 2), w, **settings).permute(0, 2, 3, 1) for m, w in pairs])


def group_sums(raw: torch.Tensor) -> torch.Tensor:  # [E, B, 2, 8]
    groups = raw.unflatten(4, (8, -1))
    return torch.stack([groups.sum((2, 3, 5)), groups.square().sum((2, 3, 5))], dim=2)


@pytest.mark.parametrize(
    ("stride", "cin", "cout", "side", "cut"),
    [
        (1, 24, 24, 12, {"cols": 16, "rows": 4, "block_n": 32}),
        (1, 8, 16, 8, {"cols": 8, "rows": 3, "block_n": 16, "block_k": 16}),
        (1, 48, 48, 6, {"cols": 16, "lines": 4, "block_n": 16, "block_k": 64}),
        (2, 24, 48, 10, {"cols": 16, "lines": 1, "block_n": 64}),
        (2, 48, 40, 8, {"cols": 8, "lines": 4, "block_n": 32}),
        (1, 24, 24, 12, {"cols": 8, "rows": 4, "block_n": 64, "pairs": True}),
        (1, 24, 24, 8, {"cols": 4, "rows": 2, "block_n": 32, "block_k": 64, "pairs": True}),
    ],
)
def test_convolution_and_sums(device: str, stride: int, cin: int, cout: int, side: int, cut: dict[str, int]) -> None:
    from libranet.kernels.encoder_conv.triton import EncoderTile, conv_out, make_maps, pack_pairs, pack_weights

    tile = EncoderTile(**cut)
    x = make_maps(2, B, stride * side, cin, device)
    x.copy_(maps(stride * side, cin, device))
    weights = torch.randn(2, cout, cin, 3, 3, device=device) * 0.1
    out = poison(2, B, side, side, cout, device=device)
    sums = poison(2, B, tile.parts(side, cout), 2, 8, device=device, dtype=torch.float32)
    packed = pack_pairs(weights) if tile.pairs else pack_weights(weights)
    conv_out(x, packed, out, tile=tile, stride=stride, sums=sums)
    reference = convolve(x, weights, padding=1, stride=stride)
    torch.testing.assert_close(out.float(), reference, atol=4e-3, rtol=2e-3)
    torch.testing.assert_close(sums.sum(2), group_sums(reference), atol=2e-2, rtol=1e-3)


def test_head_convolutions(device: str) -> None:
    from libranet.kernels.encoder_conv.triton import EncoderTile, conv_out, pack_weights

    tile = EncoderTile(8, 8, block_n=32, block_k=16)
    x, weight = maps(8, 24, device)[:1], torch.randn(1, 40, 24, 3, 3, device=device) * 0.1
    bias = torch.randn(40, device=device)
    hidden, planes = poison(1, B, 8, 8, 40, device=device), poison(1, B, 40, 8, 8, device=device, dtype=torch.float32)
    conv_out(x, pack_weights(weight), hidden, tile=tile, bias=bias, activate=True)
    conv_out(x, pack_weights(weight), planes, tile=tile, bias=bias, planes=True)
    reference = convolve(x, weight, padding=1) + bias
    torch.testing.assert_close(hidden.float(), F.gelu(reference), atol=4e-3, rtol=2e-3)
    torch.testing.assert_close(planes, reference.permute(0, 1, 4, 2, 3), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("channels", [8, 24])
def test_stem(device: str, channels: int) -> None:
    from libranet.kernels.encoder_conv.triton import pack_stem, stem_out, stem_parts

    side = 18
    small = torch.randn(B, 2 * side, 2 * side, 4, device=device).half()
    weights = torch.randn(2, channels, 3, 3, 3) * 0.3
    out = poison(2, B, side, side, channels, device=device)
    sums = poison(2, B, stem_parts(side), 2, 8, device=device, dtype=torch.float32)
    stem_out(small, pack_stem(weights).to(device), out, sums)
    reference = convolve(small[None, ..., :3].expand(2, -1, -1, -1, -1), weights.to(device), padding=1, stride=2)
    torch.testing.assert_close(out.float(), reference, atol=4e-3, rtol=2e-3)
    torch.testing.assert_close(sums.sum(2), group_sums(reference), atol=2e-2, rtol=1e-3)
