"""A stopped run keeps every restored frame, and the resumed file has the same bytes."""

import av
import pytest

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, dehaze_video, segments
from libranet.engine.segments import FrameJournal, RunFolder, journalled_frames
from libranet.video.reader import open_video


class StopAfter:
    """Ctrl-C at a frame."""

    def __init__(self, frame: int) -> None:
        self.frame = frame

    def __call__(self, progress) -> None:
        if progress.frames >= self.frame and progress.phase == "frames":
            raise KeyboardInterrupt


def packets(path) -> list:
    """Everything but the random name that Matroska gives a file."""
    with av.open(str(path)) as container:
        return [(p.stream_index, p.pts, p.dts, p.is_keyframe, bytes(p)) for p in container.demux()]


@pytest.fixture
def slow(monkeypatch):
    """As if every segment took long."""
    monkeypatch.setattr(segments, "KEEP_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("name", "clip"),
    [
        ("in.mkv", Clip(frames=14, options=(("qp", "0"),))),
        ("in.mov", Clip(codec="prores_ks", pixel_format="yuva444p10le", frames=14)),
    ],
)
@pytest.mark.parametrize("compare", [None, "side"])
def test_a_stop_inside_the_first_segment_loses_nothing(tmp_path, tiny_model, slow, name, clip, compare):
    source = write_clip(tmp_path / name, clip)
    options = DehazeOptions(segment_frames=10, compare=compare)
    whole = tmp_path / f"whole.{name[-3:]}"
    dehaze_video(source, whole, model=tiny_model, options=options, device="cpu")
    output = tmp_path / f"out.{name[-3:]}"
    with pytest.raises(KeyboardInterrupt):
        dehaze_video(source, output, model=tiny_model, options=options, device="cpu", progress=StopAfter(6))
    folder = RunFolder(output)
    kept = len(list(journalled_frames(folder.path, 0, length=10)))
    assert 6 <= kept < 10
    report = dehaze_video(source, output, model=tiny_model, options=options, device="cpu", resume=True)
    assert report.resumed_frames == kept
    assert report.frames == 14
    assert packets(output) == packets(whole)
    assert not folder.path.exists()


def test_a_record_that_was_cut_off_is_left_out(tmp_path, slow):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=6))
    book = FrameJournal(tmp_path, length=4)
    with open_video(source) as reader:
        for index, frame in enumerate(reader.frames()):
            book.add(3 + index // 4, frame)
    book.close()
    assert len(list(journalled_frames(tmp_path, 3, length=4))) == 6
    assert list(journalled_frames(tmp_path, 2, length=4)) == []
    path = tmp_path / "journal-000003.frames"
    path.write_bytes(path.read_bytes()[:-5])
    assert len(list(journalled_frames(tmp_path, 3, length=4))) == 3  # and not the fifth frame


def test_a_fast_run_writes_no_journal(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=12))
    book = FrameJournal(tmp_path, length=2)  # two frames take no five seconds
    with open_video(source) as reader:
        for frame in reader.frames():
            book.add(0, frame)
    assert not list(tmp_path.glob("journal*"))


def test_a_join_can_be_repeated_into_another_container(tmp_path, tiny_model, monkeypatch):
    from libranet.engine import video
    from libranet.engine.options import OutputError

    source = write_clip(tmp_path / "in.mkv", Clip(frames=6))
    plain = dehaze_video(source, tmp_path / "plain.mkv", model=tiny_model, device="cpu")
    real = video.join

    def broken(*args, **kwargs):
        raise OSError("this container will not do")

    monkeypatch.setattr(video, "join", broken)
    with pytest.raises(OutputError, match="resume=True"):
        dehaze_video(source, tmp_path / "out.mp4", model=tiny_model, device="cpu")
    monkeypatch.setattr(video, "join", real)
    report = dehaze_video(source, tmp_path / "out.mkv", model=tiny_model, device="cpu", resume=True)
    assert (report.frames, report.resumed_frames) == (plain.frames, plain.frames)
    assert packets(tmp_path / "out.mkv") == packets(tmp_path / "plain.mkv")
    assert not list(tmp_path.glob(".*.libranet"))
