"""The convolution that holds its weights: compiled for Hopper anywhere, run against torch where there is one."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is not installed: pip install 'libranet[gpu]'")

SHARED_MEMORY = 227 * 1024
"""What a program may have on Hopper, in bytes."""


@pytest.mark.parametrize(("cin", "product"), [(64, "m64n128k16"), (128, "m64n64k16")])
def test_compiles_for_hopper(cin: int, product: str) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon._runtime import GluonASTSource
    from triton.experimental.gluon.language import NVMMASharedLayout

    from libranet.ops.conv_gluon import CUTS, conv3x3_held_kernel

    def described(*block: int) -> str:
        return f"tensordesc<fp16{list(block)},{NVMMASharedLayout(128, 16, len(block))!r}>"

    cut = CUTS[cin // 64]
    constants = {
        "COLS": cut.cols, "CHUNKS": cin // 64, "RING": cut.ring, "STAGES": cut.stages,
        "HAS_BIAS": True, "HAS_SUMS": True,
    }  # fmt: skip
    types = {
        "x_desc": described(1, cut.cols, 64), "halo_desc": described(1, 8, 64), "weight_desc": described(64, 64),
        "out_desc": described(1, cut.cols, 64), "bias_ptr": "*fp32", "sums_ptr": "*fp32",
    }  # fmt: skip
    names = conv3x3_held_kernel.arg_names
    signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    source = GluonASTSource(conv3x3_held_kernel, signature, values, {})
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})

    assert kernel.metadata.shared <= SHARED_MEMORY
    assert f"wgmma.mma_async.sync.aligned.{product}.f32.f16.f16" in kernel.asm["ptx"]
    assert "stmatrix" in kernel.asm["ptx"]


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2, 22, 150), (1, 4, 4), (3, 135, 240)], ids=str)
@pytest.mark.parametrize(("cin", "with_sums"), [(64, True), (64, False), (128, False)])
def test_matches_torch(shape: tuple[int, int, int], cin: int, with_sums: bool) -> None:
    from libranet.cuda.support import can_hold_weights
    from libranet.ops.conv_gluon import conv3x3_held_out
    from libranet.ops.conv_triton import held_tiles, pack_weight

    if not torch.cuda.is_available() or not can_hold_weights(64, torch.device("cuda")):
        pytest.skip("no Hopper GPU")
    b, h, w = shape
    x = torch.randn(b, h, w, cin, device="cuda").half()
    weight = torch.randn(64, cin, 3, 3, device="cuda") * 0.05
    bias = None if with_sums else torch.randn(64, device="cuda")
    out = torch.full((b, h, w, 64), float("nan"), device="cuda").half()
    sums = torch.full((b, held_tiles(h, w), 2, 8), float("nan"), device="cuda") if with_sums else None

    conv3x3_held_out(x, pack_weight(weight), out, bias=bias, sums=sums)

    reference = F.conv2d(x.double().permute(0, 3, 1, 2), weight.half().double(), padding=1)
    reference += 0 if bias is None else bias.double()[:, None, None]
    torch.testing.assert_close(out.double(), reference.permute(0, 2, 3, 1), atol=3e-3, rtol=2e-3)
    if sums is not None:
        groups = reference.unflatten(1, (8, -1))
        totals = torch.stack([groups.sum((2, 3, 4)), groups.square().sum((2, 3, 4))], dim=1)
        torch.testing.assert_close(sums.double().sum(1), totals, atol=0.5, rtol=1e-3)
