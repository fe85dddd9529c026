"""`libranet export` refuses what cannot work in one sentence, and writes a file that says what it is."""

import json
import sys

import pytest

from libranet.cli.export import export
from libranet.errors import InputError, MissingDependencyError
from libranet.export.exporter import ExportOptions
from libranet.network import save_checkpoint


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"format": "caffe"}, "expected format as onnx, openvino, torchscript, coreml or tensorrt-ready, got 'caffe'"),
        ({"precision": "int4"}, "expected precision as fp32, fp16 or int8, got 'int4'"),
        ({"size": (8, 64)}, "expected a size of 16 to 8192 pixels a side, got 8x64"),
        ({"size": (20000, 64)}, "expected a size of 16 to 8192 pixels a side, got 20000x64"),
        ({"format": "coreml"}, "coreml needs one frame size: add for example --size 1920x1080"),
        ({"format": "tensorrt-ready"}, "tensorrt-ready needs one frame size"),
        ({"format": "torchscript", "size": (64, 64)}, "a torchscript file takes frames of any size"),
        ({"format": "torchscript", "precision": "int8"}, "int8 is for onnx and openvino, got torchscript"),
        ({"lookahead": 1}, "a look-ahead belongs to the streaming form"),
    ],
)
def test_options_that_cannot_work(options, sentence):
    with pytest.raises(InputError) as caught:
        ExportOptions(**options)
    assert sentence in caught.value.sentence


def test_the_output_is_refused_before_any_work(tmp_path):
    with pytest.raises(InputError, match=r"onnx files end in \.onnx, got net\.xml"):
        export(tmp_path / "net.xml")
    with pytest.raises(InputError, match="there is no folder"):
        export(tmp_path / "missing" / "net.onnx")
    with pytest.raises(InputError, match="two forms"):
        export(tmp_path / "net.onnx", streaming=True, window=True)
    with pytest.raises(InputError, match="calibration images are for int8"):
        export(tmp_path / "net.onnx", calibration=[tmp_path / "a.png"])


def test_a_missing_package_is_one_sentence(tiny_model, tmp_path, monkeypatch):
    save_checkpoint(tiny_model, tmp_path / "tiny.safetensors")
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingDependencyError, match=r"OpenVINO is not installed: pip install .*'openvino>"):
        export(tmp_path / "net.xml", file_format="openvino", model=tmp_path / "tiny.safetensors", size="47x33")
    assert not (tmp_path / "net.xml").exists()


def test_the_command_prints_what_it_wrote(tiny_model, tmp_path, capsys, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tiny_model, tmp_path / "tiny.safetensors")
    export(model=tmp_path / "tiny.safetensors", size="47x33", as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert (tmp_path / "libranet-still-47x33-fp32.onnx").is_file()
    assert report["inputs"] == {"frame": [1, 3, 33, 47]}
    assert report["difference"]["largest"] < 1.0
    export(model=tmp_path / "tiny.safetensors", size="47x33", overwrite=True)
    assert "against PyTorch" in capsys.readouterr().out
