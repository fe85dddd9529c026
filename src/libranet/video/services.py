"""Programs in MPEG transport streams and the names of their services, which FFmpeg keeps and PyAV does not list."""

import io
from contextlib import suppress
from pathlib import Path
from typing import IO

_SYNC, _PACKET = b"\x47", 188
_PROGRAMS, _DESCRIPTIONS = 0x00, 0x11
"""Numbers (PID) of the packets with the list of programs (PAT) and with the description of services (SDT)."""
_DESCRIPTION, _SERVICE = 0x42, 0x48
_MOST = 2 << 20
"""Bytes in which it has to come: it is sent every two seconds."""
_OF_FFMPEG = {"service_name": "Service01", "service_provider": "FFmpeg"}
_UTF_8 = 0x15


def read_service(source: str | IO[bytes]) -> dict[str, str]:
    """Return name and provider of the first service, as FFmpeg's muxer calls them. Its own defaults do not count.

    Args:
        source: A file as FFmpeg takes it; other addresses are not asked twice.
    """
    section = _section(_beginning(source), _DESCRIPTIONS)
    at = 11
    if len(section) < at + 5 or section[0] != _DESCRIPTION:
        return {}
    end = at + 5 + ((section[at + 3] & 15) << 8 | section[at + 4])
    at += 5
    while at + 2 <= min(end, len(section)):
        kind, size = section[at], section[at + 1]
        if kind == _SERVICE:
            texts = _texts(section[at + 3 : at + 2 + size])
            found = dict(zip(("service_provider", "service_name"), texts, strict=False))
            return {key: text for key, text in found.items() if text and text != _OF_FFMPEG[key]}
        at += 2 + size
    return {}


def count_programs(source: str | IO[bytes]) -> int:
    """Return how many programs a transport stream has, as `read_service` reads it."""
    section = _section(_beginning(source), _PROGRAMS)
    if len(section) < 12:
        return 0
    end = min(len(section), 3 + ((section[1] & 15) << 8 | section[2])) - 4  # without its checksum
    return sum(any(section[at : at + 2]) for at in range(8, end - 3, 4))  # number 0 is the network's own table


def _beginning(source: str | IO[bytes]) -> bytes:
    if isinstance(source, io.BytesIO):
        return source.getvalue()[:_MOST]
    path = Path(source.removeprefix("file:")) if isinstance(source, str) and source.startswith("file:") else None
    if path is not None and path.is_file():  # what a pipe gave is gone
        with suppress(OSError), path.open("rb") as file:
            return file.read(_MOST)
    return b""


def _section(data: bytes, table: int) -> bytes:
    """Return the first section of a table, or what came of it."""
    section, at = b"", data.find(_SYNC)
    size = next((size for size in (188, 192, 204) if data[at + size : at + size + 1] == _SYNC), 0)
    while size and at >= 0 and at + _PACKET <= len(data) and data[at] == _SYNC[0]:
        packet = data[at : at + _PACKET]
        at += size
        if (packet[1] & 0x1F) << 8 | packet[2] != table or not packet[3] & 0x10:
            continue
        body = packet[5 + packet[4] :] if packet[3] & 0x20 else packet[4:]
        if packet[1] & 0x40 and body:
            if section:
                break
            body = body[1 + body[0] :]
        elif not section:
            continue
        section += body
        if len(section) >= 3 and len(section) >= 3 + ((section[1] & 15) << 8 | section[2]):
            break
    return section


def _texts(data: bytes) -> list[str]:
    found = []
    while data:
        text, data = data[1 : 1 + data[0]], data[1 + data[0] :]
        found.append(text[1:].decode("utf-8", "replace") if text[:1] == bytes([_UTF_8]) else text.decode("latin-1"))
    return found
