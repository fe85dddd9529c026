"""Files are read ahead of the frames being restored, at the encoders' size, and grids are settled over whole shots.

One thread decodes the file a second time and reduces its frames. The network's stage encodes them, when it needs the
next grids: so all computing stays on one thread, and a GPU does not wait for the decoder. Restoring then encodes
nothing, so what a run adds is decoding twice.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.engine.options import DehazeOptions
from libranet.engine.pipeline import Channel, Stopped, is_cut
from libranet.frames import ColorConverter, FrameFormat
from libranet.kernels.native.library import torch_threads
from libranet.network import LiBrANet
from libranet.network.settle import KnotSpacing, settle
from libranet.network.stream import FrameGrids
from libranet.runtime import Backend
from libranet.video.pixels import plane_views
from libranet.video.reader import FormatChangeError, SourceFrame
from libranet.video.shots import ShotDetector

AHEAD = 32  # reduced frames that may wait for the network: 25 MB
Small = tuple[Tensor, bool]
"""The encoders' input [1, 3, S, S] in [-1, 1], and whether the frame begins a shot."""


class SmallFrames:
    """Reduces decoded frames to the encoders' input: plane by plane, because a colour matrix commutes with means."""

    def __init__(self, format_: FrameFormat, size: int) -> None:
        layout = format_.layout
        self._planes, self._size = layout.colour_planes, (size, size)
        full = replace(layout, sub_x=1, sub_y=1)
        self._converter = ColorConverter(full, format_.color)

    def reduce(self, frame: SourceFrame) -> Tensor:  # [1, 3, S, S] in [-1, 1]
        """The encoders' input of a frame, with the triangle filter of `network.LiBrANet.encoder_input`."""
        views = plane_views(frame.image)[: self._planes]
        rgb = self._converter.to_rgb([self._shrink(torch.from_numpy(view)) for view in views])
        return rgb.mul_(2.0).sub_(1.0)

    def _shrink(self, plane: Tensor) -> Tensor:
        values = plane.float()[None, None]
        return F.interpolate(values, size=self._size, mode="bilinear", align_corners=False, antialias=True)[0, 0]


class ReadAhead:
    """The settled grids of a video's frames, in order."""

    def __init__(
        self,
        read: Callable[[int], Iterable[SourceFrame]],
        backend: Backend,
        network: LiBrANet,
        format_: FrameFormat,
        *,
        rate: float,
        first: int,
        options: DehazeOptions,
        on_read: Callable[[], None] | None = None,
    ) -> None:
        """Begin to read.

        Args:
            read: Decodes the video from a frame on, by its number.
            first: The frame whose grids are needed first. They are those of a run from the beginning.
            options: Whether shots are detected, as the pipeline does.
            on_read: Called with each frame that is read before the first one can be restored.
        """
        spacing = KnotSpacing.at(rate)
        start = spacing.start(first)
        assert backend.stages is not None
        small_frames = SmallFrames(format_, network.config.encoder.size)
        self._stop = threading.Event()
        self._channel = Channel(self._stop, AHEAD)  # of `Small`; its end is None, or an error
        detector = ShotDetector() if options.shot_detection else None
        self._thread = threading.Thread(
            target=self._decode, args=(read(start), small_frames, detector), name="read ahead", daemon=True
        )
        smalls = ((small.to(backend.device, network.dtype), cut) for small, cut in self._smalls())
        self._grids = islice(settle(smalls, backend.stages, spacing, first=start), first - start, None)
        self._last: FrameGrids | None = None
        self._on_read = on_read
        self._thread.start()

    def next(self) -> FrameGrids:
        """The grids of the next frame. A file that gives fewer frames the second time ends with the last ones."""
        self._last = next(self._grids, self._last)
        self._on_read = None
        assert self._last is not None
        return self._last

    def close(self) -> None:
        self._stop.set()

    def _decode(self, frames: Iterable[SourceFrame], small_frames: SmallFrames, detector: ShotDetector | None) -> None:
        end: BaseException | None = None
        try:
            with torch_threads():
                for frame in frames:
                    cut = detector is not None and is_cut(detector, frame)
                    self._channel.put((small_frames.reduce(frame), cut))
        except Stopped:
            return
        except FormatChangeError:
            pass  # the run ends there, too, and says so
        except BaseException as error:
            end = error
        with suppress(Stopped):
            self._channel.put(end)

    def _smalls(self) -> Iterator[Small]:
        while (item := self._channel.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            if self._on_read is not None:
                self._on_read()
            yield item
