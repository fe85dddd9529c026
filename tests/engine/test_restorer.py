"""From a decoded frame to the frame to be encoded."""

import pytest
import torch

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, quiet_change, read_ahead
from libranet.engine.restorer import FrameRestorer
from libranet.kernels.native.library import level
from libranet.network import LiBrANet
from libranet.runtime.cpu.backend import CpuBackend
from libranet.video.pixels import read_planes
from libranet.video.reader import open_video
from tiny_network import SMALLEST, perturb


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


@pytest.mark.skipif(level() is None, reason="the CPU kernels were not built")
def test_torch_has_one_thread_wherever_frames_pass_the_kernels(tmp_path, monkeypatch):
    """Its other threads would spin between its operations, for the core that the kernels and the codecs want."""
    path = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=3))
    threads = {}

    def watch(owner, name) -> None:
        work = getattr(owner, name)

        def watched(*given, **settings):
            threads[name] = torch.get_num_threads()
            return work(*given, **settings)

        monkeypatch.setattr(owner, name, watched)

    watch(read_ahead.SmallFrames, "reduce")
    watch(read_ahead.ReadAhead, "next")
    watch(CpuBackend, "push")
    watch(quiet_change.QuietChange, "apply")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with open_video(path) as reader, open_video(path) as again:
            model, options = perturb(LiBrANet(SMALLEST)), DehazeOptions(backend="cpu-fp32")
            restorer = FrameRestorer(reader, model, options, read_again=lambda first: again.frames())
            for frame in reader.frames():
                restorer.push(restorer.stage(frame))
            restorer.flush()
        assert threads == {"reduce": 1, "next": 1, "push": 1, "apply": 1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
