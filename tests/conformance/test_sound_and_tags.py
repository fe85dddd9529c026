"""What a stranger found lost without a word: layouts of channels, ends of chapters, HDR in boxes, silent sound."""

import json
import subprocess
from fractions import Fraction

import pytest
from conformance_sources import FFMPEG, FFPROBE, make_source
from container_sources import MKVMERGE, base, run

from libranet.engine import DehazeOptions, dehaze_video
from libranet.errors import InputError

pytestmark = pytest.mark.skipif(
    not (FFMPEG and FFPROBE and MKVMERGE), reason="apt-get install ffmpeg mkvtoolnix, or `make test` as root"
)
HDR = (
    "--max-content-light 0:1000 --max-frame-light 0:400 --max-luminance 0:1000 --min-luminance 0:0.005"
    " --chromaticity-coordinates 0:0.68,0.32,0.265,0.69,0.15,0.06 --white-color-coordinates 0:0.3127,0.329"
)
GAP = ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=100\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=200\nEND=300\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("streams")


def shown(path, *entries):
    done = subprocess.run([FFPROBE, "-v", "error", *entries, "-of", "json", path], capture_output=True, check=True)
    return json.loads(done.stdout)


def sound(path):
    return next((s for s in shown(path, "-show_streams")["streams"] if s["codec_type"] == "audio"), {})


def heard(path):
    """Seconds of sound that Debian's ffmpeg decodes."""
    done = subprocess.run(
        [FFMPEG, "-v", "error", "-i", path, "-map", "0:a", "-ac", "1", "-ar", "8000", "-f", "s16le", "-"],
        capture_output=True,
        check=True,
    )
    return len(done.stdout) / 16000


def dehazed(source, output, network, crf=None):
    options = DehazeOptions(strength=0.0, crf=crf)
    report = dehaze_video(source, output, model=network, options=options, device="cpu")
    assert report.partial == ""
    return " ".join(report.warnings)


@pytest.mark.parametrize(
    ("name", "suffix"), [("tta", ".mkv"), ("mp2", ".mp4"), ("wavpack", ".mkv"), ("dts", ".ts"), ("truehd", ".mp4")]
)
def test_sound_that_is_kept_is_heard(name, suffix, folder, tmp_path, tiny_model):
    source, output = make_source(name, folder), tmp_path / f"out{suffix}"
    dehazed(source, output, tiny_model)
    assert abs(heard(output) - heard(source)) < 0.05 < heard(source)


@pytest.mark.parametrize("name", ["dts", "speex", "adpcm-ms"])
def test_sound_that_would_get_wrong_times_is_left_out_with_a_remedy_that_works(name, folder, tmp_path, tiny_model):
    try:
        source = make_source(name, folder)
    except RuntimeError:
        pytest.skip(f"this ffmpeg writes no {name}")
    said = dehazed(source, tmp_path / "out.avi", tiny_model)
    assert sound(tmp_path / "out.avi") == {}
    assert "FFmpeg writes wrong times for it); --audio mp3 keeps the sound" in said
    options = DehazeOptions(strength=0.0, audio="mp3")
    dehaze_video(source, tmp_path / "remedy.avi", model=tiny_model, options=options, device="cpu")
    assert abs(heard(tmp_path / "remedy.avi") - heard(source)) < 0.15


@pytest.mark.parametrize(("name", "suffix"), [("surround", ".mp4"), ("quad", ".mkv"), ("surround", ".mkv")])
def test_the_layout_of_channels_is_kept_or_named(name, suffix, folder, tmp_path, tiny_model):
    source, output = make_source(name, folder), tmp_path / f"out{suffix}"
    said = dehazed(source, output, tiny_model)
    layout = sound(source)["channel_layout"]
    kept = sound(output).get("channel_layout") == layout
    assert kept == (name == suffix.replace(".mkv", "surround"))
    assert kept or f"the channel layout ({layout}) of audio stream 1 is left out" in said


