"""What an uploaded file is, found by decoding its first frame in a process of its own with little to lose.

`python -m libranet.serve.media PIXELS SECONDS PROCESSOR_SECONDS` loads its libraries, reads paths from standard input
and answers each with the facts as JSON, from a copy of itself (a fork) that ends with the file. It imports no PyTorch,
so that it starts fast and fits into a small address space. A file's name is never looked at.
"""

import json
import math
import os
import re
import sys
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import av
import cv2

from libranet.errors import InputError
from libranet.image_structure import ImageHeader, read_header
from libranet.images import read_image
from libranet.serve.confine import limit_address_space, limit_time
from libranet.video.pyav import open_input

DEMUXERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,asf,ogg,gif,mxf,yuv4mpegpipe"
"""Containers that hold their own frames. Playlists and the like, which name other files, are not among them."""
REFUSED = "the file takes too much time or memory to decode, or makes the decoder fail"
MIN_SIDE = 16
_FRAMES_TO_CHECK = 3
_ADDRESS_SPACE = 2 << 30
"""Beside the libraries: a frame of the largest size as FFmpeg and OpenCV hold it, several times."""
_SUFFIXES = {"avi": ".avi", "mpegts": ".ts", "mpeg": ".mpg", "gif": ".gif", "mxf": ".mxf"}


@dataclass(frozen=True)
class Media:
    """What a file holds."""

    kind: Literal["image", "video"]
    suffix: str
    """That the file gets, by its content, and the result, unless the user chooses another."""
    width: int
    """As it is shown, after rotation."""
    height: int
    format: str
    """Codec or image format."""
    frames: int | None = 1
    rate: float | None = None
    seconds: float | None = None
    sound: bool = False
    interlaced: bool = False


def inspect(path: Path, *, pixels: int, seconds: float) -> Media:
    """Find out what a file is, by decoding."""
    header = read_header(path)
    return _inspect_video(path, pixels, seconds) if header is None else _inspect_image(path, header, pixels)


def _inspect_image(path: Path, header: ImageHeader, pixels: int) -> Media:
    suffix = _image_suffix(path)
    _check_size(header.width, header.height, pixels)
    if header.width * header.height * header.frames > 8 * pixels:
        raise InputError(f"the animation has {header.frames} frames, which is more than fits into memory: use a video")
    named = path.with_name(f"image{suffix}")
    named.unlink(missing_ok=True)
    named.symlink_to(path.name)  # the reader goes by the suffix
    try:
        image = read_image(named)
    except cv2.error:
        raise InputError("the image is damaged") from None
    finally:
        named.unlink(missing_ok=True)
    height, width = image.samples.shape[:2]
    _check_size(width, height, pixels)
    if image.orientation[0] % 2:
        width, height = height, width
    return Media("image", suffix, width, height, suffix.lstrip("."), header.frames)


def _image_suffix(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(4)
    signs = {b"\x89PNG": ".png", b"RIFF": ".webp", b"II*\0": ".tif", b"MM\0*": ".tif"}
    return signs.get(head, ".bmp" if head.startswith(b"BM") else ".jpg")


def _inspect_video(path: Path, pixels: int, longest: float) -> Media:
    options = {"format_whitelist": DEMUXERS, "protocol_whitelist": "file"}
    try:
        with open_input(f"file:{path}", options=options) as container:
            if not container.streams.video:
                raise InputError("the file has no video")
            stream = container.streams.video[0]
            context = stream.codec_context
            if context is None:
                raise InputError("the video has a codec that FFmpeg cannot decode: convert it to H.264 first")
            _check_size(context.width, context.height, pixels)
            context.options = {"max_pixels": str(pixels)}
            length = _seconds(container, stream)
            if length is not None and length > longest:
                raise InputError(
                    f"the video is {length:.0f} s long, at most {longest:.0f} s are accepted: cut it first"
                )
            frames = list(islice(container.decode(stream), _FRAMES_TO_CHECK))
            if not frames:
                raise InputError("no frame of the video can be decoded")
            first = frames[0]
            _check_size(first.width, first.height, pixels)
            turned = round(first.rotation / 90) % 2 == 1
            rate = stream.average_rate or stream.guessed_rate
            return Media(
                "video",
                _video_suffix(path, container.format.name, dict(container.metadata)),
                first.height if turned else first.width,
                first.width if turned else first.height,
                context.codec.canonical_name,
                stream.frames or (round(length * rate) if length and rate else None),
                None if rate is None else float(rate),
                length,
                bool(container.streams.audio),
                any(frame.interlaced_frame for frame in frames),
            )
    except (av.FFmpegError, OSError, ValueError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("this is neither an image nor a video that FFmpeg can decode") from None


def _seconds(container: av.container.InputContainer, stream: av.VideoStream) -> float | None:
    lengths = [container.duration / av.time_base] if container.duration else []
    if stream.duration and stream.time_base:
        lengths.append(float(stream.duration * stream.time_base))
    lengths = [length for length in lengths if math.isfinite(length) and length > 0]
    return max(lengths) if lengths else None


def _video_suffix(path: Path, demuxer: str, metadata: dict[str, str]) -> str:
    if demuxer == "matroska,webm":
        with path.open("rb") as file:
            return ".webm" if b"webm" in file.read(64) else ".mkv"
    if demuxer.startswith("mov,"):
        return ".mov" if metadata.get("major_brand", "").strip() == "qt" else ".mp4"
    return _SUFFIXES.get(demuxer, ".mkv")  # which holds whatever the others do


def _check_size(width: int, height: int, pixels: int) -> None:
    if min(width, height) < MIN_SIDE:
        raise InputError(f"the image is {width}x{height}: expected at least {MIN_SIDE}x{MIN_SIDE} pixels")
    if width * height > pixels:
        raise InputError(f"the image is {width}x{height}: at most {pixels / 1e6:.0f} million pixels are accepted")


def without_paths(text: str, folder: Path, name: str) -> str:
    """Put a name in the place of every path below a folder: visitors need not know where files are."""
    return re.sub(re.escape(str(folder)) + r"[^\s:,;()'\"]*", lambda _: name, text)


def main() -> None:
    """Answer every path with the facts of its file, or why it is refused, as lines of JSON."""
    pixels, seconds, processor_seconds = sys.argv[1:]
    cv2.setNumThreads(1)
    av.logging.set_level(av.logging.PANIC)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries write about damaged files there
    _print({"ready": True})
    for line in sys.stdin:
        path = Path(json.loads(line)["path"])
        copy = os.fork() if hasattr(os, "fork") else None  # Windows: the server replaces a process that dies
        if not copy:
            _answer(path, int(pixels), float(seconds), float(processor_seconds))
        if copy == 0:
            os._exit(0)
        if copy and os.waitpid(copy, 0)[1] != 0:
            _print({"error": REFUSED})


def _answer(path: Path, pixels: int, seconds: float, processor_seconds: float) -> None:
    """Inspect one file within limits that end this process."""
    limit_address_space(_ADDRESS_SPACE)
    limit_time(processor_seconds)
    try:
        answer = asdict(inspect(path, pixels=pixels, seconds=seconds))
    except InputError as error:
        answer = {"error": without_paths(str(error), path.parent, "the file")}
    except MemoryError:
        answer = {"error": "decoding the file takes too much memory"}
    _print(answer)


def _print(answer: dict[str, Any]) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
