"""How PyAV's versions differ: 18 with FFmpeg 8, and 19 with FFmpeg 9. No other module asks for the version."""

from typing import IO, Any

import av

_METADATA_OPTIONS: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
"""Metadata that is not UTF-8: PyAV 18 raises an error unless it may replace those bytes. PyAV 19 has no such
option: it reads them as surrogates and writes the same bytes again."""


def open_input(
    source: str | IO[bytes],
    *,
    format_name: str | None = None,
    options: dict[str, str] | None = None,
    timeout: float | None = None,
) -> av.container.InputContainer:
    """Open a container for reading.

    Args:
        source: A path or an address as FFmpeg takes it, or an open binary file.
        format_name: FFmpeg's name of the container format; None detects it.
        options: Options of the container format.
        timeout: Seconds to wait for a network source.
    """
    return av.open(source, "r", format=format_name, options=options, timeout=timeout, **_METADATA_OPTIONS)


def side_data(frame: av.VideoFrame, name: str) -> bytes | None:
    """Return a frame's side data of one type, such as DISPLAYMATRIX, or None."""
    item: Any = frame.side_data.get(name)  # iterating gives values in PyAV 18 and keys in PyAV 19
    return None if item is None else bytes(item)
