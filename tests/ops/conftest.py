"""Kernel tests run on a GPU, or in Triton's interpreter, which must be chosen before Triton is first imported.

Where neither is there, they are left to `tests/cuda/test_interpreter.py`, which runs them in a process of its own.
"""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

collect_ignore_glob = [] if INTERPRETED or torch.cuda.is_available() else ["test_*_triton.py"]


@pytest.fixture
def device() -> str:
    """The device kernels run on."""
    return "cpu" if INTERPRETED else "cuda"