@pytest.mark.parametrize(("suffix", "named"), [(".mp4", True), (".mov", False), (".mkv", False)])
def test_samples_that_older_players_do_not_hear_are_named(suffix, named, folder, tmp_path, tiny_model):
    source, output = make_source("pcm24-mov", folder), tmp_path / f"out{suffix}"
    said = dehazed(source, output, tiny_model)
    assert ("needs a player with FFmpeg 6" in said) == named
    assert named or abs(heard(output) - heard(source)) < 0.01


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_ends_of_chapters_are_kept_or_named(suffix, folder, tmp_path, tiny_model):
    (tmp_path / "marks").write_text(GAP)
    source, output = tmp_path / "in.mkv", tmp_path / f"out{suffix}"
    run(
        FFMPEG,
        "-v",
        "error",
        "-i",
        base(tmp_path / "x"),
        "-i",
        tmp_path / "marks",
        "-map_metadata",
        "1",
        "-c",
        "copy",
        source,
    )
    said = dehazed(source, output, tiny_model)
    ends = [[c["end_time"] for c in shown(path, "-show_chapters")["chapters"]] for path in (source, output)]
    assert (ends[0] == ends[1]) == (suffix == ".mkv")
    assert ("chapters end or begin at other times" in said) == (suffix == ".mp4")


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
def test_hdr_that_only_the_container_states_is_kept(suffix, tmp_path, tiny_model):
    source, output = tmp_path / "in.mkv", tmp_path / f"out{suffix}"
    run(MKVMERGE, "-q", "-o", source, *HDR.split(), base(tmp_path / "x"))
    assert dehazed(source, output, tiny_model) == ""
    before, after = (shown(path, "-show_streams")["streams"][0]["side_data_list"] for path in (source, output))
    kinds = ("Content light level metadata", "Mastering display metadata")
    for kind in kinds:
        old, new = (next(d for d in found if d["side_data_type"] == kind) for found in (before, after))
        for key in old.keys() - {"side_data_type"}:
            numbers = [float(Fraction(d[key])) for d in (old, new)]
            assert numbers[1] == pytest.approx(numbers[0], abs=2e-5), key


@pytest.mark.parametrize("suffix", [".webm", ".mp4"])
def test_a_colour_matrix_that_a_container_has_no_number_for_is_named(suffix, tmp_path, tiny_model):
    source = tmp_path / "in.mp4"
    run(FFMPEG, "-v", "error", "-i", base(tmp_path / "x"), "-an", "-c:v", "libx264", "-colorspace", "fcc", source)
    said = dehazed(source, tmp_path / f"out{suffix}", tiny_model)
    matrix = shown(tmp_path / f"out{suffix}", "-show_streams")["streams"][0].get("color_space")
    assert (matrix == "fcc") == (suffix == ".mp4")
    assert ("the colour matrix is left out" in said) == (suffix == ".webm")


def test_video_that_an_mp4_file_would_not_give_back_is_refused_before_the_first_frame(tmp_path, tiny_model):
    source = tmp_path / "in.mkv"
    run(FFMPEG, "-v", "error", "-i", base(tmp_path / "x"), "-an", "-c:v", "ffv1", "-pix_fmt", "yuv440p", source)
    with pytest.raises(InputError, match=r"cannot hold vp9 as yuv440p \(it cannot be read back\): write to \.mkv"):
        dehazed(source, tmp_path / "out.mp4", tiny_model, crf=0)
    dehazed(source, tmp_path / "out.mkv", tiny_model)


@pytest.mark.parametrize(
    ("pixel_format", "suffix", "hint"), [("gray16le", ".mov", ".mkv"), ("gbrp16le", ".mp4", ".mkv")]
)
def test_the_container_that_a_refusal_names_holds_the_video(pixel_format, suffix, hint, tmp_path, tiny_model):
    source = tmp_path / "in.mkv"
    run(FFMPEG, "-v", "error", "-i", base(tmp_path / "x"), "-an", "-c:v", "ffv1", "-pix_fmt", pixel_format, source)
    with pytest.raises(InputError, match=rf"without loss: write to \{hint}$"):
        dehazed(source, tmp_path / f"out{suffix}", tiny_model)
    dehazed(source, tmp_path / f"out{hint}", tiny_model)


def test_chroma_of_h263_lies_where_it_lay(folder, tmp_path, tiny_model):
    source = make_source("3gp", folder)
    dehazed(source, tmp_path / "out.mp4", tiny_model)
    places = [
        shown(path, "-show_streams")["streams"][0].get("chroma_location") for path in (source, tmp_path / "out.mp4")
    ]
    assert places == ["center", "center"]
