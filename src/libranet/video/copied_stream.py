"""One stream of the source on its way to the output: the decision about it, and its packets, cut or repacked."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import av
from av.stream import Disposition

from libranet.video.excerpt import Excerpt

if TYPE_CHECKING:
    from libranet.video.audio import AudioTranscoder
    from libranet.video.heard import HeardSound
    from libranet.video.subtitles import SubtitleConverter

_LEAD_IN = Fraction(6, 100)
"""Seconds that encoders put before a sound, at most: 2112 samples at 44.1 kHz, and half a packet."""
AUDIO_CHOICES = ("copy", "none", "aac", "opus", "flac", "ac3", "mp3", "mp2", "pcm")
"""What may happen to sound: copied, left out, or transcoded to a codec (`audio.py`)."""
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
        copied = f"{what} is {'attached' if self.action == 'attach' else 'copied'}"
        return f"{copied}: {self.reason}" if self.reason else copied

    def as_json(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("index", "kind", "codec", "action", "target", "reason")}


class CopiedStream:
    """A stream of the source and its place in the output."""

    def __init__(
        self,
        source: Any,
        target: Any,
        plan: StreamPlan,
        transcoder: "AudioTranscoder | None",
        converter: "SubtitleConverter | None",
        *,
        heard: "HeardSound | None",
        hides: bool,
    ) -> None:
        """Connect two streams.

        Args:
            source: Of the source.
            target: Of the output.
            plan: The decision about it.
            transcoder: What gives the sound another codec; None copies it.
            converter: What gives subtitles another codec; None copies them.
            heard: Listens to the source, for a later comparison.
            hides: The container has edit lists, which hide what comes before zero.
        """
        self.source, self.target, self._plan = source, target, plan
        self._transcoder, self._converter = transcoder, converter
        self.heard, self._hides = heard, hides
        self._cut = Fraction(0)
        """Seconds of sound before the first frame that the container has no time for."""
        self._audible = False
        """Sound that is not hidden has come."""
        self._lead_in: bool | None = None
        """Hidden packets at the beginning stay; None before the first packet."""

    @property
    def transcodes(self) -> bool:
        """Whether the sound gets another codec."""
        return self._transcoder is not None

    @property
    def is_as_it_was(self) -> bool:
        """Whether its packets are those of the source."""
        return self._transcoder is None and self._converter is None

    def packets(self, packet: av.Packet, excerpt: Excerpt) -> list[av.Packet]:
        """Return the packets for the output: none where this one lies outside the excerpt."""
        if self.source.disposition & Disposition.attached_pic:
            packet.pts = packet.dts = 0  # cover art has no time
            packet.stream = self.target
            return [packet]
        time_base = packet.time_base
        assert time_base is not None
        frames = self.heard.take(packet) if self.heard is not None else []
        if self._transcoder is not None:
            return self._timed(self._transcoder.packets(frames, excerpt.start), excerpt)
        if self._plan.kind == "audio" and self._hidden(packet):
            return []
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
        elif excerpt.chosen and start < excerpt.start:
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
        packet.stream = self.target
        return [packet]

    def finish(self, excerpt: Excerpt) -> list[av.Packet]:
        """Drain the decoder, and return what a transcoder still holds."""
        frames = self.heard.take(None) if self.heard is not None else []
        if self._transcoder is None:
            return []
        return self._timed((*self._transcoder.packets(frames, excerpt.start), *self._transcoder.finish()), excerpt)

    def notes(self, suffix: str) -> list[str]:
        """Return a sentence for everything that the output lacks of this stream."""
        notes = []
        if self._cut:
            what = f"the first {float(self._cut):.3f} s of {self._plan.kind} stream {self._plan.index}"
            notes.append(f"{what} are left out: they come before the first frame, and {suffix} has no start times")
        if self._converter is not None:
            notes += self._converter.notes(self._plan.index)
        if self._transcoder is not None and self.heard is not None and (damaged := self.heard.damaged):
            notes.append(f"{damaged} packets of audio stream {self._plan.index} could not be decoded and are left out")
        return notes

    def _hidden(self, packet: av.Packet) -> bool:
        """Return whether an edit list of the source hides a packet that the output would make audible.

        An encoder's lead-in stays: decoders need it, and it is silent.
        """
        if self._lead_in is None:
            self._lead_in = self._hides or -_LEAD_IN <= (packet.pts or 0) * (packet.time_base or 0) < 0
        hidden = packet.is_discard and (self._audible or not self._lead_in)
        self._audible |= not packet.is_discard
        return hidden

    @staticmethod
    def _timed(packets: Iterable[av.Packet], excerpt: Excerpt) -> list[av.Packet]:
        """Leave out an encoder's lead-in where times begin at zero: FFmpeg would move every other frame for it."""
        return [packet for packet in packets if excerpt.first_frame is None or (packet.pts or 0) >= 0]

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
