"""The weight-stationary kernels: compiled for Hopper on any machine, run against their references on one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from kernel_agreement import assert_agree, poison
from libranet.kernels.conv3x3 import reference as conv_reference
from libranet.kernels.norm_mix import reference as mix_reference
from libranet.kernels.tiles import SUMS_STRIP

pytest.importorskip("triton", reason="Triton is not installed: pip install 'libranet[gpu]'")

SHARED_MEMORY = 227 * 1024
"""What a program may have on Hopper, in bytes."""


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(Path(__file__).with_name("compile_for_hopper.py"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("kind", "product"), [("sums", "m64n128k16"), ("bias", "m64n128k16"), ("wide", "m64n64k16")])
def test_convolution_compiles_for_hopper(compiled: dict[str, Any], kind: str, product: str) -> None:
    assert compiled[kind]["shared"] <= SHARED_MEMORY
    assert compiled[kind]["products"] == [product]


def test_mix_compiles_for_hopper(compiled: dict[str, Any]) -> None:
    from libranet.kernels.norm_mix.hopper import PER_PROCESSOR

    assert PER_PROCESSOR * compiled["mix"]["shared"] <= SHARED_MEMORY
    assert compiled["mix"]["products"] == ["m64n64k16"]


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2, 22, 150), (1, 4, 4), (3, 135, 240)], ids=str)
@pytest.mark.parametrize(("cin", "with_sums"), [(64, True), (64, False), (128, False)])
def test_convolution_agrees_with_the_reference(
    hopper: str, shape: tuple[int, int, int], cin: int, with_sums: bool
) -> None:
    from libranet.kernels.conv3x3.hopper import conv3x3_out

    b, h, w = shape
    weight = torch.randn(64, cin, 3, 3, device=hopper) * 0.05
    inputs = {"x": torch.randn(b, h, w, cin, device=hopper).half(), "weight": conv_reference.pack_weight(weight)}
    written = {"out": poison(b, h, w, 64, device=hopper)}
    if with_sums:
        written["sums"] = poison(b, SUMS_STRIP.parts(h, w), 2, 8, device=hopper, dtype=torch.float32)
    else:
        inputs["bias"] = torch.randn(64, device=hopper)
    assert_agree(conv_reference.conv3x3_out, conv3x3_out, inputs, written, atol=3e-3, rtol=2e-3, sums_atol=0.5)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2, 21, 75), (1, 4, 4), (3, 64, 480)], ids=str)
def test_mix_agrees_with_the_reference_also_in_place(hopper: str, shape: tuple[int, int, int]) -> None:
    from libranet.kernels.norm_mix.hopper import normalise_mix_out

    inputs = {
        "raw": torch.randn(*shape, 64, device=hopper).half(),
        "fold": torch.randn(shape[0], 2, 64, device=hopper),
        "skip": torch.randn(*shape, 64, device=hopper).half(),
        "mix": (torch.randn(64, 64, device=hopper) * 0.1).half(),
        "mix_bias": torch.randn(64, device=hopper),
    }
    wide = poison(*shape, 128, device=hopper)
    written = {"out": wide[..., 64:]}
    assert_agree(mix_reference.normalise_mix_out, normalise_mix_out, inputs, written, atol=5e-3, rtol=2e-3)
    assert wide[..., :64].isnan().all()
    normalise_mix_out(**inputs, out=inputs["skip"])
    assert torch.equal(inputs["skip"], wide[..., 64:])
