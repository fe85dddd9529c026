"""Every rebuilt network: the official parameter count part by part, odd sizes, gradients, and that it learns."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from libranet.lab.peers import PEERS, Peer, build_peer, fourk_dehazing, load_peer
from libranet.lab.peers.cost import peer_cost
from libranet.metrics import psnr
from libranet.network import save_checkpoint

NAMES = [entry.name for entry in PEERS if entry.trainable]


def slow_for(*slow: str) -> list[object]:
    """All peers, some of them marked slow."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in NAMES]


LARGE = ("dehazexl", "pm-net", "astp-net-s", "astp-net-b")
LARGE_IS_SLOW = slow_for(*LARGE)
"""125 and 151 million parameters take their time, and so do up to 169 neighbours of every pixel."""
HALF_IS_SLOW = slow_for(*LARGE, "4kdehazing", "ffa-net", "dvd", "msbdn-dff", "dcl", "viws-net", "astp-net-t", "ds-tfn")

PARTS: dict[str, dict[str, int]] = (
    {
        "ffa-net": {"embed": 1_792, "groups": 3 * 1_471_067, "fusion": 1_732, "pixels": 529, "tail": 38_659},
        "msbdn-dff": {
            "embed": 5_824,
            "encoder_groups": 13_923 + 55_491 + 221_571 + 885_507,
            "downs": 4_640 + 18_496 + 73_856 + 295_168,
            "encoder_fusions": 16_434 + 82_068 + 344_406 + 1_393_368,
            "bottleneck": 21_242_898,
            "ups": 295_040 + 73_792 + 18_464 + 4_624,
            "decoder_groups": 13_923 + 55_491 + 221_571 + 885_507,
            "decoder_fusions": 1_048_962 + 1_311_300 + 1_376_934 + 1_393_368,
            "out": 435,
        },
        "4kdehazing": {
            "grid_net": 17_269_059,
            "image_net": 17_269_059,
            "guides": 3 * 2_563,
            "points": 36,
            "shared": 1,
            "unused": 1,
            "fuse": 1_365,
            "gain": 445,
        },
        "dehamer": {  # the sheet's 29,450,464 in use; of its parts it names the transformer's count
            "cnn": 896 + 9_248 + 2 * (36_928 + 147_584 + 590_080) + 32**2 + 64**2 + 128**2 + 256**2,
            "swin": 5_043_162,
            "bottleneck": 1_179_904 + 590_080,
            "modulate": 2 * (55_360 + 221_312 + 884_992),
            "fuse": 110_656 + 442_496 + 1_769_728,
            "halve": 27_712 + 110_720 + 442_624,
            "multi_scale": 3_148_800 + 12_595_200 + 2 * 161 + 1,
            "tail": 2 * 9_248 + 867,
        },
        "map-net": {
            "backbone": 27_821_472,
            "neck": 92_416,
            "priors": 11_393 + 3 * 66_881,
            "scenes": 116_978 + 114_834 + 168_682 + 130_618,
            "upsampler": 93_347,
        },
        "pm-net": {
            "pair": 165,
            "image": 15_363_815,
            "past_image": 15_363_815,
            "phase": 475_739,
            "past_phase": 475_739,
            "memory": 12_167_680,
            "head": 107_350_790,
        },
        "uhdformer": {
            "embed": 448,
            "high": 3 * 2_880 + 3_312,
            "reduce": 16_384,
            "groups": 156_360,
            "enlarge": 147_456,
            "fuse": 528,
            "out": 6_195,
        },
        "dvd": {
            "flow": 1_440_300,
            "features": 1_792 + 369_280 + 4 * 36_928,
            "align": 1_404_128,
            "fuse": 99_195,
            "trunk": 738_560,
            "out": 73_856 + 9_248 + 867,
            "show": 1_731,
        },
        "dcl": {
            "embed": 9_472,
            "downs": 73_856 + 295_168,
            "blocks": 9 * 1_180_160,
            "ups": 295_040 + 73_792,
            "out": 9_411,
        },
        "viws-net": {
            "encoder.stem.tokens": 48 * 3,
            "encoder.stem": 63_168,
            "encoder.embeds": 74_112 + 295_680 + 1_181_184,
            "encoder.stages.0": 2 * 416_832,
            "encoder.stages.1": 4 * 669_824,
            "encoder.stages.2": 12 * 1_131_776,
            "encoder.stages.3": 3_177_984,
            "encoder.norms": 128 + 256 + 512 + 1_024,
            "query_decoder.reduce": 2_359_808,
            "query_decoder.norm": 1_024,
            "query_decoder.blocks": 3 * 3_172_864,
            "query_decoder.last_norm": 1_024,
            "weather": 132_736,
            "enlarge": 4_194_816,
            "decoder.ups": 2_097_408 + 524_416 + 131_136 + 16_400,
            "decoder.blocks": 1_180_160 + 295_168 + 73_856 + 4_640,
            "decoder.last": 2_056,
            "out": 219,
            "temporal": 2_592 + 27_648 + 2_592,
            "refine.encoder": 11_040_784,
            "refine.decoder": 4_325_459 - 219,
            "refine.out": 219,
            "refine.unused": 219,
        },
        "ds-tfn": {
            "first.backbone": 27_821_472,
            "first.neck": 92_416,
            "first.priors": 11_393 + 3 * 66_881,
            "first.scenes": 116_978 + 114_834 + 168_682 + 130_618,
            "first.upsampler": 93_347,
            "confidence": 3 * 38_052,
            "second.backbone": 27_821_472,
            "second.neck": 92_416,
            "second.decoders": 3 * 180_608 + 168_224,
            "second.upsampler": 93_347,
        },
        "dehazexl": {"encoder": 27_576_618, "bottleneck": 19_474_176, "decoder": 78_434_202},
        "uhddip": {
            "gradient": 112,
            "embed": 448,
            "gradient_stem": 160 + 16_384,
            "normal_stem": 448 + 16_384,
            "rounds": 3 * (2 * 2_320 + 16_384 + 2 * 2_320 + 9_224 + 63_415 + 4 * 2_320 + 147_456 + 528),
            "auxiliary": 5_075,
            "out": 7_395,
        },
    }
    | {
        f"dehazeformer-{size}": {
            "embed": 672,
            "merges": 4_656 + 18_528,
            "stages": stages,
            "splits": 18_624 + 4_704,
            "skips": 2_352 + 600,
            "fusions": 864 + 288,
            "out": 868,
        }
        for size, stages in (
            ("t", 16_800 + 112_072 + 467_352 + 30_624 + 8_400),
            ("s", 38_852 + 224_144 + 891_684 + 61_248 + 16_800),
            ("b", 77_704 + 448_288 + 1_783_368 + 122_496 + 33_600),
        )
    }
    | {
        f"astp-net-{size}": {
            "embed": 5_904,
            "merges": 41_616 + 166_176,
            **{f"stages.{index}": count for index, count in enumerate(stages)},
            **{f"temporal.{index}": count for index, count in enumerate(temporal)},
            "memory": 21_840,
            "splits": 18_624 + 4_704,
            "skips": 6_960 + 1_752,
            "fusions": 864 + 288,
            "out": 868,
        }
        for size, stages, temporal in (
            ("t", (133_344, 936_008, 4_035_480, 30_624, 8_400), (15_242, 59_284, 233_190)),
            ("s", (291_076, 1_877_392, 7_736_580, 61_248, 16_800), (15_914, 60_628, 234_102)),
            ("b", (579_464, 3_744_032, 15_462_216, 122_496, 33_600), (15_242, 59_284, 233_190)),
        )
    }
)
"""From the fact sheet, which has them from the official networks."""

