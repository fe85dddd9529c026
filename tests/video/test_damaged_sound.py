"""Sound that is damaged in the source: made by Debian's ffmpeg, damaged by hand, judged by ffprobe."""

import re
import shutil
import subprocess

import pytest

from libranet.engine import DehazeOptions, dehaze_video

pytestmark = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
HEADER = re.compile(rb"\xff\xf1\x4c\x80")
"""Of AAC in ADTS: 48 kHz, two channels."""


@pytest.fixture
def broadcast(tmp_path):
    """A .ts file of 25 frames with AAC, and where the headers of its sound are."""
    path = tmp_path / "in.ts"
    inputs = "-f lavfi -i testsrc=s=64x64:r=25:d=1 -f lavfi -i sine=r=48000:d=1 -c:v libx264 -c:a aac -ac 2"
    subprocess.run(["ffmpeg", "-v", "error", *inputs.split(), str(path)], check=True)
    headers = [match.start() for match in HEADER.finditer(path.read_bytes())]
    assert len(headers) > 40
    return path, headers


def dehaze(source, output, network, **options):
    options = DehazeOptions(strength=0.0, backend="plain", **options)
    return dehaze_video(source, output, model=network, options=options, device="cpu")


def streams(path):
    """The kind of each stream, and the packets that ffprobe counts."""
    shown = "stream=codec_type,nb_read_packets"
    command = ["ffprobe", "-v", "error", "-count_packets", "-show_entries", shown, "-of", "csv=p=0", str(path)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {kind: int(packets) for kind, packets in (line.split(",") for line in lines)}


@pytest.mark.parametrize("audio", ["copy", "flac"])
def test_sound_without_a_rate_is_left_out_by_name(tmp_path, tiny_model, broadcast, audio):
    source, headers = broadcast
    data = bytearray(source.read_bytes())
    for at in headers:
        data[at + 2] = 0x74  # a rate that is reserved
    source.write_bytes(data)
    report = dehaze(source, tmp_path / "out.mkv", tiny_model, audio=audio)
    assert [note for note in report.warnings if note.startswith("audio stream 1 (aac) is left out")]
    assert streams(tmp_path / "out.mkv") == {"video": 25}


@pytest.mark.parametrize(
    "damaged", [9, pytest.param(17, marks=pytest.mark.more), pytest.param(30, marks=pytest.mark.more)]
)
@pytest.mark.parametrize("suffix", [".mkv", pytest.param(".mp4", marks=pytest.mark.more)])
def test_a_damaged_packet_of_sound_costs_itself_alone(tmp_path, tiny_model, broadcast, suffix, damaged):
    source, headers = broadcast
    data = bytearray(source.read_bytes())
    data[headers[damaged] : headers[damaged] + 2] = bytes(2)
    source.write_bytes(data)
    there = streams(source)["audio"]  # FFmpeg's own reader drops some
    report = dehaze(source, tmp_path / f"out{suffix}", tiny_model)
    lost = re.search(r"(\d+) damaged packets of the aac audio stream cannot be copied", report.partial)
    assert lost is not None, report.partial
    found = streams(tmp_path / f"out{suffix}")
    assert found["video"] == 25
    assert found["audio"] + int(lost[1]) == there
