"""The networks of the package in four runtimes: a clip of twelve frames of an odd size, each frame as PyTorch's."""

from pathlib import Path

import pytest
import torch
from other_runtimes import compile_example, run_program, run_vapoursynth

from libranet.export.check import (
    moving_clip,
    open_onnx,
    open_openvino,
    restore_by_file,
    restore_by_network,
)
from libranet.export.exporter import ExportOptions, export_network
from libranet.export.graphs import Graph, make_graph
from libranet.network import GridFilter, LiBrANet, load_model

for package in ("onnx", "onnxruntime", "openvino"):
    pytest.importorskip(package)

LIMITS = {"fp32": 1.0, "fp16": 2.0}
"""The largest accepted difference of a sample, in steps of 1/255."""
STEADY = GridFilter()
WIDTH, HEIGHT = 317, 179

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["base", "small"])
def network(request) -> LiBrANet:
    return load_model(request.param)


@pytest.fixture(params=["fp32", "fp16"])
def precision(request) -> str:
    return request.param


def write(network: LiBrANet, path: Path, file_format: str, form: str, precision: str) -> Graph:
    size = (WIDTH, HEIGHT)
    options = ExportOptions(format=file_format, form=form, size=size, precision=precision, grid_filter=STEADY)
    export_network(network, path, options)
    return make_graph(network, form, size, grid_filter=STEADY)


def check(found: torch.Tensor, graph: Graph, clip: list[torch.Tensor], precision: str) -> None:
    expected = torch.cat(list(restore_by_network(graph, graph.network, clip)))
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) * 255 <= LIMITS[precision]
    assert float((expected - torch.cat(clip)).abs().mean()) * 255 > 4.0


def test_the_streaming_form_in_onnxruntime_and_in_cpp(network, precision, tmp_path):
    clip = moving_clip(12, WIDTH, HEIGHT)
    graph = write(network, tmp_path / "net.onnx", "onnx", "streaming", precision)
    _, run = open_onnx(tmp_path / "net.onnx")
    check(torch.cat(list(restore_by_file(graph, run, clip))), graph, clip, precision)
    program = compile_example("onnxruntime_stream.cpp", tmp_path)
    check(run_program([str(program), str(tmp_path / "net.onnx")], torch.cat(clip)), graph, clip, precision)


def test_the_streaming_form_in_openvino(network, precision, tmp_path):
    clip = moving_clip(12, WIDTH, HEIGHT)
    graph = write(network, tmp_path / "net.xml", "openvino", "streaming", precision)
    _, run = open_openvino(tmp_path / "net.xml")
    check(torch.cat(list(restore_by_file(graph, run, clip))), graph, clip, precision)


def test_the_window_form_in_vapoursynth(network, precision, tmp_path, vapoursynth_python):
    clip = moving_clip(12, WIDTH, HEIGHT)
    graph = write(network, tmp_path / "net.onnx", "onnx", "window", precision)
    check(run_vapoursynth(vapoursynth_python, tmp_path / "net.onnx", torch.cat(clip)), graph, clip, precision)
