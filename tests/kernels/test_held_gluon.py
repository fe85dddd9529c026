"""The kernels that hold their weights: compiled for Hopper anywhere, run against torch where there is one."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is not installed: pip install 'libranet[gpu]'")

SHARED_MEMORY = 227 * 1024
"""What a program may have on Hopper, in bytes."""


def compiled(kernel: Any, blocks: dict[str, list[int]], constants: dict[str, Any]) -> Any:
    """Compile for Hopper, which needs none. `blocks`: the tensor descriptors' blocks."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon._runtime import GluonASTSource
    from triton.experimental.gluon.language import NVMMASharedLayout

    types = {name: f"tensordesc<fp16{b},{NVMMASharedLayout(128, 16, len(b))!r}>" for name, b in blocks.items()}
    types |= dict.fromkeys(constants, "constexpr")
    names = kernel.arg_names
    signature = {name: types.get(name, "*fp32" if name.endswith("_ptr") else "i32") for name in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    source = GluonASTSource(kernel, signature, values, {})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


@pytest.mark.parametrize(("cin", "with_sums", "product"), [(64, True, "m64n128k16"), (128, False, "m64n64k16")])
def test_convolution_compiles_for_hopper(cin: int, with_sums: bool, product: str) -> None:
    from libranet.kernels.conv3x3.gluon import conv3x3_held_kernel, cut_for

    cut = cut_for(cin, with_sums=with_sums)
    row = [1, cut.cols, 64]
    kernel = compiled(
        conv3x3_held_kernel,
        {"x_desc": row, "halo_desc": [1, 8, 64], "weight_desc": [64, 64], "out_desc": row},
        {
            "COLS": cut.cols, "CHUNKS": cin // 64, "RING": cut.ring, "STAGES": cut.stages,
            "HAS_BIAS": not with_sums, "HAS_SUMS": with_sums,
        },
    )  # fmt: skip
    assert kernel.metadata.shared <= SHARED_MEMORY
    assert f"wgmma.mma_async.sync.aligned.{product}.f32.f16.f16" in kernel.asm["ptx"]


def test_mix_compiles_for_hopper() -> None:
    from libranet.kernels.norm_mix.gluon import PER_PROCESSOR, RING, normalise_mix_held_kernel

    block = [1, 128, 64]
    kernel = compiled(
        normalise_mix_held_kernel,
        {"raw_desc": block, "skip_desc": block, "mix_desc": [64, 64], "out_desc": block},
        {"RING": RING},
    )
    assert PER_PROCESSOR * kernel.metadata.shared <= SHARED_MEMORY
    assert "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16" in kernel.asm["ptx"]


@pytest.fixture
def hopper() -> str:
    from libranet.fused.support import can_hold_weights

    if not torch.cuda.is_available() or not can_hold_weights(64, torch.device("cuda")):
        pytest.skip("no Hopper GPU")
    return "cuda"


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2, 22, 150), (1, 4, 4), (3, 135, 240)], ids=str)
@pytest.mark.parametrize(("cin", "with_sums"), [(64, True), (64, False), (128, False)])
def test_convolution_matches_torch(hopper: str, shape: tuple[int, int, int], cin: int, with_sums: bool) -> None:
    from libranet.kernels.conv3x3.gluon import conv3x3_held_out
    from libranet.kernels.conv3x3.triton import held_tiles, pack_weight

    b, h, w = shape
    x = torch.randn(b, h, w, cin, device=hopper).half()
    weight = torch.randn(64, cin, 3, 3, device=hopper) * 0.05
    bias = None if with_sums else torch.randn(64, device=hopper)
    out = torch.full((b, h, w, 64), float("nan"), device=hopper).half()
    sums = torch.full((b, held_tiles(h, w), 2, 8), float("nan"), device=hopper) if with_sums else None

    conv3x3_held_out(x, pack_weight(weight), out, bias=bias, sums=sums)

    reference = F.conv2d(x.double().permute(0, 3, 1, 2), weight.half().double(), padding=1)
    reference += 0 if bias is None else bias.double()[:, None, None]
    torch.testing.assert_close(out.double(), reference.permute(0, 2, 3, 1), atol=3e-3, rtol=2e-3)
    if sums is not None:
        groups = reference.unflatten(1, (8, -1))
        totals = torch.stack([groups.sum((2, 3, 4)), groups.square().sum((2, 3, 4))], dim=1)
        torch.testing.assert_close(sums.double().sum(1), totals, atol=0.5, rtol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2, 21, 75), (1, 4, 4), (3, 64, 480)], ids=str)
def test_mix_matches_torch_also_in_place(hopper: str, shape: tuple[int, int, int]) -> None:
    from libranet.kernels.norm_mix.gluon import normalise_mix_held_out

    raw, skip = (torch.randn(*shape, 64, device=hopper).half() for _ in range(2))
    fold, bias = torch.randn(shape[0], 2, 64, device=hopper), torch.randn(64, device=hopper)
    mix = (torch.randn(64, 64, device=hopper) * 0.1).half()
    wide = torch.full((*shape, 128), float("nan"), device=hopper).half()
    reference = F.gelu(raw.float() * fold[:, 0, None, None] + fold[:, 1, None, None]) @ mix.float().T + bias + skip

    normalise_mix_held_out(raw, fold, wide[..., 64:], skip=skip, mix=mix, mix_bias=bias)
    normalise_mix_held_out(raw, fold, skip, skip=skip, mix=mix, mix_bias=bias)

    torch.testing.assert_close(wide[..., 64:].float(), reference, atol=5e-3, rtol=2e-3)
    assert wide[..., :64].isnan().all()
    assert torch.equal(skip, wide[..., 64:])
