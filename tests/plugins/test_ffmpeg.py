"""The exported still network in FFmpeg's own filter, `dnn_processing`, with FFmpeg's ONNX backend."""

import numpy as np
import pytest
from hosts import host, run

from libranet.export.exporter import ExportOptions, export_network

pytestmark = pytest.mark.slow
HEIGHT, WIDTH, COUNT = 90, 160, 5


def test_dnn_processing_gives_what_onnxruntime_gives(tiny_model, tmp_path):
    program = host("ffmpeg", "ffmpeg")
    onnxruntime = pytest.importorskip("onnxruntime")
    export_network(tiny_model, tmp_path / "still.onnx", ExportOptions())
    session = onnxruntime.InferenceSession(tmp_path / "still.onnx")
    (given,) = session.get_inputs()  # the filter binds one input, [1, 3, H, W] in float
    assert (given.type, len(given.shape), given.shape[1]) == ("tensor(float)", 4, 3)

    hazy = np.random.default_rng(4).integers(60, 200, (COUNT, HEIGHT, WIDTH, 3), np.uint8)
    (tmp_path / "hazy.raw").write_bytes(hazy.tobytes())
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{WIDTH}x{HEIGHT}", "-i", "hazy.raw"]
    chain = "format=rgb24,dnn_processing=dnn_backend=onnx:model=still.onnx"
    run(program, "-v", "error", *source, "-vf", chain, "-f", "rawvideo", "-pix_fmt", "rgb24", "o.raw", folder=tmp_path)
    clear = np.frombuffer((tmp_path / "o.raw").read_bytes(), np.uint8).reshape(hazy.shape)
    for frame, result in zip(hazy, clear, strict=True):
        tensor = frame.astype(np.float32).transpose(2, 0, 1)[None] / 255
        expected = session.run(None, {given.name: tensor})[0][0].transpose(1, 2, 0) * 255
        assert np.abs(expected - result).max() <= 0.51
    assert np.abs(clear.astype(int) - hazy).mean() > 1
