"""Thin layer over PyAV. Its versions 18 (FFmpeg 8) and 19 (FFmpeg 9) differ here and nowhere else."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from typing import IO, Any, get_args

import av
import av.filter
from av.codec.hwaccel import HWAccel
from av.packet import PacketSideData, PktSideDataT

_METADATA_OPTIONS: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
"""Metadata that is not UTF-8: PyAV 18 raises an error unless it may replace those bytes. PyAV 19 has no such option: it
reads them as surrogates and writes the same bytes again."""

_NEWER_TYPES = 8
"""Types of side data that PyAV may not know, at most."""


def open_input(
    source: str | IO[bytes],
    *,
    format_name: str | None = None,
    options: dict[str, str] | None = None,
    timeout: float | None = None,
    on_gpu: bool = False,
    stay_there: bool = False,
) -> av.container.InputContainer:
    """Open a container for reading.

    Args:
        source: A path or an address as FFmpeg takes it, or an open binary file.
        format_name: FFmpeg's name of the container format; None detects it.
        options: Options of the container format.
        timeout: Seconds to wait for a network source.
        on_gpu: Decode in an NVIDIA GPU, where it can. Frames come back to main memory.
        stay_there: Frames stay in the GPU's memory, and what it cannot decode is an error.
    """
    hwaccel = HWAccel("cuda", allow_software_fallback=not stay_there, is_hw_owned=stay_there) if on_gpu else None
    container = av.open(
        source, "r", format=format_name, options=options, timeout=timeout, hwaccel=hwaccel, **_METADATA_OPTIONS
    )
    if container.format.name == "mpegts":
        from libranet.video.services import read_service

        container.metadata.update(read_service(source))
    return container


def track_title(stream: Any) -> str:
    """Return the title of a stream: FFmpeg writes it into .mp4 and .mov, and calls it name where it reads it there."""
    return stream.metadata.get("title") or stream.metadata.get("name", "")


def codec_name(stream: Any) -> str:
    """Return FFmpeg's name of a stream's codec, or its type where it has none."""
    return stream.codec_context.codec.canonical_name if stream.codec_context else stream.type


def side_data(frame: av.VideoFrame, name: str) -> bytes | None:
    """Return a frame's side data of one type, such as DISPLAYMATRIX, or None."""
    item: Any = _known_side_data(frame).side_data.get(name)  # iterating gives values in PyAV 18 and keys in PyAV 19
    return None if item is None else bytes(item)


def side_data_names(frame: av.VideoFrame) -> frozenset[str]:
    """Return the types of a frame's side data that PyAV knows."""
    known: Any = _known_side_data(frame).side_data
    return frozenset(getattr(item, "type", item).name for item in known)


def set_side_data(packet: av.Packet, kind: str, data: bytes) -> None:
    types: tuple[str, ...] = get_args(PktSideDataT)
    piece: Any = PacketSideData(types.index(kind), len(data))  # type: ignore[call-arg]
    memoryview(piece)[:] = data
    packet.set_sidedata(piece)


def _known_side_data(frame: av.VideoFrame) -> av.VideoFrame:
    """Return the frame without side data whose type is newer than PyAV, such as EXIF, which PyAV cannot list."""
    for _ in range(_NEWER_TYPES):
        try:
            frame.side_data  # noqa: B018
        except ValueError as error:
            unknown = str(error).split(" ")[0]
            graph = filter_graph(frame, frame.time_base or Fraction(1, 1000), "sidedata", f"mode=delete:type={unknown}")
            graph.push(frame)
            clean = graph.pull()
            assert isinstance(clean, av.VideoFrame)
            frame = clean
        else:
            break
    return frame


def filter_graph(frame: av.VideoFrame, time_base: Fraction, name: str, arguments: str) -> av.filter.Graph:
    """Build a graph with one of FFmpeg's filters for frames such as this one."""
    graph = av.filter.Graph()
    source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=time_base)
    graph.link_nodes(source, graph.add(name, arguments), graph.add("buffersink")).configure()
    return graph


def deinterlaced(frames: Iterable[av.VideoFrame], time_base: Fraction) -> Iterator[av.VideoFrame]:
    """Deinterlace with FFmpeg's bwdif: one frame out per frame in, with its timestamp."""
    graph: av.filter.Graph | None = None
    for frame in chain(frames, [None]):
        if graph is None:
            if frame is None:
                return
            graph = filter_graph(frame, time_base, "bwdif", "mode=send_frame:deint=all")
        graph.push(frame)
        with suppress(av.BlockingIOError, av.EOFError):
            while True:
                ready = graph.pull()
                assert isinstance(ready, av.VideoFrame)
                yield ready
