"""Writing the static site, without a browser."""

import re

import numpy as np
import onnx
import pytest
import torch

from libranet.errors import CheckpointError, InputError
from libranet.export.check import compare, open_onnx
from libranet.export.graphs import make_graph
from libranet.export.onnx_file import write_onnx
from libranet.network import LiBrANet
from libranet.page import ASSETS, read_asset
from libranet.web import site
from libranet.web.site import default_models, write_site
from libranet.web.small_weights import store_weights_small
from tiny_network import TINY, perturb


def test_small_weights_are_small_and_close(tmp_path):
    torch.manual_seed(0)
    network = perturb(LiBrANet(TINY))
    graph = make_graph(network, "streaming", None, lookahead=0)
    path = tmp_path / "net.onnx"
    write_onnx(graph, path, metadata={})
    before = path.stat().st_size
    store_weights_small(path)
    assert path.stat().st_size < before
    kinds = {onnx.numpy_helper.to_array(c).dtype for c in onnx.load(path).graph.initializer}
    assert np.dtype(np.int8) in kinds
    _, run = open_onnx(path)
    difference = compare(graph, network, run, "onnxruntime", frames=3)
    assert 0 < difference.largest < 2


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="other files"):
        write_site(tmp_path, ["base"], overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        write_site(tmp_path / "notes.txt", ["base"])
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_small_is_the_default_where_the_package_has_it(tmp_path, monkeypatch):
    assert default_models() == ["small", "base"]
    monkeypatch.setattr(site, "packaged_weights", lambda name: tmp_path / name)
    (tmp_path / "base").touch()
    assert default_models() == ["base"]
    (tmp_path / "base").unlink()
    with pytest.raises(CheckpointError, match="give model the path"):
        default_models()


@pytest.mark.parametrize(
    "name",
    [
        "index.html",
        "engine-server.js",
        "engine-browser.js",
        "network-worker.js",
        *(name for name in ASSETS if "jpg" not in name),
    ],
)
def test_the_page_names_no_other_host(name):
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", read_asset(name))
    assert [address for address in addresses if "www.w3.org" not in address] == []
