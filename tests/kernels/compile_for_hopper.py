"""Compiles the weight-stationary kernels for Hopper, which needs none, and prints what came out as JSON.

A script of its own, because the tests' process may have Triton in interpreter mode, which cannot compile.
"""

import json
import re
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language import NVMMASharedLayout

from libranet.kernels.conv3x3.gluon import conv3x3_kernel
from libranet.kernels.norm_mix.gluon import normalise_mix_kernel
from libranet.kernels.norm_mix.hopper import RING
from libranet.kernels.tiles import BIAS_STRIP, SUMS_STRIP, WIDE_STRIP, StripTile


def compiled(kernel: Any, blocks: dict[str, list[int]], constants: dict[str, Any]) -> dict[str, Any]:
    """Shared memory in bytes and the matrix products used. `blocks`: the tensor descriptors' blocks."""
    types = {name: f"tensordesc<fp16{b},{NVMMASharedLayout(128, 16, len(b))!r}>" for name, b in blocks.items()}
    types |= dict.fromkeys(constants, "constexpr")
    names = kernel.arg_names
    signature = {name: types.get(name, "*fp32" if name.endswith("_ptr") else "i32") for name in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    source = GluonASTSource(kernel, signature, values, {})
    result = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    products = set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.(\w+)\.f32\.f16\.f16", result.asm["ptx"]))
    return {"shared": result.metadata.shared, "products": sorted(products)}


def convolution(tile: StripTile, chunks: int, *, with_sums: bool) -> dict[str, Any]:
    row = [1, tile.cols, 64]
    return compiled(
        conv3x3_kernel,
        {"x_desc": row, "halo_desc": [1, 8, 64], "weight_desc": [64, 64], "out_desc": row},
        {
            "COLS": tile.cols, "CHUNKS": chunks, "RING": tile.ring, "STAGES": tile.stages,
            "HAS_BIAS": not with_sums, "HAS_SUMS": with_sums,
        },
    )  # fmt: skip


def mix() -> dict[str, Any]:
    block = [1, 128, 64]
    blocks = {"raw_desc": block, "skip_desc": block, "mix_desc": [64, 64], "out_desc": block}
    return compiled(normalise_mix_kernel, blocks, {"RING": RING})


if __name__ == "__main__":
    found = {
        "sums": convolution(SUMS_STRIP, 1, with_sums=True),
        "bias": convolution(BIAS_STRIP, 1, with_sums=False),
        "wide": convolution(WIDE_STRIP, 2, with_sums=False),
        "mix": mix(),
    }
    print(json.dumps(found))
