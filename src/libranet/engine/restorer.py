"""From a decoded frame to the frame to encode: restore it in its own samples, draw comparisons and heat maps."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import av
import numpy as np
import torch
from torch import Tensor

from libranet.engine.options import DehazeOptions
from libranet.engine.pipeline import STAGED_FRAMES
from libranet.engine.plan import backend_for
from libranet.frames import ColorConverter, FrameFormat, Frames
from libranet.kernels.native.library import torch_threads
from libranet.network import LiBrANet, Network
from libranet.runtime import Restored
from libranet.video.encoder import EncoderSettings
from libranet.video.pixels import layout_of, plane_views, write_planes
from libranet.video.reader import SourceFrame, VideoReader
from libranet.video.tags import VideoTags

if TYPE_CHECKING:
    from libranet.engine.adjust import Adjuster
    from libranet.engine.quiet_change import QuietChange
    from libranet.engine.read_ahead import ReadAhead
    from libranet.engine.transfer import Download, Upload
    from libranet.video.scale import FrameScaler

Planes = tuple[Tensor, ...]  # a frame's planes, each [h, w], or one [h, w, 3] of a packed layout
ReadAgain = Callable[[int], Iterable[SourceFrame]]  # decodes a video from a frame on, by its number
StagedFrame = tuple[SourceFrame, int]
"""A decoded frame that is ready for the network's stage, and where its samples are in pinned memory, for a GPU."""

FRAMES_AT_ONCE = 4
"""Frames that a GPU restores in one step. Eight are 2 % faster on an H200 and need twice the memory."""
OUTPUT_BUFFERS = 6
"""Sets of arrays for finished frames: as many as can be on their way to the encoder, used in turn, so that a slow
encoder needs no more memory than a fast one.
"""
ARRIVING_FRAMES = 12
"""Frames between a GPU and the encoder, whose pinned memory is made ahead: it takes milliseconds a piece."""


@dataclass(frozen=True)
class FinishedFrame:
    """A restored frame whose samples are still in the restorer's arrays. `FrameRestorer.pack` makes a video frame."""

    source: SourceFrame
    planes: list[Tensor]  # each [h, w], in main memory
    arrived: torch.cuda.Event | None = None  # the samples are there after this event


