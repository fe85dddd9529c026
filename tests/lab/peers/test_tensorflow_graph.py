"""The runner of TensorFlow graphs: each operation as TensorFlow defines it, and MAXIM against TensorFlow.js."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from libranet.errors import CheckpointError, InputError
from libranet.lab.peers import open_peer
from libranet.lab.peers.tensorflow_graph import TensorflowGraph
from libranet.thirdparty import find_model, find_weights

DATA = Path(__file__).parent / "data"


def graph(nodes: list[tuple], **constants: Tensor) -> TensorflowGraph:
    """Make a graph whose last node is the output; constants are named after their nodes, n3 for number 3."""
    content = json.dumps({"nodes": nodes, "output": len(nodes) - 1}).encode()
    tensors = {f"constant.{name[1:]}": value for name, value in constants.items()}
    return TensorflowGraph(tensors | {"graph": torch.frombuffer(bytearray(content), dtype=torch.uint8)})


def value(number: float | list) -> tuple:
    kind = "float" if isinstance(number, float) else "int"
    return ("Const", [], {"value": number, "type": kind})


X = ("Placeholder", [], {})


def test_same_padding_of_an_even_size_is_at_the_end() -> None:
    kernel = torch.ones(3, 3, 1, 1)
    net = graph([X, ("Const", [], {}), ("Conv2D", [0, 1], {"strides": [1, 2, 2, 1], "padding": "SAME"})], n1=kernel)
    x = torch.zeros(1, 4, 4, 1)
    x[0, 0, 0, 0] = 1.0
    assert net(x)[0, :, :, 0].tolist() == [[1.0, 0.0], [0.0, 0.0]], "one row and column after, none before"


def test_transposed_convolution_places_the_kernel() -> None:
    kernel = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).view(2, 2, 1, 1)
    attributes = {"strides": [1, 2, 2, 1], "padding": "VALID"}
    nodes = [X, value([1, 2, 2, 1]), ("Const", [], {}), ("Conv2DBackpropInput", [1, 2, 0], attributes)]
    assert graph(nodes, n2=kernel)(torch.ones(1, 1, 1, 1))[0, :, :, 0].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_shapes_are_computed_for_every_new_size() -> None:
    """Swap rows and columns of any image by its own shape: [B, H, W, C] -> [B, W, H, C] in memory order."""
    nodes = [
        X,
        ("Shape", [0], {}),
        value([1]),
        value([2]),
        value([1]),
        ("StridedSlice", [1, 2, 3, 4], {"shrink_axis_mask": 1}),  # H
        value(3),
        ("Mul", [5, 6], {}),
        value(1),
        value(-1),
        ("Pack", [8, 7, 9, 8], {"axis": 0}),
        ("Reshape", [0, 10], {}),
    ]
    net = graph(nodes)
    for height, width in ((2, 3), (4, 6), (2, 3)):
        assert net(torch.rand(1, height, width, 1)).shape == (1, 3 * height, width // 3, 1)


def test_arithmetic_agrees_with_numpy() -> None:
    x = torch.linspace(-2, 2, 24).view(1, 2, 4, 3)
    nodes = [
        X,
        value(2.0),
        ("Mul", [0, 1], {}),
        ("Tanh", [2], {}),
        value([3]),
        ("Sum", [3, 4], {"keep_dims": False}),
        ("Square", [5], {}),
        value(1.0),
        ("AddV2", [6, 7], {}),
        ("Rsqrt", [8], {}),
        ("Neg", [9], {}),
        ("Exp", [10], {}),
        value(0.5),
        ("Greater", [11, 12], {}),
        ("SelectV2", [13, 11, 12], {}),
        value([0, 2, 1]),
        ("Transpose", [14, 15], {}),
    ]
    a = x.numpy()
    expected = np.exp(-1 / np.sqrt(np.square(np.tanh(2 * a).sum(axis=3)) + 1))
    expected = np.where(expected > 0.5, expected, np.float32(0.5)).transpose(0, 2, 1)
    np.testing.assert_allclose(graph(nodes)(x).numpy(), expected, rtol=1e-5)


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(CheckpointError, match="not known here: FusedMagic"):
        graph([X, ("FusedMagic", [0], {})])


def test_maxim_without_weights_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("libranet.thirdparty.cache.default_cache", lambda: tmp_path)
    with pytest.raises(CheckpointError, match="libranet weights pull maxim-outdoor"):
        open_peer("maxim-outdoor")
    with pytest.raises(InputError, match="comes with its makers' weights"):
        open_peer("maxim-outdoor", tmp_path / "w.safetensors")


@pytest.mark.skipif(find_weights(find_model("maxim-outdoor")) is None, reason="libranet weights pull maxim-outdoor")
def test_maxim_agrees_with_tensorflow_js() -> None:
    """A hazy pattern of our own, and what TensorFlow.js 4.22 returns for it: `research/maxim/compare.py --save`."""
    content = np.load(DATA / "maxim-outdoor-tfjs.npz")
    hazy = torch.from_numpy(content["hazy"].astype(np.float32) / 255).permute(2, 0, 1)[None, None]
    with torch.no_grad():
        restored = open_peer("maxim-outdoor").restore(hazy)[0].permute(1, 2, 0).numpy()
    assert np.abs(restored - content["restored"]).max() < 1 / 255
