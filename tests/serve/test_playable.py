"""Copies that browsers play, networks by name, and what a failed copy leaves."""

import av
import numpy as np
import pytest

from clips import Clip, write_clip
from libranet.errors import InputError
from libranet.network import load_model
from libranet.serve import worker
from libranet.serve.playable import write_copy
from libranet.serve.protocol import chosen_network
from libranet.serve.schemas import RunSettings


def read(path):
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        frames = list(file.decode(stream))
        return stream.codec_context.name, stream.codec_context.pix_fmt, frames


def test_a_copy_is_upright_and_keeps_its_times(tmp_path):
    clip = Clip(codec="libx265", pixel_format="yuv420p10le", frames=6, rotation=90, variable=True)
    source, copy = write_clip(tmp_path / "in.mp4", clip), tmp_path / "copy.mp4"
    calls = []
    write_copy(source, copy, show=lambda: calls.append(1))
    _, _, given = read(source)
    codec, pixels, made = read(copy)
    assert (codec, pixels, len(made), len(calls)) == ("h264", "yuv420p", 6, 6)
    assert (given[0].width, given[0].height, made[0].width, made[0].height) == (64, 48, 48, 64)
    assert [frame.time for frame in made] == pytest.approx([frame.time for frame in given], abs=1e-3)
    upright = np.rot90(given[0].to_ndarray(format="rgb24"), round(given[0].rotation / 90)).astype(int)
    found = made[0].to_ndarray(format="rgb24").astype(int)
    assert np.abs(found - upright).mean() < 12 < np.abs(found - upright[::-1, ::-1]).mean()


@pytest.mark.parametrize("fails", [False, True])
def test_a_failed_copy_leaves_the_result(tmp_path, tiny_checkpoint, monkeypatch, fails):
    def fail(source, output, *, show):
        output.write_bytes(b"half")
        raise av.error.InvalidDataError(1, "no")

    if fails:
        monkeypatch.setattr(worker, "write_copy", fail)
    source, result = write_clip(tmp_path / "in.mp4", Clip(frames=3)), tmp_path / "result.mp4"
    settings = RunSettings(playable=True).model_dump()
    job = {"source": str(source), "result": str(result), "kind": "video", "interlaced": False, "name": "in.mp4"}
    networks = {"best": load_model(tiny_checkpoint)}
    answer = worker.run_job(networks, lambda message: None, job | {"settings": settings, "most_frames": 9})
    assert answer["report"]["copied"] is not fails
    assert len(read(result)[2]) == 3
    copies = sorted(path.name for path in tmp_path.glob("result-*"))
    assert copies == ([] if fails else ["result-after.mp4", "result-before.mp4"])


def test_networks_go_by_what_visitors_call_them(tiny_model):
    assert chosen_network({"best": tiny_model}, {}) is tiny_model
    with pytest.raises(InputError, match="this server has no fast network: choose best"):
        chosen_network({"best": tiny_model}, {"model": "fast"})