class FrameRestorer:
    """Planar frames in, planar frames out, in order.

    Finished frames are in arrays that are reused, as waiting ones are in the backend. For the same reason the encoder's
    thread calls `pack`, because the encoder keeps those frames for an unknown time. The decoder's thread calls `stage`,
    so that frames for a GPU are in pinned memory when the network's stage takes them.
    """

    def __init__(
        self,
        reader: VideoReader,
        network: Network,
        options: DehazeOptions,
        settings: EncoderSettings | None = None,
        *,
        size: tuple[int, int] | None = None,
        read_again: ReadAgain | None = None,
        on_read: Callable[[], None] | None = None,
        first: int = 0,
    ) -> None:
        """Prepare for a video's frames.

        Args:
            settings: Of the output's encoder; None keeps the source's pixel format.
            size: Of the output where there are no settings.
            read_again: Decodes the video once more, from a frame on, by its number. Then grids are settled over whole
                shots, if the options and the network allow it.
            on_read: Called with each frame that is read before the first one can be restored.
            first: Number of the first frame to be pushed.
        """
        rate, tags = float(reader.rate), reader.tags
        settled = read_again is not None and settles(network, options)
        self._backend = backend_for(network, options, rate=rate, grids_given=settled, batch=FRAMES_AT_ONCE)
        device = self._backend.device
        self.prepares_with_first_frame = device.type != "cpu"
        """Whether the first frame costs far more than the next ones: kernels are compiled and compared then."""
        self._format = target = _format(reader, reader.pixel_format, tags)
        self._ahead: ReadAhead | None = None
        self._quiet: QuietChange | None = None
        self._number, self._segment_frames = first, options.segment_frames
        if settled and read_again is not None and isinstance(network, LiBrANet):
            from libranet.engine import quiet_change, read_ahead  # pipes and cameras are read once

            self._quiet = quiet_change.QuietChange(self._format)
            self._ahead = read_ahead.ReadAhead(
                read_again,
                self._backend,
                network,
                self._format,
                rate=rate,
                first=first,
                options=options,
                on_read=on_read,
            )
        self._target_name, self._target_tags = reader.pixel_format, tags
        if settings is not None:
            size = (settings.width, settings.height)
            self._target_name, self._target_tags = settings.pixel_format, settings.tags
            if settings.pixel_format != reader.pixel_format:
                target = _format(reader, settings.pixel_format, settings.tags)
        self._draw: Callable[[Restored], Planes]
        if options.view == "result" and options.compare is None:
            convert = conversion(self._format, target, device)
            self._draw = lambda restored: convert(restored.after)
        else:
            from libranet.engine.views import FrameView  # only runs that draw load it

            view = FrameView(
                self._format,
                target,
                compare=options.compare,
                view=options.view,
                turns=tags.quarter_turns,
                device=device,
            )
            self._draw, target = view.draw, view.output
        self._output = target
        self._scaler: FrameScaler | None = None
        if size not in (None, (target.width, target.height)):
            from libranet.video import scale  # only runs with --scale load it

            self._scaler = scale.FrameScaler(*size)
        self._time_base, self._first_time = reader.time_base, float(reader.first_time)
        self._adjuster: Adjuster | None = None
        if not options.adjust.neutral:
            from libranet.engine import adjust  # only runs with adjustments load it

            self._adjuster = adjust.Adjuster(
                options.adjust,
                self._format,
                device=device,
                rate=rate,
                strength=options.strength,
                turns=tags.quarter_turns,
            )
        self._threads = torch_threads if self._backend.name.startswith("cpu-") else nullcontext
        self._waiting: deque[tuple[SourceFrame, bool]] = deque()
        self._free: deque[list[Tensor]] = deque()
        self._upload: Upload | None = None
        self._download: Download | None = None
        if device.type == "cuda":
            from libranet.engine import transfer

            self._upload = transfer.Upload(self._format, device, slots=STAGED_FRAMES + 1, one_thread=True)
            self._download = transfer.Download(device, target, ahead=ARRIVING_FRAMES)

    def stage(self, frame: SourceFrame) -> StagedFrame:
        """Prepare a frame for `push`, in the order of the frames. Any one thread may call it."""
        return frame, -1 if self._upload is None else self._upload.fill(self._planes(frame))

    def push(self, staged: StagedFrame, *, cut: bool = False) -> list[FinishedFrame]:
        """Take a frame and return the finished ones. `cut` marks the first frame of a shot."""
        frame, slot = staged
        if self._upload is None:
            planes = tuple(plane[None] for plane in self._planes(frame))
        else:
            planes = self._upload.send(slot)
        self._waiting.append((frame, cut))
        with self._threads():
            given = () if self._ahead is None else (self._ahead.next(),)
            ready = self._backend.push(Frames(planes, self._format), cuts=(cut,), given=given)
        if self._upload is not None:
            self._upload.release()
        return [self._finish(restored) for restored in ready]

    def flush(self) -> list[FinishedFrame]:
        with self._threads():
            ready = self._backend.flush()
        return [self._finish(restored) for restored in ready]

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.close()

    def wait(self, finished: FinishedFrame) -> None:
        """Wait until the network has really finished a frame: a GPU works behind the calls that ask it to."""
        if finished.arrived is not None:
            finished.arrived.synchronize()

    def pack(self, finished: FinishedFrame) -> SourceFrame:
        """Return the frame to encode. Call it once per frame, on any thread: the arrays are reused afterwards."""
        self.wait(finished)
        planes, carrier = finished.planes, finished.source.image
        height, width = planes[0].shape
        image = output_image(carrier, self._target_name, width, height, self._target_tags)
        write_planes(image, planes)
        if image is not carrier:
            _copy_alpha(carrier, image)
        if self._scaler is not None:
            image = self._scaler.scale(image)
        self._reuse(planes)
        return replace(finished.source, image=image)

    def samples(self, finished: FinishedFrame) -> Frames:
        """Return a copy of the samples, in place of `pack`, for callers that encode nothing and keep the source."""
        self.wait(finished)
        copy = Frames(tuple(plane[None].clone() for plane in finished.planes), self._output)
        self._reuse(finished.planes)
        return copy

    @property
    def backend_name(self) -> str:
        return self._backend.name

    def _reuse(self, planes: list[Tensor]) -> None:
        if self._download is not None:
            self._download.free(planes)
        else:
            self._free.append(planes)

    def _planes(self, frame: SourceFrame) -> list[Tensor]:
        views = plane_views(frame.image)[: self._format.layout.colour_planes]
        return [torch.from_numpy(view) for view in views]

    def _finish(self, restored: Restored) -> FinishedFrame:
        frame, cut = self._waiting.popleft()
        if self._quiet is not None:
            with self._threads():
                restored = self._quiet.apply(restored, begin=cut or self._number % self._segment_frames == 0)
        self._number += 1
        if self._adjuster is not None:
            restored = self._adjuster.apply(restored, frame.time(self._time_base) - self._first_time, cut=cut)
        planes = self._draw(restored)
        if self._download is not None:
            return FinishedFrame(frame, *self._download.begin(planes))
        if not self._free:
            self._free.extend([torch.empty_like(plane) for plane in planes] for _ in range(OUTPUT_BUFFERS))
        output = self._free.popleft()
        for target, plane in zip(output, planes, strict=True):
            np.copyto(target.numpy(), plane.numpy())
        return FinishedFrame(frame, output)


