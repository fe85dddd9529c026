"""Videos at strength 0: what mkvmerge, mkvextract, ffprobe and exiftool list is in the result, or named."""

import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from conformance_sources import FFMPEG, FFPROBE
from container_sources import CASES, MKVEXTRACT, MKVMERGE, QUICK, SOURCES
from image_sources import EXIFTOOL

from libranet.engine import DehazeOptions, dehaze_video

pytestmark = pytest.mark.skipif(
    not (FFMPEG and FFPROBE and MKVMERGE and MKVEXTRACT and EXIFTOOL),
    reason="ffmpeg, mkvtoolnix or exiftool is not installed: `make test` as root installs them",
)
TRACK_FACTS = {
    "cropping": "the cropping",
    "stereo_mode": "the stereo mode",
    "projection_type": "the 360 degree projection",
    "projection_pose_yaw": "the 360 degree projection",
    "language_ietf": "language",
    "track_name": "the title",
    "display_dimensions": "",
    "flag_hearing_impaired": "the role",
    "flag_original": "the role",
    "flag_commentary": "the role",
}
SIDE_DATA = {
    "Spherical Mapping": "the 360 degree projection",
    "Stereo 3D": "the stereo mode",
    "DOVI configuration record": "Dolby Vision",
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("containers")


def output_of(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


@cache
def listed(path: Path) -> tuple[dict[str, object], ...]:
    """What mkvmerge, ffprobe and exiftool show of a file."""
    probe = json.loads(
        output_of(FFPROBE, "-v", "error", "-show_streams", "-show_format", "-show_chapters", "-of", "json", path)
    )
    return (
        json.loads(output_of(MKVMERGE, "-J", path)),
        probe,
        json.loads(output_of(EXIFTOOL, "-j", "-a", "-G1", "-u", path))[0],
    )


@cache
def texts(path: Path) -> frozenset[tuple[str, str]]:
    """Names and texts of tags and chapters as mkvextract shows them; of other containers what ffprobe shows."""
    found = set()
    if path.suffix in (".mkv", ".webm"):
        for what, tag in (("chapters", "ChapterString"), ("tags", "String")):
            shown = output_of(MKVEXTRACT, path, what, "-")
            if what == "chapters":
                found |= {("chapter", text) for text in re.findall(f"<{tag}>(.*?)</{tag}>", shown)}
            else:
                pairs = re.findall(r"<Name>(.*?)</Name>\s*<String>(.*?)</String>", shown)
                found |= {(name, text) for name, text in pairs if not is_technical(name)}
        title = listed(path)[0]["container"]["properties"].get("title")
        return frozenset(found | ({("TITLE", title)} if title else set()))
    _, probe, _ = listed(path)
    for chapter in probe.get("chapters", ()):
        found |= {("chapter", text) for text in chapter.get("tags", {}).values()}
    found |= {(name.upper(), text) for name, text in probe["format"].get("tags", {}).items() if not is_technical(name)}
    return frozenset(found)


def is_technical(name: str) -> bool:
    known = (
        "BPS",
        "DURATION",
        "NUMBER_OF",
        "_STATISTICS",
        "ENCODER",
        "MAJOR_BRAND",
        "MINOR_VERSION",
        "COMPATIBLE_BRANDS",
    )
    return name.upper().startswith((*known, "HANDLER_NAME", "VENDOR_ID", "CREATION_TIME", "LOCATION-"))


def make(name: str, folder: Path) -> Path:
    path = folder / name
    if not path.exists():
        SOURCES[name](path)
    return path


def silent_losses(source: Path, output: Path, said: str) -> list[str]:
    """What the tools show of the source, not of the output, and no warning names."""
    lost = []
    values = {re.sub(r"(?<=\d)0+(?=\D)", "", text) for _, text in texts(output)}  # of a place
    for name, text in texts(source):
        if (
            re.sub(r"(?<=\d)0+(?=\D)", "", text) not in values
            and text not in said
            and name.lower() not in said.lower()
            and "chapters are" not in said
        ):
            lost.append(f"{name} = {text[:50]}")
    before, after = (tracks_of(path) for path in (source, output))
    for fact, value in before.items():
        words = TRACK_FACTS[fact[1]]
        if f"stream {fact[0]} " in said and "is left out: " in said:
            continue
        if fact[1] == "track_name" and value.encode() in output.read_bytes():
            continue  # this ffprobe does not show the names of tracks in .mp4
        if (
            after.get(fact) != value
            and words
            and words not in said
            and not (fact[1] == "language_ietf" and "-" not in value)
        ):
            lost.append(f"{fact} = {value}")
    for kind in side_data(source) - side_data(output):
        if SIDE_DATA.get(kind, kind) not in said:
            lost.append(kind)
    if source.suffix == ".gif" and loops(source) != loops(output) and "loops" not in said:
        lost.append(f"{loops(source)} loops")
    return lost


def tracks_of(path: Path) -> dict[tuple[int, str], str]:
    if path.suffix not in (".mkv", ".webm"):
        return {}
    shown = listed(path)[0].get("tracks", ())
    return {
        (number, key): str(value)
        for number, track in enumerate(shown)
        for key, value in track["properties"].items()
        if key in TRACK_FACTS
    }


def side_data(path: Path) -> set[str]:
    streams = listed(path)[1]["streams"]
    return {data["side_data_type"] for stream in streams[:1] for data in stream.get("side_data_list", ())} - {
        "CPB properties"
    }


def loops(path: Path) -> str:
    return str(listed(path)[2].get("GIF:AnimationIterations", "once")) if path.suffix == ".gif" else ""


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
        assert report.warnings == ()
        assert output_of(MKVMERGE, "-J", output).count('"warnings": []') == 1


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("clean-aperture.mp4", b"clap"),
        ("xmp.mp4", b"<a>fog</a>"),
        ("camera-data.mp4", b"GPMF"),
        ("unknown-box.mp4", b"abcd"),
        ("sphere-uuid.mp4", b"SphericalVideo"),
        ("field-of-view.mp4", b"hfov"),
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


@pytest.mark.parametrize(
    ("name", "suffix", "words"),
    [
        ("dolby-vision.mp4", ".mkv", "Dolby Vision"),
        ("spatial.mov", ".mov", "vexu"),
        ("two-videos.mp4", ".mkv", "copied as it is"),
        ("camera-data.mp4", ".mkv", "GPMF"),
        ("xmp.mp4", ".mkv", "XMP"),
        ("crop.mkv", ".mp4", "cropping"),
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


def test_a_part_of_a_film_has_its_chapters(folder, tmp_path, tiny_model):
    source = make("chapters-nested.mkv", folder)
    options = DehazeOptions(strength=0.0, start=0.1)
    dehaze_video(source, tmp_path / "out.mkv", model=tiny_model, options=options, device="cpu")
    shown = output_of(MKVEXTRACT, tmp_path / "out.mkv", "chapters", "-")
    assert [text for text in ("First", "Erstes", "Inner", "Second") if text in shown] == ["First", "Erstes", "Second"]
    assert "<ChapterTimeStart>00:00:00.0" in shown


def test_the_suite_is_large_enough():
    assert len(SOURCES) >= 40
    assert len(CASES) >= 200
    assert set(CASES) >= QUICK
