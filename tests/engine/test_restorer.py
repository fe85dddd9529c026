"""From a decoded frame to the frame to be encoded."""

import pytest
import torch

from clips import Clip, write_clip
from libranet.engine import DehazeOptions
from libranet.engine.video import make_restorer
from libranet.video.pixels import read_planes
from libranet.video.reader import open_video


def restore(path, model, *, reuse: bool) -> tuple[list[list[torch.Tensor]], int]:
    """The planes of all restored frames, and in how many arrays the network saw them."""
    with open_video(path) as reader:
        restorer = make_restorer(reader, model, DehazeOptions())
        done, arrays = [], []  # arrays are kept, so that no address comes back by chance
        for index, frame in enumerate(reader.frames()):
            done += map(restorer.pack, restorer.push(frame, cut=index == 7))
            if not reuse:
                restorer._spare.clear()
                restorer._free.clear()
            arrays += [seen.rgb for seen in (*(seen for _, seen in restorer._waiting), *restorer._spare)]
        done += map(restorer.pack, restorer.flush())
    return [read_planes(frame.image) for frame in done], len({array.data_ptr() for array in arrays})


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p10le", "gray"])
def test_waiting_frames_lie_in_arrays_used_again(tmp_path, tiny_model, pixel_format):
    """As many arrays as frames that wait at most, and the same frames as with new arrays."""
    path = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", pixel_format=pixel_format, frames=12))
    once, many = restore(path, tiny_model, reuse=False)
    again, few = restore(path, tiny_model, reuse=True)
    assert few == tiny_model.config.window // 2 + 1 < many
    assert len(again) == 12
    for a, b in zip(once, again, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


def test_finished_frames_wait_in_arrays_of_their_own(tmp_path, tiny_model):
    """Packed late, as by a slow encoder, they are the same as packed at once."""
    path = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=12))
    with open_video(path) as reader:
        restorer = make_restorer(reader, tiny_model, DehazeOptions())
        waiting = []
        for index, frame in enumerate(reader.frames()):
            waiting += restorer.push(frame, cut=index == 7)
        waiting += restorer.flush()
        assert len({finished.planes[0].data_ptr() for finished in waiting}) == 12
        late = [read_planes(restorer.pack(finished).image) for finished in waiting]
    at_once, _ = restore(path, tiny_model, reuse=True)
    for a, b in zip(late, at_once, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))
