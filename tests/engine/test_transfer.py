"""Frames to a GPU and back: the turns of the buffers with stand-ins for CUDA, real copies on a GPU."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from libranet.engine.dehazer import Dehazer
from libranet.engine.transfer import DEVICE_SLOTS, Download, Upload
from libranet.frames import FrameFormat, PixelLayout

YUV10 = FrameFormat(18, 16, PixelLayout("yuv420p10le", "yuv", 10, 2, 2, alpha=False))


class Stream:
    """Everything happens at once."""

    def __init__(self, *_: object) -> None: ...

    def wait_event(self, _: object) -> None: ...

    def wait_stream(self, _: object) -> None: ...


class Event:
    def __init__(self) -> None:
        self.recorded = 0

    def record(self, *_: object) -> None:
        self.recorded += 1

    def synchronize(self) -> None: ...


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """The CPU in the place of a GPU."""
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: Stream())
    monkeypatch.setattr(torch.cuda, "stream", lambda *_: nullcontext())
    empty = FrameFormat.empty
    monkeypatch.setattr(FrameFormat, "empty", lambda self, count, **_: empty(self, count))
    return torch.device("cpu")


def planes_of(value: int) -> list[torch.Tensor]:
    return [torch.full(shape[1:], value, dtype=torch.int32).to(torch.uint16) for shape in YUV10.plane_shapes(1)]


@pytest.mark.parametrize("one_thread", [False, True])
def test_frames_arrive_in_order(cuda: torch.device, one_thread: bool) -> None:
    upload = Upload(YUV10, cuda, slots=3, one_thread=one_thread)
    for start in range(0, 12, 2):  # two are staged before the first is sent
        slots = [upload.fill(planes_of(start + ahead)) for ahead in range(2)]
        for ahead, slot in enumerate(slots):
            assert all(int(plane.int().max()) == start + ahead for plane in upload.send(slot))
            upload.release()
    places = {plane.data_ptr() for array in upload._arrays for plane in array}
    assert len(places) == 3 * DEVICE_SLOTS


def test_memory_is_used_again_once_it_is_free(cuda: torch.device) -> None:
    download = Download(cuda, YUV10, ahead=2)
    source = planes_of(0)
    waiting, places = [], set()
    for value in range(10):
        for plane in source:
            plane.copy_(torch.full(plane.shape, value))  # the caller overwrites its frame
        waiting.append((value, *download.begin(source)))
        if len(waiting) == 3:
            expected, pinned, arrived = waiting.pop(0)
            assert arrived.recorded == 1
            assert all(int(plane.int().max()) == expected for plane in pinned)
            places.add(pinned[0].data_ptr())
            download.free(pinned)
    assert len(places) <= 3


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_a_dehazer_gives_the_same_for_arrays_and_for_tensors_on_the_gpu(dtype: type) -> None:
    generator = np.random.default_rng(0)
    peak = 1 if dtype == np.float32 else np.iinfo(dtype).max
    clip = [(generator.uniform(0.3, 0.7, (96, 128, 3)) * peak).astype(dtype) for _ in range(6)]
    arrays, tensors, zero = Dehazer(), Dehazer(), Dehazer(strength=0.0)
    buffer, out = np.empty_like(clip[0]), []
    for frame in clip:
        buffer[...] = frame
        out += arrays.push(buffer)
        buffer[...] = 0
    out += arrays.flush()
    on_gpu = tensors.push_many([torch.from_numpy(f).permute(2, 0, 1).cuda() for f in clip]) + tensors.flush()
    same = zero.push_many(clip) + zero.flush()
    for array, tensor, unchanged, frame in zip(out, on_gpu, same, clip, strict=True):
        assert tensor.is_cuda
        back = tensor.permute(1, 2, 0).cpu().numpy()
        assert np.abs(array.astype(np.float64) - back.astype(np.float64)).max() <= peak * 1.01 / 255
        assert not np.array_equal(array, frame)
        assert np.array_equal(unchanged, frame)


@pytest.mark.gpu
def test_tensors_wait_for_nothing() -> None:
    """After the first frames, a push of a CUDA tensor only puts work in the queue."""
    dehazer = Dehazer(live=True)
    frame = torch.randint(0, 256, (3, 1080, 1920), dtype=torch.uint8, device="cuda")
    for _ in range(3):
        dehazer.push(frame)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):
            dehazer.push(frame)
    finally:
        torch.cuda.set_sync_debug_mode("default")
