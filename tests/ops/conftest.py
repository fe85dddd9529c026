"""Kernel tests run on a GPU (`pytest -m gpu`), or in Triton's interpreter, which must be chosen before Triton is first
imported: `tests/cuda/test_interpreter.py` runs them there in a process of its own.
"""

import os
from pathlib import Path

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem.endswith("_triton") and not INTERPRETED:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture
def device() -> str:
    """The device kernels run on."""
    if not INTERPRETED and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return "cpu" if INTERPRETED else "cuda"
