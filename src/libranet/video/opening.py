"""Opening a source: files, addresses that may keep us waiting, frames of another program."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import av

from libranet.errors import InputError
from libranet.video.decoding import reason
from libranet.video.pyav import open_input
from libranet.video.source import Source

NETWORK_TIMEOUT = 20.0
"""Seconds to wait for a network source."""
_OPTIONS = {"rtsp": {"rtsp_transport": "tcp"}, "http": {"multiple_requests": "1"}}
"""Of FFmpeg for each protocol. With a connection for each request, FFmpeg 8 loses the first packet behind a seek where
a server sends ranges by HTTP/1.1."""


_STILL_BRANDS = {
    **dict.fromkeys((b"avif", b"avio"), "AVIF"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis"), "HEIC"),
    **dict.fromkeys((b"mif1", b"mif2"), "HEIF"),
}
"""First brands of files that hold still images in the boxes of mp4."""


_MOVING = ("webp", "gif", "exr")
"""FFmpeg's readers of one image whose files may hold more, or have an error of their own."""


class CountedFile:
    """A file of another program that counts what is read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.size += len(data)
        return data


def open_source(source: Source) -> av.container.InputContainer:
    """Open a file, an address or a pipe.

    Raises:
        InputError: FFmpeg cannot read it.
    """
    name = source.name
    head = _head(source.path) if source.kind == "file" and source.path is not None else b""
    if kind := still_image(head, name):
        raise InputError(f"{name} is a still image ({kind}), which is not read here: convert it to PNG or TIFF first")
    try:
        return _opened(source)
    except InputError:
        raise
    except (av.FFmpegError, OSError, ValueError) as error:
        if b"ftyp" in head:
            raise InputError(
                f"{name} is an mp4 or mov file without its index ({reason(error)}): the recording was cut off, "
                "repair it with a tool such as untrunc first"
            ) from None
        raise InputError(f"{name} is not a video that FFmpeg can read ({reason(error)}): check the file") from None


def _opened(source: Source) -> av.container.InputContainer:
    name = source.name
    if name.lower().startswith("srt://"):
        from libranet.video.srt import receive

        return _interruptible(lambda: open_input(cast(IO[bytes], receive(name)), format_name="mpegts"))
    if source.kind == "url":
        options = next((options for scheme, options in _OPTIONS.items() if name.startswith(scheme)), {})
        return _interruptible(lambda: open_input(name, options=options, timeout=NETWORK_TIMEOUT))
    if source.kind == "pipe":
        return _interruptible(lambda: open_input(source.location))
    container = open_input(source.location)
    kind = container.format.name.removesuffix("_pipe")
    if kind == "ico" or (kind != container.format.name and kind not in _MOVING):
        container.close()
        ending = "with that ending of its name"
        raise InputError(f"{name} is a still image ({kind.upper()}): convert it to PNG or TIFF first, {ending}")
    return container


def still_image(head: bytes, name: str) -> str:
    """Return the kind of a still image that `libranet.images` does not read, or nothing.

    FFmpeg would make a video of one frame of it, or of one tile of it.

    Args:
        head: The first bytes of a file.
        name: Its name: TGA has no sign of its own at the beginning.
    """
    if head[4:8] == b"ftyp":
        return _STILL_BRANDS.get(head[8:12], "")
    if head.startswith((b"\xff\x0a", b"\0\0\0\x0cJXL ")):
        return "JPEG XL"
    if head[:1] == b"P" and head[1:2] in b"1234567" and head[2:3].isspace():
        return "PPM, PGM, PBM or PAM"
    return "TGA" if name.lower().endswith(".tga") else ""


def open_on_gpu(source: Source) -> tuple[av.container.InputContainer | None, str]:
    """Open a file to be decoded in an NVIDIA GPU.

    Returns:
        The container, or None and the reason why the CPU has to decode it.
    """
    if source.kind != "file":
        return None, "only files are decoded there"
    try:
        return open_input(source.location, on_gpu=True), ""
    except (av.FFmpegError, OSError, ValueError, NotImplementedError) as error:
        return None, reason(error)


def decodes_on_gpu(stream: av.VideoStream | None) -> bool:
    """Return whether a GPU decodes a stream. It is known after the first frame."""
    return stream is not None and bool(stream.codec_context.is_hwaccel)


def open_y4m(file: CountedFile, name: str) -> av.container.InputContainer:
    """Open frames of another program.

    Raises:
        InputError: They are no y4m.
    """
    try:
        return open_input(cast(IO[bytes], file), format_name="yuv4mpegpipe")
    except (av.FFmpegError, OSError, ValueError) as error:
        raise InputError(f"{name} is not a video that FFmpeg can read ({reason(error)}): check the file") from None


def _interruptible(work: Callable[[], av.container.InputContainer]) -> av.container.InputContainer:
    """Open a source that may keep us waiting in another thread, so that Ctrl-C works meanwhile."""
    results: list[av.container.InputContainer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="open", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if errors:
        raise errors[0]
    return results[0]


def _head(name: Path) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read(16)
    except OSError:
        return b""
