"""Files decoded in a GPU, which is not here: what is asked of FFmpeg, and what is said where it cannot."""

from pathlib import Path

import av
import numpy as np
import pytest
import torch

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, Dehazer, dehaze_video
from libranet.errors import InputError
from libranet.network import LiBrANet
from libranet.video import pyav, reader
from libranet.video.gpu_frames import own_planes, read_gpu_frames
from libranet.video.pixels import plane_views
from libranet.video.reader import open_video


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "in.mp4", Clip(frames=4, width=64, height=48))


def samples(path: Path, decoder: str) -> tuple[list[bytes], list[str]]:
    with open_video(path, decoder=decoder) as video:
        planes = [b"".join(view.tobytes() for view in plane_views(frame.image)) for frame in video.frames()]
        return planes, video.notes


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_the_cpu_decodes_and_says_so(source: Path, tmp_path: Path, tiny_model: LiBrANet) -> None:
    want, nothing = samples(source, "cpu")
    got, notes = samples(source, "cuda")
    assert got == want
    assert nothing == []
    (note,) = notes
    assert note.startswith(f"the GPU cannot decode {source} (")
    assert note.endswith("): the CPU does")
    report = dehaze_video(source, tmp_path / "out.mp4", model=tiny_model, options=DehazeOptions(decoder="cuda"))
    assert note in report.warnings


@pytest.mark.parametrize("taken", [True, False])
def test_a_codec_that_the_gpu_does_not_take_is_named(
    source: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    asked = []

    def accelerator(*arguments: str, **options: bool) -> None:
        asked.append((arguments, options))

    monkeypatch.setattr(pyav, "HWAccel", accelerator)  # FFmpeg then gets none, and decodes by itself
    monkeypatch.setattr(reader, "decodes_on_gpu", lambda _: taken)
    planes, notes = samples(source, "cuda")
    assert len(planes) == 4
    assert asked == [(("cuda",), {"allow_software_fallback": True, "is_hw_owned": False})]
    said = [] if taken else [f"the GPU cannot decode {source} (it does not take h264 as yuv420p): the CPU does"]
    assert notes == said


def test_the_formats_of_its_frames_hold_the_same_samples(source: Path) -> None:
    """NVDEC gives interleaved chroma."""
    from libranet.video.pixels import to_planar

    with av.open(str(source)) as container:
        frame = next(container.decode(video=0))
    for name in ("nv12", "p010le"):
        wide = frame.reformat(format="yuv420p10le") if name == "p010le" else frame
        back = to_planar(wide.reformat(format=name))
        assert all(np.array_equal(a, b) for a, b in zip(plane_views(back), plane_views(wide), strict=True))


@pytest.mark.parametrize("name", ["nv12", "p010le"])
def test_planes_of_a_decoders_frame_are_the_same_samples(source: Path, name: str) -> None:
    """On a CPU, where DLPack shows the same shapes and strides."""
    with av.open(str(source)) as container:
        stream = container.streams.video[0]
        frame = next(container.decode(stream))
        planar = frame.reformat(format="yuv420p10le") if name == "p010le" else frame
        found = own_planes(planar.reformat(format=name), stream)
    assert found.format.layout.name == planar.format.name
    for plane, want in zip(found.planes, plane_views(planar), strict=True):
        assert np.array_equal(plane[0].numpy(), want)


def test_what_no_gpu_can_decode_is_an_error(source: Path) -> None:
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="the GPU cannot decode"):
            next(read_gpu_frames(source))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["yuv420p", "yuv420p10le"])
def test_frames_stay_on_the_gpu_and_are_restored_there(tmp_path: Path, name: str) -> None:
    codec = "libx265" if name == "yuv420p10le" else "libx264"  # NVDEC takes no H.264 of 10 bit
    source = write_clip(tmp_path / "in.mp4", Clip(frames=8, width=256, height=192, pixel_format=name, codec=codec))
    with open_video(source) as video:
        want = [[view.copy() for view in plane_views(frame.image)] for frame in video.frames()]
    try:
        found = list(read_gpu_frames(source))
    except InputError as error:
        pytest.skip(str(error))  # a machine without the decoder's driver
    for frame, planes in zip(found, want, strict=True):
        for plane, expected in zip(frame.planes, planes, strict=True):
            assert plane.is_cuda
            assert np.array_equal(plane[0].cpu().numpy(), expected)
    with Dehazer(device="cuda") as dehazer:
        restored = list(dehazer.restore(found))
    assert len(restored) == 8
    assert all(plane.is_cuda for frame in restored for plane in frame.planes)


def test_an_unknown_decoder_is_refused() -> None:
    with pytest.raises(InputError, match="expected decoder as cpu or cuda, got 'fpga'"):
        DehazeOptions(decoder="fpga")


@pytest.mark.gpu
def test_a_gpu_decodes_the_same_samples(tmp_path: Path) -> None:
    source = write_clip(tmp_path / "in.mp4", Clip(frames=8, width=256, height=192))
    want, _ = samples(source, "cpu")
    got, notes = samples(source, "cuda")
    assert got == want
    if notes:
        pytest.skip(notes[0])  # a machine without the decoder's driver


@pytest.mark.gpu
def test_a_gpu_at_work_decodes_too(tmp_path: Path) -> None:
    source = write_clip(tmp_path / "in.mp4", Clip(frames=8, width=256, height=192))
    torch.zeros(1, device="cuda")
    want, _ = samples(source, "cpu")
    for frames, planes in zip(read_gpu_frames(source), want, strict=True):
        assert b"".join(plane.cpu().numpy().tobytes() for plane in frames.planes) == planes
