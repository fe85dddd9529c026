"""Fixtures that several packages use."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from libranet.models import LiBrANet, LiBrANetConfig
from libranet.thirdparty import find_model, find_weights, load_weights, pull_weights
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
imported: `tests/fused/test_interpreter.py` runs them there in a process of its own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in ("kernels", "fused") and item.path.stem.endswith("_triton") and not INTERPRETED:
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


SHARED = Path(__file__).parents[2] / "shared" / "data" / "weights"


@pytest.fixture
def published(tmp_path: Path) -> Callable[[str], dict[str, Tensor]]:
    """Load third-party weights by name, from the user's cache or a folder beside the project, never from the web."""

    def load(name: str) -> dict[str, Tensor]:
        model = find_model(name)
        if find_weights(model):
            return load_weights(model)
        if (SHARED / model.files[0].name).is_file():
            pull_weights(model, tmp_path, local=SHARED)
            return load_weights(model, tmp_path)
        pytest.skip(f"{name} is not in the cache: run `libranet weights pull {name}`")

    return load
