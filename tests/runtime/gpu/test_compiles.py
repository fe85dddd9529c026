"""Every kernel of the fused step compiles for GPUs from compute capability 8.0 on, within what a program may use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SHARED = {"80": 163, "86": 99, "89": 99, "90": 227, "100": 227, "120": 99}
"""KB of shared memory that one program may have (CUDA C++ Programming Guide, compute capabilities)."""
REGISTERS = 65536
"""Registers of a multiprocessor, for at least one program."""


@pytest.mark.parametrize(
    ("capability", "variants"),
    [("86", "first"), *(pytest.param(name, "all", marks=pytest.mark.slow) for name in SHARED)],
)
def test_kernels_fit(capability: str, variants: str, tmp_path: Path) -> None:
    """All variants of all kernels take a minute per GPU, so `make test` compiles one of each kernel for one of them."""
    pytest.importorskip("triton", reason="Triton is not installed: pip install 'libranet[gpu]'")
    script = str(Path(__file__).with_name("compile_for_gpus.py"))
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    words = [script, capability] if variants == "all" else [script, "--first", capability]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    kernels = json.loads(done.stdout.splitlines()[-1])[capability]
    assert len(kernels) > (40 if variants == "all" else 20)
    for name, use in kernels.items():
        assert use["shared"] <= SHARED[capability] * 1024, (name, use)
        assert use["registers"] * use["warps"] * 32 <= REGISTERS, (name, use)
        assert use["spilled"] <= 128, (name, use)  # bytes a thread; a few are cheaper than a smaller tile
