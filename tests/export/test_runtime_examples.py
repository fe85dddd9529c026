"""The examples for other runtimes run as they stand, without LiBrA-Net, on files that `export` wrote."""

import subprocess
import sys
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import torch
from other_runtimes import EXAMPLES, compile_example, run_program, run_vapoursynth

from clips import Clip, write_clip
from libranet.export.check import moving_clip, restore_by_network
from libranet.export.exporter import ExportOptions, export_network
from libranet.export.graphs import make_graph
from libranet.network import GridFilter, start_stream, stream_step

pytest.importorskip("onnxruntime")


def run_example(name: str, *arguments: Path) -> None:
    subprocess.run([sys.executable, str(EXAMPLES / name), *map(str, arguments)], check=True, timeout=120)


def read_rgb(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as video:
        return [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]


def test_onnxruntime_restores_a_video(tiny_model, tmp_path):
    write_clip(tmp_path / "foggy.mkv", Clip(frames=5, width=64, height=48))
    options = ExportOptions(form="streaming", grid_filter=GridFilter(0.2))
    export_network(tiny_model, tmp_path / "net.onnx", options)
    run_example("onnxruntime_stream.py", tmp_path / "net.onnx", tmp_path / "foggy.mkv", tmp_path / "clear.mkv")
    hazy, clear = read_rgb(tmp_path / "foggy.mkv"), read_rgb(tmp_path / "clear.mkv")
    state, expected = start_stream(tiny_model, grid_filter=options.grid_filter), []
    for frame in [*hazy, None, None]:
        given = None if frame is None else torch.from_numpy(frame).permute(2, 0, 1)[None] / 255
        image, state = stream_step(tiny_model, given, state)
        expected += [] if image is None else [image[0].permute(1, 2, 0).numpy() * 255]
    assert len(clear) == len(expected) == 5
    with av.open(str(tmp_path / "expected.mkv"), "w") as video:  # the example encodes with loss
        stream = video.add_stream("libx264", rate=25, width=64, height=48)
        for image in expected:
            video.mux(stream.encode(av.VideoFrame.from_ndarray(image.round().astype(np.uint8), format="rgb24")))
        video.mux(stream.encode(None))
    for found, wanted, before in zip(clear, read_rgb(tmp_path / "expected.mkv"), hazy, strict=True):
        distance, unchanged = (np.abs(image.astype(float) - wanted).mean() for image in (found, before))
        assert distance < 0.25 * unchanged


def test_openvino_restores_an_image(tiny_model, tmp_path):
    pytest.importorskip("openvino")
    export_network(tiny_model, tmp_path / "net.xml", ExportOptions(format="openvino"))
    hazy = np.random.default_rng(0).integers(60, 220, (33, 47, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "hazy.png"), hazy)
    run_example("openvino_image.py", tmp_path / "net.xml", tmp_path / "hazy.png", tmp_path / "clear.png")
    frame = torch.from_numpy(hazy[..., ::-1].copy()).permute(2, 0, 1)[None, None] / 255
    with torch.no_grad():
        expected = tiny_model(frame, still=True)[0].permute(1, 2, 0).numpy()[..., ::-1] * 255
    assert np.abs(cv2.imread(str(tmp_path / "clear.png")).astype(float) - expected).max() <= 1.0


def test_a_cpp_program_restores_frames(tiny_model, tmp_path):
    program = compile_example("onnxruntime_frames.cpp", tmp_path)
    export_network(tiny_model, tmp_path / "net.onnx", ExportOptions(size=(47, 33)))
    clip = torch.rand(12, 3, 33, 47, generator=torch.Generator().manual_seed(0))
    clear = run_program([str(program), str(tmp_path / "net.onnx"), "47", "33"], clip)
    with torch.no_grad():
        expected = tiny_model(clip[:, None], still=True)
    assert (clear - expected).abs().max() <= 1 / 255
    assert (clear - clip).abs().mean() > 2 / 255


@pytest.mark.parametrize(
    ("precision", "limit"), [("fp32", 1 / 255), pytest.param("fp16", 2 / 255, marks=pytest.mark.slow)]
)
def test_a_cpp_program_restores_a_stream(tiny_model, tmp_path, precision, limit):
    program = compile_example("onnxruntime_stream.cpp", tmp_path)
    filter_ = GridFilter(0.2)
    options = ExportOptions(size=(47, 33), form="streaming", precision=precision, grid_filter=filter_)
    export_network(tiny_model, tmp_path / "net.onnx", options)
    clip = torch.cat(moving_clip(12, 47, 33))
    clear = run_program([str(program), str(tmp_path / "net.onnx")], clip)
    state, expected = start_stream(tiny_model, grid_filter=filter_), []
    for frame in [*clip.split(1), None, None]:
        image, state = stream_step(tiny_model, frame, state)
        expected += [] if image is None else [image]
    assert (clear - torch.cat(expected)).abs().max() <= limit
    assert (clear - clip).abs().mean() > 2 / 255


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "limit"), [("fp32", 1 / 255), ("fp16", 2 / 255)])
def test_vapoursynth_restores_a_clip(tiny_model, tmp_path, vapoursynth_python, precision, limit):
    export_network(tiny_model, tmp_path / "net.onnx", ExportOptions(form="window", precision=precision))
    clip = moving_clip(12, 47, 33)
    found = run_vapoursynth(vapoursynth_python, tmp_path / "net.onnx", torch.cat(clip))
    expected = torch.cat(list(restore_by_network(make_graph(tiny_model, "window", None), tiny_model, clip)))
    assert found.shape == expected.shape == (12, 3, 33, 47)
    assert (found - expected).abs().max() <= limit
    assert (found - torch.cat(clip)).abs().mean() > 2 / 255
