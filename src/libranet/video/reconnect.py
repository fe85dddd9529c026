"""Network sources that are lost and come back: reading goes on in one clock, with the pause as long as it was."""

import time
from collections.abc import Iterable, Iterator
from fractions import Fraction

import av

from libranet.errors import InputError
from libranet.video.decoding import read_packets
from libranet.video.opening import open_source
from libranet.video.reader import VideoReader, decode_packets, main_video_stream

PAUSE = 1.0
"""Seconds between two tries."""


class _Watch:
    """Where the source's clock was when the last packet came."""

    def __init__(self) -> None:
        self.end = Fraction(0)
        self.wall = time.monotonic()

    def see(self, item: av.VideoFrame | av.Packet) -> None:
        self.wall = time.monotonic()
        if item.pts is not None and item.time_base is not None:
            self.end = max(self.end, (item.pts + int(item.duration or 0)) * item.time_base)

    def now(self) -> Fraction:
        return self.end + Fraction(time.monotonic() - self.wall).limit_denominator(1000)


def reconnecting(reader: VideoReader, seconds: float) -> Iterator[av.VideoFrame | av.Packet]:
    """Yield what the reader demuxes. When the source ends, it is opened again.

    Args:
        reader: An opened network source. Give it the result as `demuxed`.
        seconds: How long to try.
    """
    return _continued(reader, reader.demuxed, seconds)  # `demuxed` is read now: the caller replaces it


def _continued(
    reader: VideoReader, items: Iterator[av.VideoFrame | av.Packet], seconds: float
) -> Iterator[av.VideoFrame | av.Packet]:
    watch = _Watch()
    while True:
        for item in items:
            watch.see(item)
            yield item
        began = time.monotonic()
        container = _open_again(reader, seconds)
        if container is None:
            reader.notes.append(f"the source ended, and did not come back within {seconds:.0f} s")
            return
        reader.further.append(container)
        stream = main_video_stream(container)
        if stream is None or stream.codec_context.codec.canonical_name != reader.codec:
            reader.damage.truncated = "the source came back with another video: record it on its own"
            return
        reader.damage.truncated = ""
        reader.notes.append(f"the source was lost for {time.monotonic() - began:.1f} s")
        packets = _shifted(read_packets(container, reader.damage), watch)
        packets = packets if reader.arrivals is None else reader.arrivals.noted(packets, stream)
        items = decode_packets(packets, stream, None, reader.damage)


def _open_again(reader: VideoReader, seconds: float) -> av.container.InputContainer | None:
    assert reader.source is not None
    end = time.monotonic() + seconds
    while not reader.closed:
        try:
            return open_source(reader.source)
        except InputError:
            if time.monotonic() + PAUSE > end:
                return None
            time.sleep(PAUSE)
    return None


def _shifted(packets: Iterable[av.Packet], watch: _Watch) -> Iterator[av.Packet]:
    """Let the clock of a new connection begin where the old one would be by now."""
    shift: Fraction | None = None
    for packet in packets:
        stamp = packet.dts if packet.dts is not None else packet.pts
        if stamp is not None and packet.time_base is not None:
            shift = watch.now() - stamp * packet.time_base if shift is None else shift
            move = round(shift / packet.time_base)
            packet.pts = None if packet.pts is None else packet.pts + move
            packet.dts = None if packet.dts is None else packet.dts + move
        yield packet
