"""The rewritten track entry: what was missing is there, and nothing else has moved."""

from fractions import Fraction

import av
import pytest

from clips import Clip, read_all, same_frames, write_clip
from libranet.video.matroska_finish import MatroskaFinish
from libranet.video.reader import open_video
from libranet.video.tags import MasteringDisplay, VideoTags

F = Fraction
DISPLAY = MasteringDisplay(
    red=(F(17, 25), F(8, 25)),
    green=(F(53, 200), F(69, 100)),
    blue=(F(3, 20), F(3, 50)),
    white=(F(3127, 10000), F(329, 1000)),
    least=F(1, 10000),
    greatest=F(1000),
)


def write_with_filler(path, title: str):
    """A file whose video track has the long title that `MatroskaFinish` expects."""
    write_clip(path, Clip(codec="ffv1", frames=4, audio=("flac",), chapters=2))
    target = path.with_name(f"filled{path.suffix}")
    with av.open(str(path)) as source, av.open(str(target), "w") as output:
        video = output.add_stream_from_template(source.streams.video[0], opaque=True)
        video.metadata["title"] = title + MatroskaFinish(VideoTags(), title, 0, ()).video_filler
        sound = output.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = video if packet.stream.type == "video" else sound
                output.mux(packet)
    return target


def finish(path, tags: VideoTags, title: str) -> None:
    with path.open("r+b") as file:
        MatroskaFinish(tags, title, 0, ()).write(file, {})


@pytest.mark.parametrize("title", ["", "the pass at dawn"])
@pytest.mark.parametrize("aspect", [None, Fraction(4, 3), Fraction(40, 33), Fraction(1, 2)])
def test_shape_and_mastering_display_are_written(tmp_path, title, aspect):
    path = write_with_filler(tmp_path / "in.mkv", title)
    before, size = read_all(path), path.stat().st_size
    finish(path, VideoTags(sample_aspect_ratio=aspect, mastering=DISPLAY, light_level=(1000, 400)), title)
    assert path.stat().st_size == size
    times, frames = read_all(path)
    assert times == before[0]
    assert same_frames(frames, before[1])
    with open_video(path) as reader:
        assert reader.tags.sample_aspect_ratio == (aspect or reader.tags.sample_aspect_ratio)
        assert reader.tags.mastering == DISPLAY
        assert reader.tags.light_level == (1000, 400)
        assert reader.stream is not None
        assert reader.stream.metadata.get("title", "") == title


def test_a_title_that_is_not_utf8_keeps_its_bytes(tmp_path):
    """PyAV 19 reads such metadata as surrogates."""
    path = write_with_filler(tmp_path / "in.mkv", "")
    finish(path, VideoTags(sample_aspect_ratio=Fraction(4, 3)), b"fog \xff\xfe".decode(errors="surrogateescape"))
    assert b"fog \xff\xfe" in path.read_bytes()
