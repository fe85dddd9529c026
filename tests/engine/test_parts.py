"""A long video in parts: the bits of a single run, whatever the codec, and refusal where they would not be."""

from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.adjust import Adjustments
from libranet.engine.parts import CannotSplitError, dehaze_part, join_parts, part_folder, part_starts, plan_parts
from libranet.engine.video import VideoRun
from libranet.video.source import parse_source

SHORT = DehazeOptions(segment_frames=8, steady=0.08)


def run(path: Path, output: Path, model, options=SHORT) -> VideoRun:
    return VideoRun(parse_source(path), output, model, options)


def split(path: Path, output: Path, model, options=SHORT, wanted=3):
    return plan_parts(run(path, output, model, options), wanted=wanted)


def in_parts(path: Path, output: Path, model, options=SHORT) -> int:
    """Make and join the parts, the last first."""
    parts = split(path, output, model, options)
    assert len(parts) > 1
    assert sum(part.frames for part in parts) == 90
    for part in reversed(parts):
        assert dehaze_part(run(path, output, model, options), part) == part.frames
    return join_parts(run(path, output, model, options), parts).frames


def packets(path: Path) -> list:
    """All packets of all streams. Files as a whole differ from run to run: Matroska has a random number in its head."""
    with av.open(str(path)) as container:
        return [(p.stream.index, p.pts, p.dts, p.duration, bytes(p)) for p in container.demux() if p.size]


CASES = {
    "h264 with B-frames": (Clip(frames=90, audio=("aac",), options=(("g", "24"),)), ".mp4", SHORT),
    "open groups of frames": (
        Clip(codec="libx265", frames=90, options=(("x265-params", "open-gop=1:keyint=20:log-level=0"),)),
        ".mkv",
        SHORT,
    ),
    "times that are not even, from the middle of the clock": (
        Clip(frames=90, variable=True, first=5000, options=(("g", "16"),)),
        ".mkv",
        SHORT,
    ),
    "one key frame": (Clip(frames=90, options=(("g", "300"),)), ".mp4", SHORT),
    "a cut and the exposure's memory": (
        Clip(frames=90, cut_at=40, rate=2, options=(("g", "24"),)),
        ".mkv",
        replace(SHORT, steady=0.0, adjust=Adjustments(exposure="keep")),
    ),
    "no filter over time": (Clip(codec="ffv1", frames=90), ".mkv", replace(SHORT, steady=0.0)),
}
SLOW_CASES = ("one key frame", "no filter over time")
"""The others find the same faults; all together take half a minute."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW_CASES else n for n in CASES])
def test_parts_have_the_bits_of_one_run(name, tmp_path, tiny_model):
    clip, suffix, options = CASES[name]
    path = write_clip(tmp_path / f"in{suffix}", clip)
    one = dehaze_video(path, tmp_path / f"one{suffix}", model=tiny_model, options=options)
    output = tmp_path / f"parts{suffix}"
    assert in_parts(path, output, tiny_model, options) == one.frames == 90
    assert packets(output) == packets(tmp_path / f"one{suffix}")
    assert not list(tmp_path.glob(".*"))


def test_a_part_goes_on_after_its_last_finished_segment(tmp_path, tiny_model):
    path = write_clip(tmp_path / "in.mp4", Clip(frames=90, options=(("g", "24"),)))
    dehaze_video(path, tmp_path / "one.mp4", model=tiny_model, options=SHORT)
    output = tmp_path / "out.mp4"
    whole, parts = run(path, output, tiny_model), split(path, output, tiny_model)

    class Killed(BaseException):
        pass

    def kill(progress) -> None:
        if progress.frames > 20:
            raise Killed

    with pytest.raises(Killed):
        dehaze_part(replace(whole, progress=kill), parts[1])
    again = [dehaze_part(whole, part) for part in parts]
    assert again[1] == parts[1].frames - 16
    assert dehaze_part(whole, parts[0]) == 0
    join_parts(whole, parts)
    assert output.read_bytes() == (tmp_path / "one.mp4").read_bytes()


def test_short_videos_and_those_without_exact_seeking_stay_whole(tmp_path, tiny_model):
    output = tmp_path / "out.mkv"
    assert split(write_clip(tmp_path / "short.mp4", Clip(frames=20)), output, tiny_model) == ()
    assert split(write_clip(tmp_path / "a.ts", Clip(frames=90)), output, tiny_model) == ()
    assert split(write_clip(tmp_path / "a.avi", Clip(codec="mpeg4", frames=90)), output, tiny_model) == ()
    path = write_clip(tmp_path / "in.mp4", Clip(frames=90))
    assert split(path, output, tiny_model, replace(SHORT, start=1.0)) == ()
    assert split(path, tmp_path / "out.gif", tiny_model) == ()
    assert split(path, output, tiny_model, wanted=1) == ()


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 300_000), st.integers(0, 100), st.integers(1, 200), st.integers(1, 64))
def test_parts_are_as_even_as_segments_allow_and_never_too_short(frames, lead, length, wanted):
    starts = part_starts(frames, lead=lead, length=length, wanted=wanted)
    segments = -(-frames // length)
    shortest = max(2, -(-10 * lead // length))
    assert len(starts) == (count if (count := min(wanted, segments // shortest)) > 1 else 0)
    if starts:
        sizes = np.diff([*(start // length for start in starts), segments])
        assert starts[0] == 0
        assert all(start % length == 0 for start in starts)
        assert sizes.min() >= shortest
        assert sizes.max() - sizes.min() <= 1


def test_frames_that_differ_after_seeking_are_noticed(tmp_path, tiny_model):
    """Intra refresh: no frame after the first is a true key frame, and decoding from the middle shows debris."""
    refresh = (("x264-params", "intra-refresh=1:keyint=30:bframes=0"),)
    path = write_clip(tmp_path / "in.mp4", Clip(frames=90, options=refresh))
    output = tmp_path / "out.mp4"
    whole = run(path, output, tiny_model)
    one = dehaze_video(path, tmp_path / "one.mp4", model=tiny_model, options=SHORT)
    parts = split(path, output, tiny_model)
    assert one.frames == 90
    for part in parts:
        dehaze_part(whole, part)
    # A neighbour that decoded something else, which the checksums of the frames they share must show.
    folder = part_folder(output, parts[1])
    manifest = folder.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"lead": ', '"lead": 1'))
    with pytest.raises(CannotSplitError, match="decodes differently"):
        join_parts(whole, parts)
    assert not output.exists()


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_damage_keeps_a_video_whole(suffix, tmp_path, tiny_model):
    clip = Clip(frames=90, width=160, height=96, options=(("g", "24"), ("crf", "10")))
    path = write_clip(tmp_path / f"in{suffix}", clip)
    data, middle = bytearray(path.read_bytes()), path.stat().st_size * 2 // 3
    data[middle : middle + 3000] = np.random.default_rng(0).bytes(3000)
    path.write_bytes(data)
    assert made(path, tmp_path / f"out{suffix}", tiny_model) is None


def made(path: Path, output: Path, model) -> int | None:
    """Frames of the parts, or None where the video has to be done whole."""
    parts = split(path, output, model)
    try:
        return sum(dehaze_part(run(path, output, model), part) for part in parts) or None
    except CannotSplitError:
        return None
