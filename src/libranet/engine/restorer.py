"""From a decoded frame to the frame to encode: restore it in its own samples, draw comparisons and heat maps."""

from collections import deque
from dataclasses import dataclass, replace
from fractions import Fraction

import av
import numpy as np
import torch
from torch import Tensor

from libranet.engine.adjust import Adjuster, Adjustments
from libranet.engine.options import Compare, View
from libranet.engine.transfer import Download, Upload
from libranet.engine.views import FrameView
from libranet.frames import FrameFormat, Frames, PixelLayout
from libranet.runtime import Backend, Restored
from libranet.video.pixels import layout_of, plane_views, write_planes
from libranet.video.reader import SourceFrame
from libranet.video.scale import FrameScaler
from libranet.video.tags import VideoTags

OUTPUT_BUFFERS = 6
"""Sets of arrays for finished frames: as many as can be on their way to the encoder, used in turn, so that a slow
encoder needs no more memory than a fast one.
"""

ARRIVING_FRAMES = 12
"""Frames between a GPU and the encoder, whose pinned memory is made ahead: it takes milliseconds a piece."""


@dataclass(frozen=True)
class StagedFrame:
    """A decoded frame that is ready for the network's stage."""

    source: SourceFrame
    slot: int = -1
    """Where its samples are in pinned memory, for a GPU."""


@dataclass(frozen=True)
class FinishedFrame:
    """A restored frame whose samples are still in the restorer's arrays. `FrameRestorer.pack` makes a video frame."""

    source: SourceFrame
    planes: list[Tensor]  # each [h, w], in main memory
    arrived: torch.cuda.Event | None = None
    """The samples are there after this event."""


