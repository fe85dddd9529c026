"""Text subtitles from one codec into another, by FFmpeg's decoders and encoders, and what of their markup is lost."""

import re
from collections import Counter
from typing import Any

import av
from av.subtitles.subtitle import SubtitleSet

_TARGETS = {".mp4": "mov_text", ".m4v": "mov_text", ".mov": "mov_text", ".mkv": "subrip", ".webm": "webvtt"}
_TEXT = ("subrip", "mov_text", "webvtt", "text", "ass", "ssa")
_LONGEST = {"mov_text": 65_000}
"""Bytes of one subtitle: 65,535 with its styles."""
_OVERRIDE = re.compile(r"\{[^}]*\}")
_SETTING = re.compile(r"\\(1c|[a-z]+)&?H?([^\\}&]*)")
_NAMES = {
    "i": "italics", "b": "bold", "u": "underline", "s": "strike-out", "c": "colour", "an": "position", "a": "position",
    "pos": "position", "move": "position", "fn": "font", "fs": "font size", "bord": "outline", "shad": "shadow",
}  # fmt: skip
_WEBVTT = {"v": "speakers", "c": "classes", "ruby": "ruby", "lang": "languages"}
"""Markup of WebVTT that FFmpeg does not decode."""


def text_codec(codec: str, suffix: str) -> str | None:
    """Return the codec that text subtitles need in a container; None where they stay, or are no text."""
    target = _TARGETS.get(suffix)
    if target is None or codec == target or codec not in _TEXT:
        return None
    if suffix == ".mkv" and codec != "mov_text":
        return None
    return target


class SubtitleConverter:
    """Subtitles of a stream in another codec, with the markup that both know."""

    def __init__(self, source: Any, container: Any, codec: str) -> None:
        """Add a stream for them to an output container."""
        self._decoder = source.codec_context
        self._decoder.open(strict=False)
        self._codec = codec
        self.target = container.add_stream(codec)
        self.target.time_base = self.target.codec_context.time_base = source.time_base
        self.target.codec_context.subtitle_header = self._decoder.subtitle_header
        self._reader: Any = av.CodecContext.create(codec, "r")
        self._lost: Counter[str] = Counter()
        self._cut = self._unread = 0

    def packet(self, packet: av.Packet) -> av.Packet | None:
        """Return a subtitle in the other codec at the same time; None where there is nothing to show."""
        try:
            given = self._decoder.decode2(packet)
            if given is None or not len(given):
                return None
            first, *others = (rect.ass for rect in given)
            # Several at once become lines of one. The text of an event comes after eight fields.
            event = self._shortened(rb"\N".join([first, *(other.split(b",", 8)[-1] for other in others)]))
            encoded = av.Packet(bytes(self.target.codec_context.encode_subtitle(SubtitleSet.create(event, 0, 1000))))
            self._compare(packet, event, encoded)
        except (av.FFmpegError, ValueError):
            self._unread += 1
            return None
        encoded.pts, encoded.dts, encoded.duration = packet.pts, packet.dts, packet.duration
        encoded.time_base, encoded.is_keyframe = packet.time_base, True
        return encoded

    def notes(self, index: int) -> list[str]:
        """Return a sentence for everything that the subtitles lost."""
        notes = []
        if self._lost:
            names = ", ".join(f"{name} ({count})" for name, count in self._lost.items())
            notes.append(f"markup of subtitle stream {index} that {self._codec} does not hold is left out: {names}")
        if self._cut:
            most = _LONGEST[self._codec]
            notes.append(f"{self._cut} subtitles of stream {index} end after {most} bytes: {self._codec} holds no more")
        if self._unread:
            notes.append(f"{self._unread} subtitles of stream {index} cannot be decoded and are left out")
        return notes

    def _shortened(self, event: bytes) -> bytes:
        most = _LONGEST.get(self._codec, len(event))
        if len(event) <= most:
            return event
        self._cut += 1
        return event[:most].decode(errors="ignore").encode()

    def _compare(self, packet: av.Packet, given: bytes, encoded: av.Packet) -> None:
        copy = av.Packet(bytes(encoded))
        copy.pts, copy.dts, copy.duration = 0, 0, 1
        found = self._reader.decode2(copy)
        kept = _settings(b"".join(rect.ass for rect in found).decode(errors="replace")) if found else set()
        lost = {_NAMES[name] for name, value in _settings(given.decode(errors="replace")) - kept}
        if self._decoder.name == "webvtt":
            raw = re.findall(r"<([a-z]+)", bytes(packet).decode(errors="replace"))
            lost |= {_WEBVTT[name] for name in raw if name in _WEBVTT}
            lost |= {"position"} if packet.has_sidedata("webvtt_settings") else set()
        if self._decoder.name in ("ass", "ssa") and given.split(b",")[2] not in (b"", b"Default"):
            lost.add("styles")
        self._lost.update(lost)


def _settings(event: str) -> set[tuple[str, str]]:
    """Return the settings inside of an event that switch something on."""
    found = set()
    for block in _OVERRIDE.findall(event):
        for word, value in _SETTING.findall(block):
            name = word.removeprefix("1")
            if name in _NAMES and value not in ("", "0"):
                found.add((name, value.lstrip("0") if name == "c" else value))
    return found
