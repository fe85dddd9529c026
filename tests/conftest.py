"""Fixtures that more than one room uses."""

import os

import pytest
import torch

from libranet.models import LiBrANet, LiBrANetConfig
from tiny_network import TINY, perturb


@pytest.fixture
def tiny_config() -> LiBrANetConfig:
    return TINY


@pytest.fixture
def tiny_model() -> LiBrANet:
    """A tiny network with weights at which its output differs from its input."""
    torch.manual_seed(0)
    return perturb(LiBrANet(TINY))


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Kernel tests run on a GPU (`pytest -m gpu`), or in Triton's interpreter, which must be chosen before Triton is first
imported: `tests/cuda/test_interpreter.py` runs them there in a process of its own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in ("ops", "cuda") and item.path.stem.endswith("_triton") and not INTERPRETED:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture
def exact_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU float32 convolutions round their input to 10 bits unless told not to."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def device() -> str:
    """The device kernels run on."""
    if not INTERPRETED and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return "cpu" if INTERPRETED else "cuda"
