"""Decoding in order; packets of the other streams; parts of a video."""

from fractions import Fraction

import av
import pytest

from clips import Clip, other_packets, write_clip
from libranet.video.reader import frame_duration, open_video

INTERLACED = (("x264-params", "interlaced=1:tff=1"),)


@pytest.mark.parametrize("frames", [1, 2, 30])
def test_every_packet_of_the_other_streams_is_delivered_in_order(tmp_path, frames):
    """Those before the first frame, too."""
    source = write_clip(tmp_path / "in.mkv", Clip(frames=frames, audio=("flac",), subtitles="subrip"))
    delivered: dict[int, list] = {}

    def take(packet: av.Packet) -> None:
        if packet.size:
            delivered.setdefault(packet.stream.index, []).append((packet.pts * packet.time_base, bytes(packet)))

    with open_video(source) as reader:
        reader.on_packet = take
        assert len(list(reader.frames())) == frames
    assert delivered == other_packets(source) != {}


@pytest.mark.parametrize("options", [(), INTERLACED])
def test_start_is_included_and_end_is_not(tmp_path, options):
    """Also where deinterlacing returns the last frames late."""
    source = write_clip(tmp_path / "in.mkv", Clip(frames=20, options=options, time_base=Fraction(1, 1000)))
    with open_video(source, deinterlace=bool(options)) as reader:
        times = [frame.time(reader.time_base) for frame in reader.frames(start=0.2, end=0.76)]
    assert times == [round(0.04 * index, 3) for index in range(5, 19)]


@pytest.mark.parametrize(
    ("rate", "time_base", "duration"),
    [("25", "1/1000", 40), ("30000/1001", "1/30000", 1001), ("50", "1/25", 1)],
)
def test_frame_duration(rate, time_base, duration):
    assert frame_duration(Fraction(rate), Fraction(time_base)) == duration
