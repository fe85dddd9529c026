"""Exported files run in their runtimes and agree with PyTorch: every form, odd sizes, a clip of twelve frames."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from libranet.errors import InputError, LibraNetError
from libranet.export import exporter
from libranet.export.check import compare, import_openvino, open_onnx, open_openvino
from libranet.export.exporter import ExportOptions, export_network
from libranet.export.graphs import make_graph
from libranet.export.quantize import measure_ranges
from libranet.network import GridFilter

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

STEADY = GridFilter(0.2)
ODD = (47, 33)


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata of an exported ONNX, OpenVINO or TorchScript file."""
    if path.suffix == ".onnx":
        return {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}
    if path.suffix == ".xml":
        model = import_openvino().Core().read_model(str(path))
        return {key: model.get_rt_info(["libranet", key]).value for key in model.rt_info["libranet"]}
    extra = {"metadata.json": ""}
    torch.jit.load(str(path), _extra_files=extra)
    return json.loads(extra["metadata.json"])


def test_a_streaming_onnx_file_of_any_size_restores_a_clip_as_pytorch_does(tiny_model, tmp_path):
    options = ExportOptions(form="streaming", grid_filter=STEADY)
    report = export_network(tiny_model, tmp_path / "net.onnx", options)
    assert report.difference is not None
    assert report.difference.largest < 0.1
    _, run = open_onnx(report.path, threads=1)
    for size in (ODD, (64, 48)):
        graph = make_graph(tiny_model, "streaming", size, grid_filter=STEADY)
        assert compare(graph, tiny_model, run, "onnxruntime", frames=12).largest < 0.1
    assert "GridSample" not in report.operators
    metadata = read_metadata(report.path)
    assert metadata["form"] == "streaming"
    assert metadata["lookahead"] == "2"
    assert json.loads(metadata["config"])["window"] == tiny_model.config.window


@pytest.mark.parametrize(
    ("form", "size", "precision", "limit"),
    [("still", ODD, "fp16", 2.0), ("window", None, "fp32", 0.1), ("streaming", ODD, "fp16", 2.0)],
)
def test_onnx_files(tiny_model, tmp_path, form, size, precision, limit):
    options = ExportOptions(form=form, size=size, precision=precision, grid_filter=STEADY)
    report = export_network(tiny_model, tmp_path / "net.onnx", options)
    assert report.difference is not None
    assert report.difference.largest < limit
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]


def test_half_precision_halves_the_weights(tiny_model, tmp_path):
    import onnx

    export_network(
        tiny_model, tmp_path / "net.onnx", ExportOptions(format="tensorrt-ready", size=ODD, precision="fp16")
    )
    model = onnx.load(tmp_path / "net.onnx")
    kinds = {c.name: c.data_type for c in model.graph.initializer}
    halved = [name for name, kind in kinds.items() if kind == onnx.TensorProto.FLOAT16]
    assert sum("encoder" in name or "refiner" in name for name in halved) > 20
    assert {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)} == {
        onnx.TensorProto.FLOAT
    }


def test_an_openvino_file_restores_a_clip_as_pytorch_does(tiny_model, tmp_path):
    pytest.importorskip("openvino")
    options = ExportOptions(format="openvino", form="streaming", size=ODD, grid_filter=STEADY)
    report = export_network(tiny_model, tmp_path / "net.xml", options)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["net.bin", "net.xml"]
    _, run = open_openvino(report.path)
    graph = make_graph(tiny_model, "streaming", ODD, grid_filter=STEADY)
    assert compare(graph, tiny_model, run, "OpenVINO", frames=12).largest < 0.1
    assert read_metadata(report.path)["size"] == "47x33"


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_torchscript_file_takes_any_size(tiny_model, tmp_path, precision):
    options = ExportOptions(format="torchscript", form="streaming", precision=precision, grid_filter=STEADY)
    report = export_network(tiny_model, tmp_path / "net.pt", options)
    assert report.difference is not None
    assert report.difference.largest < 2.0
    assert read_metadata(report.path)["precision"] == precision
    assert tiny_model.dtype == torch.float32  # the network itself is left alone


@pytest.mark.parametrize("file_format", ["onnx", "openvino"])
def test_int8_files_compute_with_integers_in_the_refiner_alone(tiny_model, tmp_path, file_format):
    if file_format == "openvino":
        pytest.importorskip("openvino")
    frames = [torch.rand(1, 3, 48, 64, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    options = ExportOptions(format=file_format, precision="int8", size=(64, 48))
    path = tmp_path / ("net.onnx" if file_format == "onnx" else "net.xml")
    with torch.no_grad():  # a residual as small as a trained network's
        tiny_model.refiner.project.weight.mul_(0.1)
    report = export_network(tiny_model, path, options, calibration=frames)
    assert report.difference is not None
    assert 0.0 < report.difference.mean < 2.0
    if file_format == "onnx":
        import onnx

        model = onnx.load(path)
        convolutions = sum(isinstance(part, torch.nn.Conv2d) for part in tiny_model.refiner.modules())
        integers = [c for c in model.graph.initializer if c.data_type == onnx.TensorProto.INT8 and len(c.dims) == 4]
        assert len(integers) == convolutions
        assert {name for c in integers for name in [c.name.split("_")[0]]} == set(measure_ranges(tiny_model, frames))


def test_a_file_that_differs_is_not_written(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "LIMITS", {"fp32": (0.0, 0.0)})
    with pytest.raises(LibraNetError, match="differs from PyTorch"):
        export_network(tiny_model, tmp_path / "net.onnx", ExportOptions(size=ODD))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_stays(tiny_model, tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"mine")
    with pytest.raises(InputError, match="overwrite=True"):
        export_network(tiny_model, tmp_path / "net.onnx", ExportOptions(size=ODD))
    assert (tmp_path / "net.onnx").read_bytes() == b"mine"


def test_values_of_the_moving_clip_are_frames():
    from libranet.export.check import moving_clip

    clip = moving_clip(3, 31, 17)
    assert all(frame.shape == (1, 3, 17, 31) for frame in clip)
    assert all(float(frame.min()) >= 0.0 and float(frame.max()) <= 1.0 for frame in clip)
    assert not np.array_equal(clip[0].numpy(), clip[1].numpy())
