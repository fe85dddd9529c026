"""The GStreamer element `libranet`: raw video in, the same dehazed, with its timestamps, format and metadata.

`GST_PLUGIN_PATH` names the folder above this one. GStreamer's loader for Python finds this file in it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import GObject, Gst, GstVideo  # noqa: E402

# Every GStreamer program that scans for plug-ins loads this file: PyTorch is imported with the first caps.
if TYPE_CHECKING:
    import numpy as np

    from libranet import Dehazer
    from libranet.frames import FrameFormat, Frames
    from libranet.video.shots import ShotDetector

FORMATS = (
    "I420, YV12, Y42B, Y444, NV12, NV21, YUY2, UYVY, RGB, BGR, RGBx, BGRx, xRGB, xBGR, RGBA, BGRA, ARGB, ABGR, GBR, "
    "GRAY8, GRAY16_LE, I420_10LE, I422_10LE, Y444_10LE, I420_12LE, I422_12LE, Y444_12LE, P010_10LE, GBR_10LE, GBR_12LE"
)
CAPS = f"video/x-raw, format={{ {FORMATS} }}, width=[16, 32767], height=[16, 32767]"
LOOK_AHEAD = 2
"""Frames that a result waits for, unless `live` is set."""
SITINGS = {1: "center", 2: "left", 4: "top", 6: "topleft"}
"""By GstVideoChromaSite: 1 is none, 2 horizontally and 4 vertically cosited."""


def _template(name: str, direction: Gst.PadDirection) -> Gst.PadTemplate:
    return Gst.PadTemplate.new(name, direction, Gst.PadPresence.ALWAYS, Gst.Caps.from_string(CAPS))


class Libranet(Gst.Element):
    """Dehazes raw video."""

    __gstmetadata__ = ("LiBrA-Net", "Filter/Effect/Video", "Removes haze and fog", "The LiBrA-Net founders")
    __gsttemplates__ = (_template("sink", Gst.PadDirection.SINK), _template("src", Gst.PadDirection.SRC))

    strength = GObject.Property(
        type=float, default=1.0, minimum=0.0, maximum=1.5, nick="Strength", blurb="0 is the input, 1 the network"
    )
    model = GObject.Property(
        type=str, default="libranet-base", nick="Network", blurb="libranet-base, libranet-small, or a checkpoint"
    )
    live = GObject.Property(
        type=bool, default=False, nick="Live", blurb="Return every frame at once, without looking at the next two"
    )
    steady = GObject.Property(
        type=float, default=1.0, minimum=0.0, maximum=2.0, nick="Steady", blurb="Seconds that colours are averaged over"
    )
    device = GObject.Property(type=str, default="auto", nick="Device", blurb="auto, cpu, cuda or cuda:1")

    def __init__(self) -> None:
        super().__init__()
        self._sink, self._source = (
            Gst.Pad.new_from_template(self.get_pad_template(name), name) for name in ("sink", "src")
        )
        self._sink.set_chain_function_full(self._chain)
        self._sink.set_event_function_full(self._event)
        for pad in (self._sink, self._source):
            pad.set_query_function_full(self._query)
            self.add_pad(pad)
        self._info: GstVideo.VideoInfo | None = None
        self._format: FrameFormat | None = None
        self._options: dict[str, object] = {}
        self._dehazer: Dehazer | None = None
        self._shots: ShotDetector | None = None
        self._waiting: deque[tuple[Gst.Buffer, bytearray]] = deque()

    def do_change_state(self, change: Gst.StateChange) -> Gst.StateChangeReturn:
        result = Gst.Element.do_change_state(self, change)
        if change == Gst.StateChange.PAUSED_TO_READY:
            self._drop()
        return result

    def _chain(self, pad: Gst.Pad, parent: Gst.Object, buffer: Gst.Buffer) -> Gst.FlowReturn:
        """Take a frame and push those that are ready."""
        if self._info is None:
            return Gst.FlowReturn.NOT_NEGOTIATED
        try:
            return self._restore(buffer)
        except Exception as error:  # GStreamer would take it for success and go on without the frame
            self._fail(error)
            return Gst.FlowReturn.ERROR

    def _restore(self, buffer: Gst.Buffer) -> Gst.FlowReturn:
        import torch

        from libranet.frames import Frames
        from libranet.video.shots import ShotDetector

        self._prepare()
        self._shots = self._shots or ShotDetector()
        samples = bytearray(buffer.extract_dup(0, buffer.get_size()))
        frames = Frames(tuple(torch.from_numpy(plane)[None] for plane in self._read(buffer, samples)), self._format)
        cut = self._shots.is_cut(frames.planes[0][0].numpy(), self._format.layout.peak)
        ready = self._dehazer.push(frames, cut=cut)
        self._waiting.append((buffer, samples))
        return self._push(ready)

    def _fail(self, error: Exception) -> None:
        domain, code = Gst.StreamError.quark(), int(Gst.StreamError.FORMAT)
        self.message_full(Gst.MessageType.ERROR, domain, code, str(error), None, __file__, "libranet", 0)

    def _prepare(self) -> None:
        """Load the network, again where a property has changed."""
        from libranet import Dehazer

        info = self._info
        options = {name: self.get_property(name) for name in ("model", "strength", "live", "steady", "device")}
        if self._dehazer is not None and options == self._options:
            return
        self._drain()
        rate = info.fps_n / info.fps_d if info.fps_n else 25.0
        self._dehazer, self._options = Dehazer(**options, rate=rate), options
        self.post_message(Gst.Message.new_latency(self))

    def _push(self, ready: list[Frames]) -> Gst.FlowReturn:
        """Push restored frames as copies of the buffers they came in."""
        for frames in ready:
            buffer, samples = self._waiting.popleft()
            for view, plane in zip(self._views(buffer, samples), frames.planes, strict=True):
                view[...] = plane[0].numpy() << self._shift
            restored = Gst.Buffer.new_wrapped(bytes(samples))
            flags = Gst.BufferCopyFlags.FLAGS | Gst.BufferCopyFlags.TIMESTAMPS | Gst.BufferCopyFlags.META
            restored.copy_into(buffer, flags, 0, buffer.get_size())
            flow = self._source.push(restored)
            if flow != Gst.FlowReturn.OK:
                return flow
        return Gst.FlowReturn.OK

    def _drain(self) -> None:
        if self._dehazer is not None:
            self._push(self._dehazer.flush())
        self._shots = None

    def _drop(self) -> None:
        if self._dehazer is not None:
            self._dehazer.flush()
        self._waiting.clear()
        self._shots = None

    def _event(self, pad: Gst.Pad, parent: Gst.Object, event: Gst.Event) -> bool:
        """Keep frames and what is said about them in order."""
        try:
            if event.type in (Gst.EventType.EOS, Gst.EventType.SEGMENT, Gst.EventType.CAPS, Gst.EventType.GAP):
                self._drain()
            elif event.type == Gst.EventType.FLUSH_STOP:
                self._drop()
            if event.type == Gst.EventType.CAPS:
                self._set_caps(event.parse_caps())
                return self._source.push_event(event)  # the default keeps caps, which a pad may translate
        except Exception as error:
            self._fail(error)
        return pad.event_default(parent, event)

    def _query(self, pad: Gst.Pad, parent: Gst.Object, query: Gst.Query) -> bool:
        if query.type == Gst.QueryType.CAPS:
            return pad.proxy_query_caps(query)
        if query.type == Gst.QueryType.ACCEPT_CAPS:
            return pad.proxy_query_accept_caps(query)
        if query.type == Gst.QueryType.LATENCY and pad == self._source:
            if not self._sink.peer_query(query):
                return False
            live, least, most = query.parse_latency()
            late = self._latency()
            query.set_latency(live, least + late, most if most == Gst.CLOCK_TIME_NONE else most + late)
            return True
        return pad.query_default(parent, query)

    def _latency(self) -> int:
        """Nanoseconds by which look-ahead delays a frame."""
        if self.live or self._info is None:
            return 0
        rate, per = (self._info.fps_n, self._info.fps_d) if self._info.fps_n else (25, 1)
        return LOOK_AHEAD * Gst.SECOND * per // rate

    def _set_caps(self, caps: Gst.Caps) -> None:
        from libranet.frames import FrameFormat, PixelLayout
        from libranet.video.tags import VideoTags

        self._info = info = GstVideo.VideoInfo.new_from_caps(caps)
        form = info.finfo
        flags = form.flags
        model = "yuv" if flags & GstVideo.VideoFormatFlags.YUV else "rgb"
        model = "gray" if flags & GstVideo.VideoFormatFlags.GRAY else model
        sub_x, sub_y = (1 << form.w_sub[1], 1 << form.h_sub[1]) if model == "yuv" else (1, 1)
        layout = PixelLayout(form.name.lower(), model, form.depth[0], sub_x, sub_y, alpha=False)
        colour = info.colorimetry
        tags = VideoTags(
            color_range={1: 2, 2: 1}.get(int(colour.range), 0),
            colorspace=GstVideo.VideoColorMatrix.to_iso(colour.matrix),
            chroma_location=SITINGS.get(int(info.chroma_site), "unspecified"),
        )
        self._shift = form.shift[0]
        self._format = FrameFormat(
            info.width, info.height, layout, tags.color_spec({"rgb": "gbr"}.get(model, model), info.height)
        )
        self._dehazer = None  # it was drained; its filter over time depends on the frame rate

    def _views(self, buffer: Gst.Buffer, samples: bytearray) -> list[np.ndarray]:
        """Arrays that share a frame's memory, one per component, in FFmpeg's order: green, blue, red."""
        import numpy as np

        form, layout = self._info.finfo, self._format.layout
        meta = GstVideo.buffer_get_video_meta(buffer)
        offsets, strides = (meta.offset, meta.stride) if meta else (self._info.offset, self._info.stride)
        dtype = np.dtype(np.uint8 if layout.bits == 8 else "<u2")
        views = []
        order = {"rgb": (1, 2, 0), "yuv": (0, 1, 2), "gray": (0,)}[layout.model]
        for component, shape in zip(order, self._format.plane_sizes, strict=True):
            plane, inside = form.plane[component], form.poffset[component]
            inside *= dtype.itemsize if inside % dtype.itemsize else 1  # the table of 1.22 has 1 byte for P010's Cr
            steps = (strides[plane], form.pixel_stride[component])
            views.append(np.ndarray(shape, dtype, samples, offsets[plane] + inside, steps))
        return views

    def _read(self, buffer: Gst.Buffer, samples: bytearray) -> list[np.ndarray]:
        views = self._views(buffer, samples)
        return [view >> self._shift for view in views] if self._shift else views


GObject.type_register(Libranet)
__gstelementfactory__ = ("libranet", Gst.Rank.NONE, Libranet)
