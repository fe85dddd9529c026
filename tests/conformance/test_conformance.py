"""Strength 0, judged by Debian's ffprobe and framemd5: every frame, time and stream is kept, or its loss is said."""

import pytest
from conformance_cases import CASES, QUICK
from conformance_check import frame_hashes, lost_streams, main_video, others, probe
from conformance_sources import FFMPEG, FFPROBE, SOURCES, make_source

from libranet.engine import DehazeOptions, dehaze_video
from libranet.errors import InputError

pytestmark = pytest.mark.skipif(
    not (FFMPEG and FFPROBE), reason="Debian's ffmpeg is not installed: `make test` as root, or apt-get install ffmpeg"
)
LOSSLESS = {"h264", "hevc", "av1", "vp9", "ffv1", "qtrle"}
TIME_STEP = {".mkv": 0.0011, ".webm": 0.0011, ".ts": 0.0002, ".m2ts": 0.0002, ".mpg": 0.0002}
"""Containers that count in coarser steps than the source."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("conformance")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [pytest.param(*case, marks=() if case in QUICK else (pytest.mark.slow,), id="".join(case)) for case in CASES],
)
def test_nothing_is_lost_in_silence(name, suffix, folder, tmp_path, tiny_model):
    source = make_source(name, folder)
    output = tmp_path / f"out{suffix}"
    report = _dehazed(source, output, tiny_model)
    lossless = report.codec in LOSSLESS
    assert report.partial == "" or (suffix == ".avi" and "moved by" in report.partial)
    video = main_video(source)
    pixel_format = video.facts.get("pix_fmt", "yuv420p")
    decoder = "libvpx-vp9" if name == "vp9-alpha" else ""
    pixel_format = "yuva420p" if decoder else pixel_format
    pixel_format = {"bgr0": "rgb24"}.get(pixel_format, pixel_format)  # its fourth byte has no meaning
    hashes, times = frame_hashes(source, pixel_format, decoder)
    alpha = report.codec == "vp9" and report.pixel_format == "yuva420p"
    found, found_times = frame_hashes(output, pixel_format, "libvpx-vp9" if alpha else "")
    assert len(found) == len(hashes) == report.frames
    if lossless and report.pixel_format in (pixel_format, _planar(pixel_format)):
        assert found == hashes
    offset = found_times[0] - times[0]  # a container without negative times begins later, with all of its streams
    step = TIME_STEP.get(suffix, 0.0011 if SOURCES[name].suffix in (".mkv", ".webm") else 0.00003)
    step = 0.021 if ".avi" in (suffix, SOURCES[name].suffix) or suffix in (".gif", ".mxf", ".mpg") else step
    drift = max(abs(b - a - offset) for a, b in zip(times, found_times, strict=True))
    assert drift <= step
    assert lost_streams(source, output, " ".join(report.warnings)) == []
    _same_tags(name, source, output, report)
    sounds = [[s for s in others(path) if s.kind == "audio"] for path in (source, output)]
    if all(sounds) and "moved by" not in report.partial:
        starts = [sounds[0][0].start - times[0], sounds[1][0].start - found_times[0]]
        assert abs(starts[0] - starts[1]) < 0.03


def _dehazed(source, output, network):
    """Without loss where the codec that the tool chooses has such a mode."""
    try:
        return dehaze_video(source, output, model=network, options=DehazeOptions(strength=0.0, crf=0), device="cpu")
    except InputError as error:
        if not any(words in str(error) for words in ("no meaning", "expected crf", "without loss")):
            raise
        return dehaze_video(source, output, model=network, options=DehazeOptions(strength=0.0), device="cpu")


def _planar(pixel_format: str) -> str:
    return {"bgr0": "gbrp", "bgra": "gbrap", "argb": "gbrap", "rgb24": "gbrp"}.get(pixel_format, "")


def _same_tags(name, source, output, report) -> None:
    before, after = main_video(source).facts, main_video(output).facts
    keys = ["color_range", "color_space", "color_primaries", "color_transfer"]
    if report.pixel_format == _planar(before.get("pix_fmt", "")) or report.pixel_format == before.get("pix_fmt"):
        for key in keys:
            known = before.get(key, "unknown")
            unknown = "tv" if key == "color_range" else "unknown"  # what is not tagged is limited
            assert known in ("unknown", after.get(key, unknown), "gbr"), key
    if output.suffix not in (".avi", ".mpg", ".gif", ".mxf"):
        assert before.get("sample_aspect_ratio", "1:1") == after.get("sample_aspect_ratio", "1:1")
    chapters = len(probe(source)[1].get("chapters", []))
    if chapters and output.suffix in (".mp4", ".mov", ".mkv", ".webm"):
        assert len(probe(output)[1]["chapters"]) == chapters
    if name == "metadata" and output.suffix in (".mp4", ".mkv", ".webm"):
        tags = {key.lower(): value for key, value in probe(output)[1]["format"]["tags"].items()}
        assert (tags["title"], tags["artist"]) == ("Fog", "Someone")
        assert after["tags"]["language"] == "fra"
    if name == "rotated" and output.suffix in (".mp4", ".mov"):
        assert before["side_data_list"][0]["rotation"] == after["side_data_list"][0]["rotation"]


def test_the_suite_is_large_enough():
    assert len(CASES) >= 150
    assert len(QUICK) >= 30
    assert set(CASES) >= QUICK
