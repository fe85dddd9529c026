"""Pixel formats, and exact access to the planes of FFmpeg's frames."""

import av
import numpy as np
import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.frames.format import Model, PixelLayout

_PLANAR_EQUIVALENTS = {
    "nv12": "yuv420p", "nv21": "yuv420p", "nv16": "yuv422p", "nv24": "yuv444p", "nv42": "yuv444p",
    "nv20le": "yuv422p10le", "p010le": "yuv420p10le", "p012le": "yuv420p12le", "p016le": "yuv420p16le",
    "p210le": "yuv422p10le", "p212le": "yuv422p12le", "p410le": "yuv444p10le",
    "yuyv422": "yuv422p", "uyvy422": "yuv422p", "yvyu422": "yuv422p", "y210le": "yuv422p10le", "y212le": "yuv422p12le",
    "x2rgb10le": "gbrp10le", "x2bgr10le": "gbrp10le",
    "yuvj420p": "yuv420p", "yuvj422p": "yuv422p", "yuvj440p": "yuv440p", "yuvj444p": "yuv444p",
    "monob": "gray", "monow": "gray", "ya8": "gbrap", "ya16le": "gbrap16le",
}  # fmt: skip
"""Packed and deprecated formats, and the planar formats that hold the same samples in the same precision."""


def planar_name(name: str) -> str:
    """Return the planar little-endian format that holds the same samples as format `name`.

    Raises:
        InputError: There is none.
    """
    little = name[:-2] + "le" if name.endswith("be") else name
    if little in _PLANAR_EQUIVALENTS:
        return _PLANAR_EQUIVALENTS[little]
    if _is_planar(little):
        return little
    fmt = av.VideoFormat(name)
    if "f16" in little or "f32" in little:
        raise InputError(
            f"the pixel format {name} holds linear light as floating-point numbers, such as EXR: convert it to "
            "16 bit PNG or TIFF with a display's transfer curve first"
        )
    bits = max((component.bits for component in fmt.components), default=8)
    if fmt.is_rgb or fmt.has_palette:
        alpha = len(fmt.components) == 4
        return ("gbrap" if alpha else "gbrp") + ("16le" if bits > 8 else "")
    raise InputError(f"the pixel format {name} is not supported: convert the video to yuv420p or yuv420p10le first")


def layout_of(name: str) -> PixelLayout:
    """Describe a planar format."""
    fmt = av.VideoFormat(name, 64, 64)
    components = fmt.components
    model: Model = "gray" if name.startswith("gray") else "rgb" if fmt.is_rgb else "yuv"
    sub_x = sub_y = 1
    if model == "yuv":
        sub_x, sub_y = 64 // components[1].width, 64 // components[1].height
    return PixelLayout(name, model, components[0].bits, sub_x, sub_y, len(components) in (2, 4))


def to_planar(frame: av.VideoFrame) -> av.VideoFrame:
    """Convert a frame to its planar format. Samples and properties stay as they are."""
    name = frame.format.name
    target = planar_name(name)
    if target == name:
        return frame
    full = name.startswith("yuvj")
    color_range = 2 if full or frame.format.is_rgb else (frame.color_range or 1)
    planar = frame.reformat(format=target, src_color_range=color_range, dst_color_range=color_range)
    if full:
        planar.color_range = 2
    return planar


def is_opaque(frame: av.VideoFrame) -> bool:
    """Return whether a planar frame has alpha, and none of it is transparent."""
    components = frame.format.components
    return len(components) == 4 and bool((plane_views(frame)[3] == (1 << components[3].bits) - 1).all())


def read_planes(frame: av.VideoFrame) -> list[Tensor]:  # each [h, w], uint8 or uint16
    """Copy the planes of a planar frame."""
    return [torch.from_numpy(view.copy()) for view in plane_views(frame)]


def write_planes(
    frame: av.VideoFrame,
    planes: list[Tensor],  # each [h, w], integers in the frame's code range
) -> None:
    """Overwrite the planes of a planar frame; planes beyond those given (alpha) keep their samples."""
    for view, plane in zip(plane_views(frame), planes, strict=False):
        np.copyto(view, plane.numpy())  # by this thread alone: torch's threads would wait for cores that encoders have


def plane_views(frame: av.VideoFrame) -> list[np.ndarray]:
    """Arrays that share the memory of a planar frame, without its padding."""
    views = []
    wide = max(component.bits for component in frame.format.components) > 8
    for plane in frame.planes:
        dtype = np.dtype("<u2") if wide else np.dtype(np.uint8)
        if plane.line_size < 0:
            raise InputError("a bottom-up frame was decoded, which is not supported: convert the video first")
        views.append(
            np.ndarray(
                (plane.height, plane.width), dtype, buffer=memoryview(plane), strides=(plane.line_size, dtype.itemsize)
            )
        )
    return views


def _is_planar(name: str) -> bool:
    if not name.startswith(("yuv", "gbr", "gray")) or "f16" in name or "f32" in name or "msb" in name:
        return False
    try:
        fmt = av.VideoFormat(name)
    except ValueError:
        return False
    return fmt.is_planar or name.startswith("gray")
