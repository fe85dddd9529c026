"""Pickles may hold arrays and nothing that runs."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from libranet.errors import CheckpointError
from libranet.thirdparty.unpickle import read_pickled_arrays, read_pickled_network, read_torch_tensors


class _Attack:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("/tmp/libranet-must-not-exist",)


def test_arrays_come_back() -> None:
    content = {"a": {"kernel": np.ones((2, 3), np.float32)}, "b": [1, 2.5, "three"], "c": np.float64(4.0)}
    found = read_pickled_arrays(pickle.dumps(content, protocol=3))
    np.testing.assert_array_equal(found["a"]["kernel"], content["a"]["kernel"])
    assert found["b"] == content["b"]
    assert found["c"] == 4.0


def test_a_pickle_that_runs_something_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"asks for posix.mkdir|asks for nt.mkdir"):
        read_pickled_arrays(pickle.dumps({"a": _Attack()}))
    torch.save({"a": _Attack()}, tmp_path / "bad.pth")
    with pytest.raises(CheckpointError, match="holds more than tensors"):
        read_torch_tensors(tmp_path / "bad.pth")
    assert not Path("/tmp/libranet-must-not-exist").exists()


def test_a_pickled_network_gives_its_tensors_and_runs_nothing(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).half()
    network.extra = _Attack()
    torch.save({"model": network, "date": "today", "attack": _Attack()}, tmp_path / "net.pt")
    found = read_pickled_network(tmp_path / "net.pt", "model")
    assert found.keys() == network.state_dict().keys()
    torch.testing.assert_close(found["0.weight"], network[0].weight.detach())
    assert not Path("/tmp/libranet-must-not-exist").exists()
    with pytest.raises(CheckpointError, match="holds no pickled network under 'ema'"):
        read_pickled_network(tmp_path / "net.pt", "ema")


def test_a_damaged_pickle_is_refused() -> None:
    with pytest.raises(CheckpointError, match="damaged"):
        read_pickled_arrays(b"\x80\x03}q\x00(X")


def test_torch_files_must_be_flat(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(3)}, tmp_path / "good.pth")
    assert read_torch_tensors(tmp_path / "good.pth")["weight"].sum() == 3
    torch.save({"state": {"weight": torch.ones(3)}}, tmp_path / "nested.pth")
    with pytest.raises(CheckpointError, match="flat table of tensors"):
        read_torch_tensors(tmp_path / "nested.pth")
