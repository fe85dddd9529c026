"""What a container does not keep besides streams: found by a trial file, not by a table."""

from fractions import Fraction

import av
import pytest

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.video import plan_video

MS = Fraction(1, 1000)
TAGS = (("title", "Fog"), ("artist", "Someone"), ("mood", "grey"))


@pytest.mark.parametrize(
    ("suffix", "clip", "expected"),
    [
        (".ts", Clip(metadata=TAGS, time_base=MS), ["these tags"]),
        (".avi", Clip(metadata=TAGS, time_base=MS), ["MOOD"]),
        (".mp4", Clip(metadata=TAGS, time_base=MS), []),
        (".mkv", Clip(metadata=TAGS, chapters=2, time_base=MS), []),
        (".ts", Clip(chapters=2, time_base=MS), ["2 chapters"]),
        (".avi", Clip(rotation=90), ["rotation"]),
        (".mkv", Clip(rotation=90), []),
    ],
)
def test_losses_are_known_before_the_first_frame(tmp_path, tiny_model, suffix, clip, expected):
    source = write_clip(tmp_path / ("in.mp4" if clip.rotation else "in.mkv"), clip)
    plan = plan_video(source, tmp_path / f"out{suffix}", tiny_model)
    assert len(plan.notes) == len(expected)
    assert all(words in note for words, note in zip(expected, plan.notes, strict=True)), plan.notes


def test_languages_titles_and_roles(tmp_path, tiny_model):
    source = tmp_path / "in.mkv"
    first = write_clip(tmp_path / "first.mkv", Clip(audio=("aac",), time_base=MS))
    with av.open(str(first)) as given, av.open(str(source), "w") as container:
        streams = {stream.index: container.add_stream_from_template(stream) for stream in given.streams}
        streams[1].metadata.update({"language": "fra", "title": "Commentary"})
        streams[1].disposition = av.stream.Disposition.comment
        for packet in given.demux():
            if packet.dts is not None:
                packet.stream = streams[packet.stream.index]
                container.mux(packet)
    report = dehaze_video(source, tmp_path / "out.avi", model=tiny_model, options=DehazeOptions(), device="cpu")
    assert [word for word in ("fra", "comment") if word in " ".join(report.warnings)] == ["fra", "comment"]
    assert dehaze_video(source, tmp_path / "out.mkv", model=tiny_model, device="cpu").warnings == ()


def test_a_timecode_track_is_no_stream_of_its_own(tmp_path, tiny_model):
    """Its name depends on the program that wrote it. The muxer writes another, and the timecode itself is checked."""
    source = write_clip(tmp_path / "in.mov", Clip(metadata=(("timecode", "01:00:00:00"),)))
    data = source.read_bytes()
    assert data.count(b"TimeCodeHandler") == 1
    source.write_bytes(data.replace(b"TimeCodeHandler", b"VideoHandler 12"))
    for suffix, expected in ((".mov", ()), (".mkv", ()), (".avi", ("the timecode 01:00:00:00 is left out",))):
        plan = plan_video(source, tmp_path / f"out{suffix}", tiny_model)
        assert (plan.streams, tuple(note.rpartition(":")[0] for note in plan.notes)) == ((), expected)