GFLOPS_256 = {
    "ffa-net": 574.6,
    "msbdn-dff": 48.9,
    "4kdehazing": 206.7,
    "dehamer": 97.5,
    "dehazeformer-t": 13.3,
    "dehazeformer-s": 26.2,
    "dehazeformer-b": 51.5,
    "map-net": 16.5 - 0.21,  # the official forward pass includes the auxiliary heads
    "pm-net": 324.7,
    "uhdformer": 6.05,
    "dehazexl": 46.9,
    "uhddip": 4.31 - 0.53,  # likewise
    "dcl": 113.6,
    "viws-net": 164.65 - 4 / 5 * (14.85 + 0.14),  # the last decoder draws one frame of five
    "ds-tfn": 33.93 - 0.21 - 0.03,  # auxiliary heads
    # Products with neighbours are not matrix products, so torch does not count them; two temporal blocks are not run.
    "astp-net-t": 97.9 - 5.73 - (5.6 - 2.29),
    "astp-net-s": 196.2 - 21.54 - (8.1 - 4.79),
    "astp-net-b": 359.2 - 19.49 - (5.6 - 2.29),
}
"""What torch's counter finds in the official networks for 256x256 pixels."""

UNUSED = {"4kdehazing": ("unused",), "map-net": ("airlight", "auxiliary", "transmission"), "dvd": ("show",)}
UNUSED |= {"pm-net": ("unused",), "viws-net": ("weather", "unused")}
UNUSED |= {f"astp-net-{size}": ("temporal.0", "temporal.1", "unused") for size in "tsb"}
UNUSED |= {"ds-tfn": ("airlight", "auxiliary", "transmission", "confidence.confidence", "error", "decoders.3.enter")}
UNUSED |= {"uhddip": ("auxiliary", "gradient."), "uhdformer": ("second_norm", "feed_forward.enter")}
"""Parts without a gradient: they serve losses of the makers' own, are fixed, or only choose channels (UHDformer)."""

