"""A Ray cluster with two cores, and a tiny network in a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from libranet.network import LiBrANet, save_checkpoint
from tiny_network import TINY, perturb


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    """Stopped after the last test of a file: Ray's processes are busy even where nobody has work for them."""
    ray = pytest.importorskip("ray", reason="pip install 'libranet[cluster]'")
    from libranet.cluster.joining import LOCAL, connect

    connect(LOCAL, cores=2)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_checkpoint(perturb(LiBrANet(TINY)), path, provenance={})
    return path