def settles(network: Network, options: DehazeOptions) -> bool:
    """Whether the grids of a file's frames are settled over whole shots."""
    return options.whole_shots and isinstance(network, LiBrANet)


def _format(reader: VideoReader, name: str, tags: VideoTags) -> FrameFormat:
    return FrameFormat(reader.width, reader.height, layout_of(name), tags.color_spec(name, reader.height))


def conversion(source: FrameFormat, target: FrameFormat, device: torch.device) -> Callable[[Planes], Planes]:
    """Return what turns planes of one format into those of another; planes stay as they are where both are alike."""
    if (source.layout, source.color) == (target.layout, target.color):
        return lambda planes: planes
    reader, writer = (ColorConverter(f.layout, f.color, device=device) for f in (source, target))
    return lambda planes: tuple(writer.encode(reader.to_rgb(planes)))


def output_image(carrier: av.VideoFrame, name: str, width: int, height: int, tags: VideoTags) -> av.VideoFrame:
    """Return a frame to write to: the decoded one, which keeps its side data; a new one where the shape differs."""
    if (carrier.format.name, carrier.width, carrier.height) == (name, width, height):
        carrier.make_writable()
        return carrier
    image = av.VideoFrame(width, height, name)
    image.color_range, image.colorspace = tags.color_range, tags.colorspace
    image.color_primaries, image.color_trc = tags.color_primaries, tags.color_trc
    return image


def _copy_alpha(source: av.VideoFrame, target: av.VideoFrame) -> None:
    """Copy alpha to a frame of another format; to both halves of a comparison side by side."""
    if len(source.format.components) != 4 or len(target.format.components) != 4:
        return
    before, after = plane_views(source)[3], plane_views(target)[3]
    peaks = [(1 << frame.format.components[3].bits) - 1 for frame in (source, target)]
    alpha = before if peaks[0] == peaks[1] else np.rint(before * (peaks[1] / peaks[0])).astype(after.dtype)
    for axis in (0, 1):
        half = after.shape[axis] // 2
        if after.shape[axis] > alpha.shape[axis]:
            part = alpha.take(range(half), axis=axis)
            alpha = np.concatenate([part, part], axis=axis)
    after[...] = alpha
