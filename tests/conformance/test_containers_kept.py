"""Videos at strength 0: what mkvmerge, mkvextract, ffprobe and exiftool list is in the result, or named."""

import re
from pathlib import Path

import pytest
from conformance_sources import FFMPEG, FFPROBE
from container_check import output_of, silent_losses
from container_sources import CASES, MKVEXTRACT, MKVMERGE, QUICK, SOURCES, run
from image_sources import EXIFTOOL

from libranet.engine import DehazeOptions, dehaze_video

pytestmark = pytest.mark.skipif(
    not (FFMPEG and FFPROBE and MKVMERGE and MKVEXTRACT and EXIFTOOL),
    reason="ffmpeg, mkvtoolnix or exiftool is not installed: `make test` as root installs them",
)


NAMED_STRUCTURE = {
    "chapters-two-languages.mkv",
    "chapters-nested.mkv",
    "chapters-ordered.mkv",
    "tags-repeated.mkv",
    "everything.mkv",
}
"""Matroska files whose chapters or tags FFmpeg writes in part; the rest is named."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("containers")


def make(name: str, folder: Path) -> Path:
    path = folder / name
    if not path.exists():
        SOURCES[name](path)
    return path


@pytest.mark.parametrize(
    ("name", "suffix"),
    [pytest.param(*case, marks=() if case in QUICK else (pytest.mark.more,), id="-".join(case)) for case in CASES],
)
def test_nothing_that_a_container_knows_is_lost_in_silence(name, suffix, folder, tmp_path, tiny_model):
    source, output = make(name, folder), tmp_path / f"out{suffix}"
    report = dehaze_video(source, output, model=tiny_model, options=DehazeOptions(strength=0.0), device="cpu")
    assert report.frames == 8 or source.suffix == ".gif"
    assert report.partial == "" or suffix == ".avi"
    assert silent_losses(source, output, " ".join(report.warnings)) == []
    if source.suffix == suffix == ".mkv":
        assert (report.warnings == ()) == (name not in NAMED_STRUCTURE)
        assert output_of(MKVMERGE, "-J", output).count('"warnings": []') == 1


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("clean-aperture.mp4", b"clap"),
        ("xmp.mp4", b"<a>fog</a>"),
        ("camera-data.mp4", b"GPMF"),
        ("unknown-box.mp4", b"abcd"),
        ("sphere-uuid.mp4", b"SphericalVideo"),
        ("field-of-view.mp4", b"hfov"),
        ("gamma.mp4", b"gama"),
    ],
)
def test_boxes_stay_and_the_file_plays(name, what, folder, tmp_path, tiny_model):
    source = make(name, folder)
    report = dehaze_video(
        source, tmp_path / "out.mp4", model=tiny_model, options=DehazeOptions(strength=0.0, crf=0), device="cpu"
    )
    assert report.warnings == ()
    assert what in (tmp_path / "out.mp4").read_bytes()
    hashes = [output_of(FFMPEG, "-v", "error", "-i", path, "-f", "md5", "-") for path in (source, tmp_path / "out.mp4")]
    assert hashes[0] == hashes[1] != ""


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "suffix", "words"),
    [
        ("dolby-vision.mp4", ".mkv", "Dolby Vision"),
        ("spatial.mov", ".mov", "vexu"),
        ("two-videos.mp4", ".mkv", "this one stays hazy"),
        ("camera-data.mp4", ".mkv", "GPMF"),
        ("xmp.mp4", ".mkv", "XMP"),
        ("crop.mkv", ".mp4", "cropping"),
        ("chapters-ordered.mkv", ".mp4", "order of chapters"),
        ("service.ts", ".avi", "service_name"),
        ("gamma.mp4", ".mkv", "gamma"),
        ("long.mkv", ".mp4", "65000 bytes"),
        ("coloured.mkv", ".mp4", "colour"),
        ("markup-ass.mkv", ".ts", "stream 2"),
    ],
)
def test_what_is_left_out_is_named(name, suffix, words, folder, tmp_path, tiny_model):
    report = dehaze_video(
        make(name, folder),
        tmp_path / f"out{suffix}",
        model=tiny_model,
        options=DehazeOptions(strength=0.0),
        device="cpu",
    )
    assert words in " ".join(report.warnings)


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("markup.mkv", ".mp4"),
        ("markup.mp4", ".mkv"),
        ("markup.webm", ".mkv"),
        ("markup.mkv", ".webm"),
        ("markup-ass.mkv", ".mov"),
    ],
)
def test_markup_of_subtitles_goes_through_conversions(name, suffix, folder, tmp_path, tiny_model):
    source, output = make(name, folder), tmp_path / f"out{suffix}"
    dehaze_video(source, output, model=tiny_model, options=DehazeOptions(strength=0.0), device="cpu")
    before, after = (
        re.sub(r"\d\d:\d\d:\S+ --> \S+", "", output_of(FFMPEG, "-v", "error", "-i", path, "-f", "srt", "-"))
        for path in (source, output)
    )
    assert before == after
    assert "<i>first</i> <b>line</b> & more\ntwo" in after
    assert "<u>under</u>" in after


def test_subtitles_of_any_length_are_copied(folder, tmp_path, tiny_model):
    source = make("long.mkv", folder)
    dehaze_video(source, tmp_path / "out.mkv", model=tiny_model, options=DehazeOptions(strength=0.0), device="cpu")
    shown = [output_of(FFMPEG, "-v", "error", "-i", path, "-f", "srt", "-") for path in (source, tmp_path / "out.mkv")]
    assert shown[0] == shown[1]
    assert len(shown[1].encode()) > 70_000


@pytest.mark.parametrize("name", ["drawn.mkv", "drawn.m2ts"])
@pytest.mark.parametrize("suffix", [".mkv", ".m2ts"])
def test_drawn_subtitles_are_whole(name, suffix, folder, tmp_path, tiny_model):
    """Matroska joins the pieces that Blu-rays have."""
    source, output = make(name, folder), tmp_path / f"out{suffix}"
    report = dehaze_video(source, output, model=tiny_model, options=DehazeOptions(strength=0.0), device="cpu")
    assert (report.partial, report.warnings) == ("", ())
    drawn = []
    for path in (source, output):
        run(FFMPEG, "-v", "error", "-y", "-i", path, "-map", "0:s", "-c", "copy", tmp_path / "shown.sup")
        drawn.append((tmp_path / "shown.sup").read_bytes())
    assert drawn[0].count(b"PG") == drawn[1].count(b"PG") == 8
    assert len(drawn[0]) == len(drawn[1])


def test_a_part_of_a_film_has_its_chapters(folder, tmp_path, tiny_model):
    source = make("chapters-nested.mkv", folder)
    options = DehazeOptions(strength=0.0, start=0.1)
    dehaze_video(source, tmp_path / "out.mkv", model=tiny_model, options=options, device="cpu")
    shown = output_of(MKVEXTRACT, tmp_path / "out.mkv", "chapters", "-")
    assert [text for text in ("Erstes", "Inner", "Second") if text in shown] == ["Erstes", "Second"]
    assert "<ChapterTimeStart>00:00:00.0" in shown


def test_the_suite_is_large_enough():
    assert len(SOURCES) >= 40
    assert len(CASES) >= 200
    assert set(CASES) >= QUICK
