"""The examples for other runtimes run as they stand, without LiBrA-Net, on files that `export` wrote."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import torch

from clips import Clip, write_clip
from libranet.export.exporter import export_network
from libranet.export.options import ExportOptions
from libranet.models import GridFilter, start_stream, stream_step

pytest.importorskip("onnxruntime")
EXAMPLES = Path(__file__).parents[2] / "examples" / "runtimes"


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


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_a_cpp_program_restores_frames(tiny_model, tmp_path):
    """The example is compiled with the header beside this test, and linked to the library of the Python package."""
    import onnxruntime

    libraries = sorted((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))
    if not libraries:
        pytest.skip("this build of onnxruntime has no library of its own")
    program = tmp_path / "dehaze"
    command = ["g++", "-std=c++17", "-Wall", "-Werror", str(EXAMPLES / "onnxruntime_frames.cpp")]
    command += ["-I", str(Path(__file__).with_name("cpp")), str(libraries[0]), "-o", str(program)]
    subprocess.run([*command, f"-Wl,-rpath,{tmp_path}"], check=True, timeout=120)
    (tmp_path / "libonnxruntime.so.1").symlink_to(libraries[0])  # the name that programs ask for
    export_network(tiny_model, tmp_path / "net.onnx", ExportOptions(size=(47, 33)))
    clip = torch.rand(12, 3, 33, 47, generator=torch.Generator().manual_seed(0))
    done = subprocess.run(
        [str(program), str(tmp_path / "net.onnx"), "47", "33"],
        input=clip.numpy().tobytes(),
        capture_output=True,
        check=True,
        timeout=120,
    )
    clear = torch.from_numpy(np.frombuffer(done.stdout, np.float32).reshape(12, 3, 33, 47).copy())
    with torch.no_grad():
        expected = tiny_model(clip[:, None], still=True)
    assert (clear - expected).abs().max() <= 1 / 255
    assert (clear - clip).abs().mean() > 2 / 255


@pytest.mark.slow
def test_vapoursynth_restores_a_clip(tiny_model, tmp_path):
    """Needs Python 3.12 or later with vapoursynth and vapoursynth-mlrt-ort; the interpreter that runs this, or none."""
    pytest.importorskip("vapoursynth")
    import vapoursynth as vs

    if not hasattr(vs.core, "ort"):
        pytest.skip("vapoursynth-mlrt-ort is not installed")
    from libranet.export.check import moving_clip, restore_by_network
    from libranet.export.graphs import make_graph

    export_network(tiny_model, tmp_path / "net.onnx", ExportOptions(form="window"))
    clip = moving_clip(12, 47, 33)
    blank = vs.core.std.BlankClip(width=47, height=33, format=vs.RGBS, length=12)

    def fill(n: int, f: "vs.VideoFrame") -> "vs.VideoFrame":
        frame = f.copy()
        for plane in range(3):
            np.asarray(frame[plane])[:] = clip[n][0, plane].numpy()
        return frame

    dehaze = runpy.run_path(str(EXAMPLES / "vapoursynth_clip.py"))["dehaze"]
    clear = dehaze(vs.core.std.ModifyFrame(blank, blank, fill), str(tmp_path / "net.onnx"))
    found = [np.stack([np.asarray(frame[plane]) for plane in range(3)]) for frame in clear.frames()]
    expected = restore_by_network(make_graph(tiny_model, "window", None), tiny_model, clip)
    for ours, wanted in zip(found, expected, strict=True):
        assert np.abs(ours - wanted[0].numpy()).max() <= 1 / 255
