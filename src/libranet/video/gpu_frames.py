"""Frames that an NVIDIA GPU decodes and that stay in its memory, for `Dehazer`."""

import ctypes
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import av
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from libranet.errors import InputError
from libranet.frames import FrameFormat, Frames
from libranet.video.decoding import reason
from libranet.video.pixels import layout_of, planar_name
from libranet.video.pyav import open_input
from libranet.video.reader import main_video_stream
from libranet.video.tags import read_tags

SHIFTS = {"nv12": 0, "p010le": 6}
"""What the decoder writes, and by how many bits its samples lie too high."""
_BLOCKING = 4  # CU_CTX_SCHED_BLOCKING_SYNC


def read_gpu_frames(path: str | Path) -> Iterator[Frames]:
    """Decode a file in the GPU, frame by frame. Frames are the caller's own, in YUV as the file has it.

    Raises:
        InputError: The GPU or this FFmpeg cannot decode the file.

    Examples:
        >>> for frame in read_gpu_frames("foggy.mp4"):
        ...     for clear in dehazer.push(frame):  # `Frames` on the same GPU
        ...         show(clear.planes)
    """
    _share_context()
    try:
        with open_input(str(path), on_gpu=True, stay_there=True) as container:
            stream = main_video_stream(container)
            if stream is None:
                raise InputError(f"{path} has no video stream: give a file with video")
            for frame in container.decode(stream):
                yield own_planes(frame, stream)
    except (av.FFmpegError, OSError, NotImplementedError) as error:
        raise InputError(f"the GPU cannot decode {path} ({reason(error)}): decode it with --decoder cpu") from None


def _share_context() -> None:
    """Let FFmpeg decode in the context that torch computes in: it takes none that waits for the GPU in another way."""
    if torch.cuda.is_initialized():
        with suppress(OSError):  # a driver of another name: FFmpeg then says that it cannot decode
            ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxSetFlags_v2(torch.cuda.current_device(), _BLOCKING)


def own_planes(frame: av.VideoFrame, stream: av.VideoStream) -> Frames:
    """Copy a frame of interleaved chroma into planes, in the memory where it is."""
    name = (frame.sw_format or frame.format).name
    if name not in SHIFTS:
        raise InputError(f"the GPU decodes this file to {name}, which is not read there: use --decoder cpu")
    luma, chroma = (_share(plane) for plane in frame.planes)
    planes = tuple(_moved(plane, SHIFTS[name])[None] for plane in (luma, *chroma.unbind(-1)))
    if luma.is_cuda:  # the decoder takes its memory back as soon as the frame is gone
        torch.cuda.current_stream(luma.device).synchronize()
    planar = planar_name(name)
    color = read_tags(frame, stream).color_spec(planar, frame.height)
    return Frames(planes, FrameFormat(frame.width, frame.height, layout_of(planar), color))


def _share(plane: object) -> Tensor:
    # PyAV refuses the stream that torch would ask it to wait for: what the decoder wrote is complete when it returns.
    return from_dlpack(plane.__dlpack__())  # type: ignore[attr-defined]


def _moved(plane: Tensor, bits: int) -> Tensor:
    if not bits:
        return plane.contiguous() if not plane.is_contiguous() else plane.clone()
    low = plane.view(torch.int16).bitwise_right_shift(bits).bitwise_and_(0xFFFF >> bits)  # torch shifts no uint16
    return low.contiguous().view(torch.uint16)