BRIGHT_STRIPES = torch.linspace(0, 25, 64).sin().mul(0.3).add(0.5)


@pytest.fixture
def small_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """4KDehazing always sees 256x256 and 320x320 pixels; smaller squares go through the same layers."""
    monkeypatch.setattr(fourk_dehazing, "GRID_INPUT", 64)
    monkeypatch.setattr(fourk_dehazing, "IMAGE_INPUT", 64)


def hazy_clip(frames: int, height: int = 64, width: int = 64) -> tuple[Tensor, Tensor]:
    """A moving pattern in haze that is thicker on the right; hazy window [1, T, 3, H, W] and clear centre frame."""
    base = BRIGHT_STRIPES[:width].repeat(1, 3, height, 1) * torch.tensor([1.0, 0.8, 0.5]).view(3, 1, 1)
    base = base * torch.linspace(0.4, 1.0, height).view(height, 1)
    clear = torch.stack([base.roll(2 * index, dims=-1) for index in range(frames)], dim=1)
    transmission = torch.linspace(0.8, 0.3, width)
    return clear * transmission + 0.85 * (1 - transmission), clear[:, frames // 2]


def window_of(peer: Peer) -> int:
    return peer.config.window


@pytest.mark.parametrize("name", NAMES)
def test_every_part_has_the_official_count(name: str) -> None:
    entry = next(entry for entry in PEERS if entry.name == name)
    peer = entry.build_on_meta()
    found = dict.fromkeys(PARTS[name], 0)
    for parameter, value in peer.named_parameters():
        found[next(part for part in found if f"{parameter}.".startswith(f"{part}."))] += value.numel()
    assert found == PARTS[name]
    assert sum(found.values()) == entry.parameters


@pytest.mark.parametrize("name", sorted(GFLOPS_256))
def test_the_forward_pass_costs_what_the_official_one_costs(name: str) -> None:
    gflops = peer_cost(name, width=256, height=256).gflops
    assert gflops == pytest.approx(GFLOPS_256[name], rel=0.005, abs=0.05)


@pytest.mark.parametrize("name", LARGE_IS_SLOW)
def test_odd_sizes_come_back_as_they_are(name: str, small_squares: None) -> None:
    peer = build_peer(name).eval()
    for height, width in ((16, 19), (33, 47))[int(name == "dehazexl") :]:
        hazy, _ = hazy_clip(window_of(peer), height, width)
        with torch.no_grad():
            restored = peer(hazy)
        assert restored.shape == (1, 3, height, width)
        assert 0.0 <= float(restored.min()) <= float(restored.max()) <= 1.0


@pytest.mark.parametrize("name", LARGE_IS_SLOW)
def test_gradients_are_finite_and_reach_every_part(name: str, small_squares: None) -> None:
    peer = build_peer(name).train()
    hazy, clear = hazy_clip(window_of(peer), *((128, 64) if name == "pm-net" else (32, 32)))  # a memory of two cells
    hazy, clear = hazy.repeat(2, 1, 1, 1, 1), clear.repeat(2, 1, 1, 1)  # batch norms need two samples
    with torch.no_grad():  # zero-initialised layers would hide what comes before them
        for parameter in peer.parameters():
            if parameter.requires_grad and not parameter.any():
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)), alpha=0.05)
    (peer.predict(hazy).image - clear).abs().mean().backward()
    missing = [n for n, p in peer.named_parameters() if p.grad is None]
    unused = UNUSED.get(name, ())
    assert all(any(part in n for part in unused) for n in missing), missing
    gradients = [p.grad for p in peer.parameters() if p.grad is not None]
    assert all(g.isfinite().all() for g in gradients)
    assert sum(bool(g.any()) for g in gradients) > 0.9 * len(gradients)


