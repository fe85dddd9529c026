"""A script for vspipe and for Python: a clip from planes in hazy.npz, through our plug-in or, as `direct`, without it.

Its arguments come as globals: `kind` (VapourSynth's name of the format), `model`, and how often to read it from Python.
"""

import numpy as np
import torch
import vapoursynth as vs
import vslibranet

from libranet import Dehazer
from libranet.frames import ColorSpec, FrameFormat, Frames
from libranet.frames.format import PLANAR_RGB_FLOAT
from libranet.video.pixels import layout_of

FORMATS = {
    "YUV420P8": "yuv420p",
    "YUV422P10": "yuv422p10le",
    "YUV444P16": "yuv444p16le",
    "RGB24": "gbrp",
    "RGBS": "",
    "GRAY8": "gray",
}


def make_clip(planes: list[np.ndarray], kind: str) -> vs.VideoNode:
    count, height, width = planes[0].shape
    blank = vs.core.std.BlankClip(
        width=width, height=height, format=getattr(vs, kind), length=count, fpsnum=25, fpsden=1
    )
    blank = blank.std.SetFrameProps(Own="kept")
    if kind.startswith("YUV"):
        blank = blank.std.SetFrameProps(_Matrix=1, _Range=0, _ChromaLocation=0)

    def fill(n: int, f: vs.VideoFrame) -> vs.VideoFrame:
        frame = f.copy()
        for index, plane in enumerate(planes):
            np.asarray(frame[index])[...] = plane[n]
        return frame

    return vs.core.std.ModifyFrame(blank, blank, fill)


def direct(planes: list[np.ndarray], kind: str, model: str) -> list[list[np.ndarray]]:
    """The same by `Dehazer` alone; planes in VapourSynth's order."""
    layout = layout_of(FORMATS[kind]) if FORMATS[kind] else PLANAR_RGB_FLOAT
    order, back = ((1, 2, 0), (2, 0, 1)) if layout.model == "rgb" else ((0, 1, 2), (0, 1, 2))
    count, height, width = planes[0].shape
    color = ColorSpec("bt709", full_range=layout.model != "yuv")
    form = FrameFormat(width, height, layout, color)
    order, back = order[: len(planes)], back[: len(planes)]
    frames = [Frames(tuple(torch.from_numpy(planes[i][n : n + 1].copy()) for i in order), form) for n in range(count)]
    cuts = [n == CUT for n in range(count)]
    dehazer = Dehazer(model, rate=25)
    ready = dehazer.push_many(frames, cuts=cuts) + dehazer.flush()
    return [[frame.planes[i][0].numpy() for i in back] for frame in ready]


def planes_of(frame: vs.VideoFrame) -> list[np.ndarray]:
    return [np.array(plane) for plane in frame]


CUT = 6
"""The frame with which the tests' clip changes to another place."""

if "kind" in globals():  # from vspipe
    with np.load("hazy.npz") as stored:
        source = [stored[name] for name in sorted(stored)]
    vslibranet.dehaze(make_clip(source, kind), model=model).set_output()  # noqa: F821  # vspipe's arguments
