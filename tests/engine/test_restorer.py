"""From a decoded frame to the frame to be encoded."""

import torch

from clips import Clip, write_clip
from libranet.engine import DehazeOptions
from libranet.engine.restorer import FrameRestorer
from libranet.video.pixels import read_planes
from libranet.video.reader import open_video


def restore(path, model) -> list[list[torch.Tensor]]:
    """The planes of all restored frames, packed at once."""
    with open_video(path) as reader:
        restorer = FrameRestorer(reader, model, DehazeOptions())
        done = []
        for index, frame in enumerate(reader.frames()):
            done += map(restorer.pack, restorer.push(restorer.stage(frame), cut=index == 7))
        done += map(restorer.pack, restorer.flush())
    return [read_planes(frame.image) for frame in done]


def test_finished_frames_wait_in_arrays_of_their_own(tmp_path, tiny_model):
    """Packed late, as by a slow encoder, they are the same as packed at once."""
    path = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=12))
    with open_video(path) as reader:
        restorer = FrameRestorer(reader, tiny_model, DehazeOptions())
        waiting = []
        for index, frame in enumerate(reader.frames()):
            waiting += restorer.push(restorer.stage(frame), cut=index == 7)
        waiting += restorer.flush()
        assert len({finished.planes[0].data_ptr() for finished in waiting}) == 12
        late = [read_planes(restorer.pack(finished).image) for finished in waiting]
    for a, b in zip(late, restore(path, tiny_model), strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))