# Older CPUs have no instructions for bfloat16 and take a hundred times as long.
@pytest.mark.parametrize("name", HALF_IS_SLOW)
def test_sixteen_bits_work_for_weights_and_for_training(name: str, small_squares: None) -> None:
    peer = build_peer(name).eval()
    hazy, _ = hazy_clip(window_of(peer), 24, 32)
    with torch.no_grad():
        full = peer(hazy)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed = peer(hazy)
        half = peer.bfloat16()(hazy)
    for found in (mixed, half):
        assert found.isfinite().all()
        assert found.dtype == hazy.dtype
        assert (found - full).abs().mean() < 0.03


@pytest.mark.parametrize("name", LARGE_IS_SLOW)
def test_a_checkpoint_gives_the_same_network(name: str, tmp_path: Path, small_squares: None) -> None:
    peer = build_peer(name, seed=2).eval()
    save_checkpoint(peer, tmp_path / "p.safetensors")
    again = load_peer(tmp_path / "p.safetensors")
    hazy, _ = hazy_clip(window_of(peer), 24, 32)
    with torch.no_grad():
        torch.testing.assert_close(peer(hazy), again(hazy), atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_fifty_steps_on_one_clip_gain_three_decibels(name: str, small_squares: None) -> None:
    torch.manual_seed(0)
    peer = build_peer(name).train()
    hazy, clear = hazy_clip(window_of(peer), 48, 64)
    before = psnr(hazy[0, hazy.shape[1] // 2], clear[0])
    rate = 3e-4 if name == "dehazexl" else 1e-3
    optimiser = torch.optim.Adam(peer.parameters(), lr=rate, betas=(0.8, 0.9))  # 50 steps: a short memory
    for _ in range(50):
        optimiser.zero_grad()
        (peer.predict(hazy).image - clear).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 0.1)
        optimiser.step()
    with torch.no_grad():
        after = psnr(peer.predict(hazy).image[0].clamp(0, 1), clear[0])
    print(f"{name}: {before:.2f} -> {after:.2f} dB")
    assert after >= before + 3.0


def test_map_net_remembers() -> None:
    peer = build_peer("map-net").eval()
    torch.nn.init.normal_(peer.upsampler[-1].weight, std=0.05)  # type: ignore[union-attr, index, arg-type]
    hazy, _ = hazy_clip(3, 32, 32)
    with torch.no_grad():
        _, state = peer.step(hazy[:, 0], None)  # type: ignore[operator]
        second, state = peer.step(hazy[:, 1], state)  # type: ignore[operator]
        alone, _ = peer.step(hazy[:, 1], None)  # type: ignore[operator]
    assert not torch.allclose(second, alone)
    assert [len(scenes) for scenes in state.scenes] == [2, 2, 2, 2]
    assert [len(tokens) for tokens in state.tokens] == [0, 0, 2, 2]


def test_deformable_convolution_without_offsets_is_a_convolution() -> None:
    from libranet.lab.peers.deformable import DeformableConv

    torch.manual_seed(0)
    layer, x = DeformableConv(8, groups=4), torch.randn(2, 8, 9, 11)
    torch.testing.assert_close(layer(x, x), _halved_conv(layer.conv, x))  # masks are sigmoid(0) = 1/2 at first
    moved = layer(x, x, torch.tensor([1.0, 0.0]).view(1, 2, 1, 1).expand(2, 2, 9, 11))
    torch.testing.assert_close(moved[..., :-2], layer(x, x)[..., 1:-1], atol=1e-5, rtol=1e-5)


def _halved_conv(conv: torch.nn.Conv2d, x: Tensor) -> Tensor:
    return torch.nn.functional.conv2d(0.5 * x, conv.weight, conv.bias, padding=1)


def test_tiles_are_counted_by_rows_and_columns() -> None:
    from libranet.lab.peers.dehazexl import _join, _split

    frame = torch.arange(2 * 3 * 8 * 12).view(2, 3, 8, 12)
    tiles = _split(frame, 2, 3, 4)
    assert tiles.shape == (12, 3, 4, 4)
    assert torch.equal(tiles[1], frame[0, :, :4, 4:8])
    assert torch.equal(_join(tiles, 2, 2, 3), frame)


def test_attention_to_a_whole_frame_is_streamed() -> None:
    fuse = build_peer("dvd").eval().fuse
    aligned, current = torch.rand(2, 1, 64, 32, 48).unbind()
    with torch.no_grad(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # refuses tensors that it cannot stream
        streamed = fuse(aligned, current)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        torch.testing.assert_close(streamed, fuse(aligned, current), atol=1e-5, rtol=1e-5)
