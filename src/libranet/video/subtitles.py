"""Subtitles that change their container: plain text is repacked, everything else is copied as it is."""

from dataclasses import dataclass
from typing import Any

import av

_TEXT_CODEC = {".mp4": "mov_text", ".m4v": "mov_text", ".mov": "mov_text", ".mkv": "subrip", ".webm": "webvtt"}
_READABLE = ("subrip", "mov_text", "webvtt", "text")


@dataclass(frozen=True)
class SubtitleCopy:
    """How the packets of one plain-text subtitle stream get into another codec."""

    source: str
    codec: str

    @staticmethod
    def between(stream: Any, suffix: str) -> "SubtitleCopy | None":
        """None where the container takes the stream as it is, or no plain text is at hand."""
        name = stream.codec_context.codec.canonical_name if stream.codec_context else ""
        target = _TEXT_CODEC.get(suffix)
        if target is None or name == target or name not in _READABLE:
            return None
        if suffix == ".mkv" and name != "mov_text":
            return None
        return SubtitleCopy(name, target)

    def packet(self, packet: av.Packet) -> av.Packet:
        """The same text at the same time, packed anew."""
        data = bytes(packet)
        if self.source == "mov_text":
            data = data[2 : 2 + int.from_bytes(data[:2], "big")]
        if self.codec == "mov_text":
            data = len(data).to_bytes(2, "big") + data
        repacked = av.Packet(data)
        repacked.pts, repacked.dts, repacked.duration = packet.pts, packet.dts, packet.duration
        repacked.time_base = packet.time_base
        repacked.is_keyframe = True
        return repacked
