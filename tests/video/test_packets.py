from itertools import pairwise

import av
import pytest

from libranet.errors import InputError
from libranet.video.packets import PacketLog, decode_times, read_segment, reorder_delay


def packet(data: bytes, pts: int, dts: int) -> av.Packet:
    made = av.Packet(data)
    made.pts, made.dts = pts, dts
    return made


def test_packets_come_back_as_they_were(tmp_path):
    log = PacketLog(tmp_path / "s.packets")
    log.add(packet(b"abc", 10**15, -7), 40)
    log.add(packet(b"", 3, 3), 0)
    assert not (tmp_path / "s.packets").exists()
    log.finish()
    first, second = read_segment(tmp_path / "s.packets")
    assert (first.pts, first.dts, first.duration, first.data) == (10**15, -7, 40, b"abc")
    assert second.data == b""


def test_a_discarded_log_leaves_nothing(tmp_path):
    log = PacketLog(tmp_path / "s.packets")
    log.discard()
    assert list(tmp_path.iterdir()) == []


def test_damaged_segments_are_refused(tmp_path):
    log = PacketLog(tmp_path / "s.packets")
    log.add(packet(b"abcdefgh", 1, 1), 1)
    log.finish()
    data = (tmp_path / "s.packets").read_bytes()
    (tmp_path / "s.packets").write_bytes(data[:-3])
    with pytest.raises(InputError, match="cut off"):
        list(read_segment(tmp_path / "s.packets"))
    (tmp_path / "s.packets").write_bytes(b"something else")
    with pytest.raises(InputError, match="not a segment"):
        list(read_segment(tmp_path / "s.packets"))


@pytest.mark.parametrize(
    "segments",
    [
        [[0, 30, 10, 20, 60, 40, 50]],
        [[0, 40, 20, 10, 30], [50, 500, 60, 55, 490], [501, 502]],
        [[5], [6], [7]],
        [[0, 1, 2, 3]],
        [[0, 900, 10, 5], [1000, 1001, 1002]],
    ],
)
def test_decoding_times_increase_and_never_come_after_presentation(segments):
    delay = max(reorder_delay(times) for times in segments)
    before: list[int] = []
    pairs = []
    for times in segments:
        pairs += list(zip(decode_times(times, delay, before, 10), times, strict=True))
        before = (before + sorted(times))[-max(delay, 1) :]
    decode = [dts for dts, _ in pairs]
    assert all(a < b for a, b in pairwise(decode))
    assert all(dts <= pts for dts, pts in pairs)