class FrameRestorer:
    """Planar frames in, planar frames out, in order.

    Finished frames are in arrays that are reused, as waiting ones are in the backend. For the same reason the encoder's
    thread calls `pack`, because the encoder keeps those frames for an unknown time. The decoder's thread calls `stage`,
    so that frames for a GPU are in pinned memory when the network's stage takes them.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        pixel_format: str,
        width: int,
        height: int,
        tags: VideoTags,
        target_format: str,
        target_tags: VideoTags,
        compare: Compare | None = None,
        view: View = "result",
        staged_frames: int = 1,
        adjust: Adjustments | None = None,
        strength: float = 1.0,
        rate: float = 25.0,
        time_base: Fraction = Fraction(1, 1000),
        first_time: Fraction = Fraction(0),
        output_size: tuple[int, int] | None = None,
    ) -> None:
        """Prepare for frames of one format.

        Args:
            backend: What restores them.
            pixel_format: Of the decoded frames.
            width: Of the decoded frames.
            height: Of the decoded frames.
            tags: Of the decoded frames.
            target_format: Of the finished frames.
            target_tags: Of the finished frames.
            compare: Show the original, too.
            view: What to show instead of the result.
            staged_frames: Frames that may be between `stage` and `push`.
            adjust: Controls over the result.
            strength: That the backend restores with.
            rate: Frames per second.
            time_base: Of the frames' times.
            first_time: Where the source's clock begins, in seconds.
            output_size: Width and height that finished frames are scaled to.
        """
        self._backend = backend
        self._format = FrameFormat(width, height, layout_of(pixel_format), tags.color_spec(pixel_format, height))
        target = FrameFormat(width, height, layout_of(target_format), target_tags.color_spec(target_format, height))
        if target_format == pixel_format:
            target = self._format
        self._view = FrameView(
            self._format, target, compare=compare, view=view, turns=tags.quarter_turns, device=backend.device
        )
        self._target_tags = target_tags
        self._scaler = None if output_size is None else FrameScaler(*output_size)
        self._time_base, self._first_time = time_base, float(first_time)
        self._adjuster: Adjuster | None = None
        if adjust is not None and not adjust.neutral:
            self._adjuster = Adjuster(
                adjust, self._format, device=backend.device, rate=rate, strength=strength, turns=tags.quarter_turns
            )
        self._waiting: deque[tuple[SourceFrame, bool]] = deque()
        self._free: deque[list[Tensor]] = deque()
        self._upload: Upload | None = None
        self._download: Download | None = None
        if backend.device.type == "cuda":
            self._upload = Upload(self._format, backend.device, slots=staged_frames + 1, one_thread=True)
            self._download = Download(backend.device, self._view.output, ahead=ARRIVING_FRAMES)

    def stage(self, frame: SourceFrame) -> StagedFrame:
        """Prepare a frame for `push`, in the order of the frames. Any one thread may call it."""
        if self._upload is None:
            return StagedFrame(frame)
        return StagedFrame(frame, self._upload.fill(self._planes(frame)))

    def push(self, staged: StagedFrame, *, cut: bool = False) -> list[FinishedFrame]:
        """Take a frame and return the finished ones. `cut` marks the first frame of a shot."""
        if self._upload is None:
            planes = tuple(plane[None] for plane in self._planes(staged.source))
        else:
            planes = self._upload.send(staged.slot)
        self._waiting.append((staged.source, cut))
        ready = self._backend.push(Frames(planes, self._format), cuts=(cut,))
        if self._upload is not None:
            self._upload.release()
        return [self._finish(restored) for restored in ready]

    def flush(self) -> list[FinishedFrame]:
        """Finish the frames still waiting."""
        return [self._finish(restored) for restored in self._backend.flush()]

    def wait(self, finished: FinishedFrame) -> None:
        """Wait until the network has really finished a frame: a GPU works behind the calls that ask it to."""
        if finished.arrived is not None:
            finished.arrived.synchronize()

    def pack(self, finished: FinishedFrame) -> SourceFrame:
        """Return the frame to encode. Call it once per frame, on any thread: the arrays are reused afterwards."""
        self.wait(finished)
        image = self._image(finished.source.image, finished.planes)
        self._reuse(finished.planes)
        return replace(finished.source, image=image)

    def samples(self, finished: FinishedFrame) -> Frames:
        """Return a copy of the samples, in place of `pack`, for callers that encode nothing and keep the source."""
        self.wait(finished)
        copy = Frames(tuple(plane[None].clone() for plane in finished.planes), self._view.output)
        self._reuse(finished.planes)
        return copy

    def _reuse(self, planes: list[Tensor]) -> None:
        if self._download is not None:
            self._download.free(planes)
        else:
            self._free.append(planes)

    @property
    def backend_name(self) -> str:
        """What restores the frames, such as `plain`, `numba-fp32` or `fused`."""
        return self._backend.name

    @property
    def prepares_with_first_frame(self) -> bool:
        """Whether the first frame costs far more than the next ones: kernels are compiled and compared then."""
        return self._backend.device.type != "cpu"

    @property
    def output_layout(self) -> PixelLayout:
        """Pixel format of the output frames."""
        return self._view.target.layout

    def _planes(self, frame: SourceFrame) -> list[Tensor]:
        """The colour planes in the decoder's memory."""
        views = plane_views(frame.image)[: self._format.layout.colour_planes]
        return [torch.from_numpy(view) for view in views]

    def _finish(self, restored: Restored) -> FinishedFrame:
        frame, cut = self._waiting.popleft()
        if self._adjuster is not None:
            restored = self._adjuster.apply(restored, frame.time(self._time_base) - self._first_time, cut=cut)
        planes = self._view.draw(restored)
        if self._download is not None:
            return FinishedFrame(frame, *self._download.begin(planes))
        return FinishedFrame(frame, self._copy_to_output_buffers(planes))

    def _copy_to_output_buffers(self, planes: tuple[Tensor, ...]) -> list[Tensor]:
        if not self._free:
            self._free.extend([torch.empty_like(plane) for plane in planes] for _ in range(OUTPUT_BUFFERS))
        output = self._free.popleft()
        for target, plane in zip(output, planes, strict=True):
            target.copy_(plane)
        return output

    def _image(self, carrier: av.VideoFrame, planes: list[Tensor]) -> av.VideoFrame:
        height, width = planes[0].shape
        image = output_image(carrier, self.output_layout.name, width, height, self._target_tags)
        write_planes(image, planes)
        if image is not carrier:
            _copy_alpha(carrier, image)
        return image if self._scaler is None else self._scaler.scale(image)


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


def target_tags(tags: VideoTags, pixel_format: str, target_format: str, height: int) -> VideoTags:
    """Return the tags of the output. RGB that becomes YUV takes the matrix of its size and limited range."""
    if pixel_format.startswith("gbr") and target_format.startswith("yuv"):
        return replace(tags, colorspace=1 if height >= 720 else 6, color_range=1)
    return tags
