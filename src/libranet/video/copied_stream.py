"""One stream of the source on its way to the output: the decision about it, and its packets, cut or repacked."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import av
from av.stream import Disposition

from libranet.video.audio import AudioTranscoder
from libranet.video.subtitles import SubtitleConverter

Action = Literal["copy", "repack", "transcode", "attach", "leave out"]


@dataclass(frozen=True)
class StreamPlan:
    """What happens to one stream."""

    index: int
    """In the source."""
    kind: str
    """audio, subtitle, data, attachment, cover or video."""
    codec: str
    """In the source."""
    action: Action
    target: str = ""
    """Codec in the output."""
    reason: str = ""
    asked: bool = False
    """The user asked for it: no need to say so."""
    cover: bytes = field(default=b"", repr=False)
    """The image to attach."""

    @property
    def kept(self) -> bool:
        """Whether the output holds the stream."""
        return self.action != "leave out"

    @property
    def sentence(self) -> str:
        """The decision in words."""
        what = f"{self.kind} stream {self.index} ({self.codec})"
        if self.action == "transcode":
            return f"{what} becomes {self.target}" + (f": {self.reason}" if self.reason else "")
        if self.action == "repack":
            return f"{what} is repacked as {self.target}"
        if self.action == "leave out":
            return f"{what} is left out: {self.reason}"
        return f"{what} is {'attached' if self.action == 'attach' else 'copied'}"

    def as_json(self) -> dict[str, Any]:
        """Return the decision for JSON."""
        return {key: getattr(self, key) for key in ("index", "kind", "codec", "action", "target", "reason")}


@dataclass(frozen=True)
class Excerpt:
    """The part of the source that the output covers, in seconds."""

    start: Fraction = Fraction(0)
    """This time of the source becomes zero."""
    end: Fraction | None = None
    """Copied packets stop here; None copies to the end."""
    first_frame: Fraction | None = None
    """Time of the first frame, for containers without start times: their sound begins with it."""
    chosen: bool = False
    """The user chose the start."""


class CopiedStream:
    """A stream of the source and its place in the output."""

    def __init__(
        self,
        source: Any,
        target: Any,
        plan: StreamPlan,
        transcoder: AudioTranscoder | None = None,
        converter: SubtitleConverter | None = None,
    ) -> None:
        self.source, self.target, self._plan = source, target, plan
        self._transcoder, self._converter = transcoder, converter
        self._cut = Fraction(0)
        """Seconds of sound before the first frame that the container has no time for."""

    def packets(self, packet: av.Packet, excerpt: Excerpt) -> list[av.Packet]:
        """Return the packets for the output: none where this one lies outside the excerpt."""
        if self.source.disposition & Disposition.attached_pic:
            packet.pts = packet.dts = 0  # cover art has no time
            packet.stream = self.target
            return [packet]
        time_base = packet.time_base
        assert time_base is not None
        stamp = packet.pts if packet.pts is not None else packet.dts
        start = (stamp or 0) * time_base
        end = start + (packet.duration or 0) * time_base
        if excerpt.end is not None and start >= excerpt.end:
            return []
        if self._plan.kind == "audio" and excerpt.first_frame is not None:
            if start + end < 2 * excerpt.first_frame:
                if not excerpt.chosen:  # before zero, an encoder's lead-in: nobody hears it
                    self._cut += max(Fraction(0), end - max(start, Fraction(0)))
                return []
        elif excerpt.start and start < excerpt.start:
            if self._plan.kind != "subtitle" or end <= excerpt.start:
                return []
            packet = self._shortened(packet, excerpt.start)
        if self._plan.kind == "subtitle" and excerpt.end is not None and end > excerpt.end:
            packet.duration = round((excerpt.end - max(start, excerpt.start)) / time_base)
        if self._empty_text(packet):
            return []  # marks a pause, which the muxer writes itself
        if self._converter is not None:
            converted = self._converter.packet(packet)
            if converted is None:
                return []
            packet = converted
        shift = round(excerpt.start / time_base)
        packet.pts = None if packet.pts is None else packet.pts - shift
        packet.dts = None if packet.dts is None else packet.dts - shift
        if self._transcoder is not None:
            return list(self._transcoder.packets(packet))
        packet.stream = self.target
        return [packet]

    def finish(self) -> list[av.Packet]:
        """Return what a transcoder still holds."""
        return list(self._transcoder.finish()) if self._transcoder is not None else []

    def notes(self, suffix: str) -> list[str]:
        """Return a sentence for everything that the output lacks of this stream."""
        notes = []
        if self._cut:
            what = f"the first {float(self._cut):.3f} s of {self._plan.kind} stream {self._plan.index}"
            notes.append(f"{what} are left out: they come before the first frame, and {suffix} has no start times")
        if self._converter is not None:
            notes += self._converter.notes(self._plan.index)
        if self._transcoder is not None and (damaged := self._transcoder.damaged):
            notes.append(f"{damaged} packets of audio stream {self._plan.index} could not be decoded and are left out")
        return notes

    @staticmethod
    def _shortened(packet: av.Packet, start: Fraction) -> av.Packet:
        """Begin a subtitle that spans the cut at the cut."""
        assert packet.time_base is not None
        at = round(start / packet.time_base)
        before = packet.pts if packet.pts is not None else packet.dts or 0
        packet.duration = (packet.duration or 0) - (at - before)
        packet.pts = packet.dts = at
        return packet

    def _empty_text(self, packet: av.Packet) -> bool:
        return self._plan.codec == "mov_text" and packet.size == 2 and bytes(packet) == b"\0\0"


class PacketLengths:
    """Gives sound without durations its durations: up to the next packet. A last sample of no length would be lost."""

    def __init__(self) -> None:
        self._held: dict[int, av.Packet] = {}
        self._usual: dict[int, int] = {}

    def take(self, packet: av.Packet) -> list[av.Packet]:
        """Return the packets that are complete. An empty packet only marks an end."""
        index = packet.stream.index
        ready = []
        if (held := self._held.pop(index, None)) is not None:
            if packet.pts is not None and held.pts is not None and packet.pts > held.pts:
                held.duration = self._usual[index] = packet.pts - held.pts
            ready.append(held)
        if not packet.size:
            return ready
        if packet.duration or packet.stream.type != "audio":
            return [*ready, packet]
        self._held[index] = packet
        return ready

    def rest(self) -> list[av.Packet]:
        """Return the last packets, as long as the ones before."""
        for index, packet in self._held.items():
            packet.duration = self._usual.get(index, 0)
        return list(self._held.values())
