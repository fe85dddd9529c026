"""Copies out of an HEVC stream with open GOPs: whole, though their first packets give no frame."""

import av
import pytest

from clips import Clip, write_clip
from libranet.video.leading_frames import LeadingFrames
from libranet.video.reader import open_video

OPEN = "log-level=none:keyint=10:min-keyint=10:open-gop=1:bframes=4:b-adapt=0:scenecut=0"
TRAIL, RASL, BLA, IDR, CRA, VPS = 1, 9, 16, 19, 21, 32


@pytest.mark.parametrize("suffix", [".mkv", ".mp4", ".ts"])
def test_a_copy_from_a_key_frame_on_is_whole(tmp_path, suffix):
    """In Matroska the packets before the key frame have no times: they would be negative."""
    source = write_clip(tmp_path / "in.mp4", Clip(codec="libx265", frames=40, options=(("x265-params", OPEN),)))
    copy, packets = tmp_path / f"cut{suffix}", 0
    with av.open(str(source)) as given, av.open(str(copy), "w") as container:
        video = given.streams.video[0]
        copied = container.add_stream_from_template(video)
        keys = [packet.pts for packet in given.demux(video) if packet.is_keyframe]
        given.seek(keys[2], stream=video)
        for packet in given.demux(video):
            if packet.dts is not None:
                packet.pts, packet.dts = packet.pts - keys[2], packet.dts - keys[2]
                packet.stream = copied
                container.mux(packet)
                packets += 1
    with open_video(copy) as reader:
        assert sum(1 for _ in reader.frames()) == 20 < packets
        assert not reader.damage


@pytest.mark.parametrize(
    ("kinds", "skipped"),
    [
        ([CRA, RASL, RASL, TRAIL, CRA, RASL], [1, 2]),  # only where the stream begins
        ([IDR, RASL, CRA, RASL], []),  # a damaged stream
        ([IDR, TRAIL, BLA, RASL], [3]),  # a splice that says so
    ],
)
@pytest.mark.parametrize("lengths", [True, False])
def test_frames_that_no_decoder_shows(kinds, skipped, lengths):
    leading = LeadingFrames(bytes([1]) + bytes(20) + bytes([3]) if lengths else None)
    found = [leading.skips(_packet(kind, lengths=lengths)) for kind in kinds]
    assert [place for place, skips in enumerate(found) if skips] == skipped


@pytest.mark.parametrize("data", [b"", b"\0\0\1", b"\0\0\0\0" * 9, b"\xff" * 9])
def test_packets_without_a_frame(data):
    assert not LeadingFrames(None).skips(data)
    assert not LeadingFrames(bytes([1]) + bytes(20) + bytes([3])).skips(data)


def _packet(kind: int, *, lengths: bool) -> bytes:
    units = [bytes([number << 1, 1]) + b"abc" for number in (VPS, kind)]
    return b"".join((len(unit).to_bytes(4, "big") if lengths else b"\0\0\0\1") + unit for unit in units)
