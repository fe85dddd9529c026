"""Conversion of the published layouts on small files of the same form, and pickles that may not run anything."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from libranet.errors import CheckpointError
from libranet.thirdparty import convert
from libranet.thirdparty.convert import read_pickled_arrays, read_tensors


def test_flax_kernels_become_torch_kernels(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    shapes = ((11, 11, 3, 4), (5, 5, 4, 4), (3, 3, 4, 4), (3, 3, 4, 4), (3, 3, 4, 4))
    kernels = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    content = {"AlexNet_0": {f"Conv_{i}": {"kernel": k, "bias": np.zeros(4, "f4")} for i, k in enumerate(kernels)}}
    content |= {f"NetLinLayer_{i}": {"Conv_0": {"kernel": np.full((1, 1, 4, 1), i, "f4")}} for i in range(5)}
    (tmp_path / "alexnet.ckpt").write_bytes(pickle.dumps(content, protocol=3))
    state = convert.alexnet_lpips({"alexnet.ckpt": tmp_path / "alexnet.ckpt"})
    assert next(iter(state)) == "features.0.weight"
    assert {f"features.{n}.bias" for n in convert.ALEXNET_LAYERS} < set(state)
    assert state["features.0.weight"][2, 1, 4, 7] == pytest.approx(float(kernels[0][4, 7, 1, 2]))
    assert state["heads.3"].tolist() == [3.0] * 4


def test_raft_loses_its_prefix(tmp_path: Path) -> None:
    path = tmp_path / "raft-small.pth"
    torch.save({"module.fnet.conv1.weight": torch.ones(2)}, path)
    assert list(convert.raft_small({path.name: path})) == ["fnet.conv1.weight"]


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
        read_tensors(tmp_path / "bad.pth")
    assert not Path("/tmp/libranet-must-not-exist").exists()


def test_a_damaged_pickle_is_refused() -> None:
    with pytest.raises(CheckpointError, match="damaged"):
        read_pickled_arrays(b"\x80\x03}q\x00(X")


def test_torch_files_must_be_flat(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(3)}, tmp_path / "good.pth")
    assert read_tensors(tmp_path / "good.pth")["weight"].sum() == 3
    torch.save({"state": {"weight": torch.ones(3)}}, tmp_path / "nested.pth")
    with pytest.raises(CheckpointError, match="flat table of tensors"):
        read_tensors(tmp_path / "nested.pth")


def test_other_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no file .*none\.pth"):
        read_tensors(tmp_path / "none.pth")
    for name in ("bad.pth", "bad.safetensors"):
        (tmp_path / name).write_bytes(b"not weights")
        with pytest.raises(CheckpointError, match=rf"{name} holds more than tensors or is damaged"):
            read_tensors(tmp_path / name)
