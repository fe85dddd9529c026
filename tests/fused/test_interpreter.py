"""Runs every kernel test in Triton's interpreter, so that machines without a GPU guard the kernels too."""

import os
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest
import torch

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="already in the interpreter")
@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernel tests run on the GPU itself: pytest -m gpu")
@pytest.mark.skipif(util.find_spec("triton") is None, reason="Triton is not installed: pip install 'libranet[gpu]'")
def test_kernels_in_the_interpreter() -> None:
    files = sorted(map(str, TESTS.glob("*/test_*_triton.py")))
    assert len(files) >= 7
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=TESTS.parent, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
