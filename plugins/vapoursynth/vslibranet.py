"""LiBrA-Net in VapourSynth: `vslibranet.dehaze(clip)` in a script of vspipe, of an editor or of a player."""

from collections import OrderedDict

import numpy as np
import torch
import vapoursynth as vs

from libranet import Dehazer
from libranet.errors import InputError
from libranet.frames import FrameFormat, Frames, PixelLayout
from libranet.video.pixels import layout_of
from libranet.video.shots import ShotDetector
from libranet.video.tags import VideoTags

SITINGS = ("left", "center", "topleft", "top", "bottomleft", "bottom")
"""By the numbers of _ChromaLocation."""


def dehaze(
    clip: vs.VideoNode,
    *,
    strength: float = 1.0,
    model: str | None = None,
    steady: float = 1.0,
    device: str = "auto",
    precision: str = "auto",
) -> vs.VideoNode:
    """Dehaze a clip. Format, size, length and frame properties stay.

    Frames that are requested in order are restored as a stream, as `libranet.Dehazer` does. After a jump, reading
    begins again a second before the frame, or as `steady` says, because colours are averaged over that time.

    Args:
        clip: 8 to 16 bit YUV, RGB or gray, or RGB in floating point (RGBS).
        strength: 0 changes nothing, 1 is the network's output, up to 1.5.
        model: `libranet-small`, a checkpoint's path, or None for the default network.
        steady: Seconds over which colours are kept steady, 0 to 2.
        device: As `libranet.device.pick_device` takes it.
        precision: As `libranet.device.pick_dtype` takes it.

    Raises:
        InputError: The clip's format is not supported, or an option is wrong.
    """
    layout = _layout(clip)
    rate = float(clip.fps) or 25.0
    dehazer = Dehazer(model, strength=strength, steady=steady, rate=rate, device=device, precision=precision)
    stream = _Stream(clip, dehazer, layout, warm_up=round(steady * rate))
    return vs.core.std.ModifyFrame(clip, clip, stream.frame)


class _Stream:
    """Answers requests for single frames from a stream that runs in order.

    VapourSynth calls `frame` from one thread at a time, but its requests overtake each other: finished frames wait here
    until they are asked for.
    """

    def __init__(self, clip: vs.VideoNode, dehazer: Dehazer, layout: PixelLayout, *, warm_up: int) -> None:
        self._clip, self._dehazer, self._layout, self._warm_up = clip, dehazer, layout, warm_up
        self._done: OrderedDict[int, Frames] = OrderedDict()
        self._kept = vs.core.num_threads + 4
        self._next_in = self._next_out = 0
        self._shots = ShotDetector()

    def frame(self, n: int, f: vs.VideoFrame) -> vs.VideoFrame:
        """Return a copy of frame `f`, number `n`, with restored samples."""
        if n not in self._done and not 0 <= n - self._next_out <= self._warm_up + self._kept:
            self._begin(max(0, n - self._warm_up))
        while n not in self._done:
            self._advance()
        restored = f.copy()
        for index, plane in zip(_order(self._layout), self._done[n].planes, strict=True):
            np.asarray(restored[index])[...] = plane[0].numpy()
        return restored

    def _begin(self, n: int) -> None:
        """Begin a new stream at a frame."""
        self._dehazer.flush()
        self._done.clear()
        self._next_in = self._next_out = n
        self._shots = ShotDetector()

    def _advance(self) -> None:
        """Push one more frame, or end the stream after the last one."""
        if self._next_in < len(self._clip):
            # A worker thread of VapourSynth that waits for a frame lends its place to another one.
            with self._clip.get_frame(self._next_in) as frame:
                ready = self._dehazer.push(self._read(frame), cut=self._is_cut(frame))
            self._next_in += 1
        else:
            ready = self._dehazer.flush()
        for frames in ready:
            self._done[self._next_out] = frames
            self._next_out += 1
        while len(self._done) > self._kept:
            self._done.popitem(last=False)

    def _is_cut(self, frame: vs.VideoFrame) -> bool:
        """What misc.SCDetect and others found, or else our own shot detection."""
        if "_SceneChangePrev" in frame.props:
            return bool(frame.props["_SceneChangePrev"])
        luma = np.asarray(frame[min(1, len(frame) - 1) if self._layout.model == "rgb" else 0])
        if self._layout.floating:
            luma = (luma * 255).astype(np.uint8)
        return self._shots.is_cut(luma, 255 if self._layout.floating else self._layout.peak)

    def _read(self, frame: vs.VideoFrame) -> Frames:
        planes = [torch.from_numpy(np.array(frame[index]))[None] for index in _order(self._layout)]
        if self._layout.floating:
            planes = [plane.clamp(0.0, 1.0) for plane in planes]  # resizers overshoot
        props = frame.props
        full = props.get("_Range", 1 - props["_ColorRange"] if "_ColorRange" in props else -1)
        siting = props.get("_ChromaLocation")
        tags = VideoTags(
            color_range=int(full) + 1,  # FFmpeg counts 0 for unknown, 1 for limited
            colorspace=int(props.get("_Matrix", 2)),
            chroma_location="unspecified" if siting is None else SITINGS[int(siting)],
        )
        color = tags.color_spec(self._layout.name, frame.height)
        return Frames(tuple(planes), FrameFormat(frame.width, frame.height, self._layout, color))


def _order(layout: PixelLayout) -> tuple[int, ...]:
    """VapourSynth's numbers of the planes, in FFmpeg's order."""
    return {"rgb": (1, 2, 0), "yuv": (0, 1, 2), "gray": (0,)}[layout.model]


def _layout(clip: vs.VideoNode) -> PixelLayout:
    """FFmpeg's description of a clip's format."""
    form = clip.format
    if form is None or form.id == 0 or clip.width == 0:
        raise InputError("a clip of variable format or size cannot be dehazed: give it one by resize.Bicubic first")
    floating = form.sample_type == vs.FLOAT
    if form.bits_per_sample > (32 if floating else 16) or (floating and form.id != vs.RGBS):
        raise InputError(
            f"expected a clip of 8 to 16 bits or RGBS, got {form.name}: convert it by resize.Bicubic first"
        )
    depth = "" if form.bits_per_sample == 8 else "f32le" if floating else f"{form.bits_per_sample}le"
    if form.color_family == vs.RGB:
        return PixelLayout(f"gbrp{depth}", "rgb", form.bits_per_sample, 1, 1, alpha=False)
    if form.color_family == vs.GRAY:
        return layout_of(f"gray{depth}")
    sub_x, sub_y = 1 << form.subsampling_w, 1 << form.subsampling_h
    name = {(1, 1): "444", (2, 1): "422", (2, 2): "420", (4, 1): "411", (1, 2): "440", (4, 4): "410"}[sub_x, sub_y]
    return PixelLayout(f"yuv{name}p{depth}", "yuv", form.bits_per_sample, sub_x, sub_y, alpha=False)
