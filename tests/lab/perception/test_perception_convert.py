"""Conversion of the published layouts on small files of the same form, and a pickle that may not run anything."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from libranet.errors import CheckpointError
from libranet.lab.perception import convert
from libranet.lab.perception.convert import read_pickled_network


def test_brisque_reads_libsvm_text(tmp_path: Path) -> None:
    text = "svm_type epsilon_svr\nkernel_type rbf\ngamma 0.05\nrho -2.5\nSV\n-1024 1:0.5 36:-0.25 \n7.5 2:1 \n"
    (tmp_path / "svm.txt").write_text(text)
    (tmp_path / "normalize.pickle").write_bytes(pickle.dumps({"min_": [0.0] * 36, "max_": [2.0] * 36}))
    files = {name: tmp_path / name for name in ("svm.txt", "normalize.pickle")}
    state = convert.brisque_svr(files)
    assert state["vectors"].shape == (2, 36)
    assert state["vectors"][0, 35] == -0.25
    assert state["weights"].tolist() == [-1024.0, 7.5]
    assert float(state["rho"]) == -2.5
    (tmp_path / "svm.txt").write_text(text.replace("rbf", "linear"))
    with pytest.raises(CheckpointError, match="RBF"):
        convert.brisque_svr(files)


def test_niqe_reads_a_matlab_file(tmp_path: Path) -> None:
    scipy = pytest.importorskip("scipy.io")
    path = tmp_path / "niqe_image_params.mat"
    scipy.savemat(str(path), {"pop_mu": np.arange(36.0)[None], "pop_cov": np.eye(36)})
    state = convert.niqe_parameters({path.name: path})
    assert state["mean"].shape == (36,)
    assert state["covariance"].shape == (36, 36)


class _Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, bias=False)
        self.bn = torch.nn.BatchNorm2d(4, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(self.conv(x))


def test_yolo_folds_its_norms(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = torch.nn.ModuleDict({"model": torch.nn.Sequential(_Block(), torch.nn.Conv2d(4, 2, 1))}).eval()
    block = network["model"][0]
    for tensor in (block.bn.weight, block.bn.bias, block.bn.running_mean, block.bn.running_var):
        tensor.data.uniform_(0.5, 1.5)
    torch.save({"model": network}, tmp_path / "yolov8n.pt")
    state = convert.yolov8({"yolov8n.pt": tmp_path / "yolov8n.pt"})
    assert set(state) == {"model.0.weight", "model.0.bias", "model.1.weight", "model.1.bias"}
    x = torch.rand(1, 3, 8, 8)
    folded = torch.nn.functional.conv2d(x, state["model.0.weight"], state["model.0.bias"])
    torch.testing.assert_close(folded, block(x).detach(), atol=1e-5, rtol=1e-5)


class _Attack:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("/tmp/libranet-must-not-exist",)


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
