import pytest

from clips import Clip, read_all, write_clip
from libranet.engine.options import DehazeOptions
from libranet.engine.stream import dehaze_stream
from libranet.errors import InputError
from libranet.video.camera import open_camera
from libranet.video.pixels import read_planes
from libranet.video.source import parse_source


def test_what_a_camera_is_called():
    assert parse_source("camera:0").kind == "camera"
    assert parse_source("/dev/video1").kind == "camera"


def test_no_camera():
    with pytest.raises(InputError, match="no frame comes from camera:97"):
        open_camera("camera:97")


@pytest.mark.parametrize(("height", "matrix"), [(96, 6), (720, 1)])
def test_frames_keep_their_colours(tmp_path, height, matrix):
    """OpenCV reads a file as it reads a camera: the same frames come out as FFmpeg itself decodes."""
    source = write_clip(
        tmp_path / "in.mp4", Clip(frames=3, width=160, height=height, colorspace=matrix, options=(("qp", "1"),))
    )
    direct = read_all(source)[1]
    with open_camera(f"camera:{source}") as reader:
        assert reader.pixel_format == "yuv420p"
        assert reader.tags.colorspace == matrix
        frames = [read_planes(frame.image) for frame in reader.frames()]
    assert len(frames) == 3
    for frame, planes in zip(frames, direct, strict=True):
        luma = abs(frame[0].numpy().astype(int) - planes[0].astype(int))
        assert luma.mean() < 4


def test_a_recording(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=6, width=160, height=96))
    options = DehazeOptions(live=True)
    report = dehaze_stream(f"camera:{source}", tmp_path / "out.mkv", tiny_model, options=options)
    written = len(read_all(tmp_path / "out.mkv")[0])
    assert written == report.frames
    dropped = 6 - written
    assert (f"{dropped} frames came faster" in " ".join(report.warnings)) == (dropped > 0)
