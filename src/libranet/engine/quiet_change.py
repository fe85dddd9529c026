"""Where a frame is still, its change is still; where it is smooth, its change is smooth.

What the network changes at a pixel answers the noise and the compression of each frame, and a smooth sky gets a fine
texture from it. So the change is averaged over blocks where the frame has no texture, and over the last frames where
the frame looks as before; its rounded value is held until that mean has really left it. Noise is then not enlarged, and
rounding does not flicker. Where there is texture or motion, the frame's own change counts at once. A place looks as
before if its samples differ little from their own mean over the same frames, so slow motion adds up and is seen.

The memory begins anew with every shot and with every segment of a run, so a resumed run writes the same bytes.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.frames import FrameFormat
from libranet.runtime import Restored

KEPT = 0.9  # share of the mean that stays in a place that does not change: about ten frames count
STILL, SMOOTH = 2.0, 2.0
"""Differences in 8-bit levels, from the frames before and from the mean of a block, that halve the averages' shares."""
HOLD = 0.75  # codes by which the mean may leave the value that is written, where nothing changes
BLOCK = 4  # pixels of the squares in which frames are compared: single pixels are noise


@dataclass
class _Plane:
    """What is remembered of one plane."""

    usual: Tensor  # [1, c, h, w], the mean of its samples
    change: Tensor  # the mean of its change
    written: Tensor  # the change of the last frame, rounded


class QuietChange:
    """Quiets the change of the frames of one video, in order, on the device where they are."""

    def __init__(self, format_: FrameFormat) -> None:
        self._layout = format_.layout
        self._level = self._layout.peak / 255.0
        self._planes: list[_Plane] = []

    def apply(self, restored: Restored, *, begin: bool) -> Restored:
        """Return the frame with its change quieted; `begin` forgets the frames before it."""
        if begin:
            self._planes = []
        known, after, still = list(self._planes), [], None
        for place, (old, new) in enumerate(zip(restored.before, restored.after, strict=True)):
            plane = self._values(old.to(new.device))
            change = self._smooth(plane, self._values(new).sub_(plane))
            if begin or not known:
                self._planes.append(_Plane(plane, change, change.round()))
            else:
                still = self._still(plane, known[place].usual, still)
                self._remember(known[place], plane, change, _enlarged(still, plane))
            memory = self._planes[place]
            written = memory.change if self._layout.floating else memory.written
            result = (plane + written).clamp_(0, self._layout.peak).to(new.dtype)
            after.append(result[0].permute(1, 2, 0) if self._layout.packed else result[0, 0])
        return replace(restored, after=tuple(after))

    def _values(self, plane: Tensor) -> Tensor:  # [1, c, h, w]
        # Always a copy: the arrays of the backend are used again, and floating-point samples need no other type.
        values = plane.permute(2, 0, 1)[None] if self._layout.packed else plane[None, None]
        return values.to(torch.float32, copy=True, memory_format=torch.contiguous_format)

    def _smooth(self, plane: Tensor, change: Tensor) -> Tensor:
        """Take the change's mean over blocks, as far as the frame has no texture there."""
        texture = _blocks((plane - _enlarged(_blocks(plane), plane)).abs_()).amax(1, keepdim=True)
        share = _falling(_widened(texture), SMOOTH * self._level)
        return torch.lerp(change, _enlarged(_blocks(change), plane), _enlarged(share, plane))

    def _still(self, plane: Tensor, usual: Tensor, luma: Tensor | None) -> Tensor:  # [1, 1, h, w], in blocks
        """The share of the mean that stays; chroma changes where luma does, too."""
        moved = _blocks((plane - usual).abs_()).amax(1, keepdim=True)
        kept = KEPT * _falling(_widened(moved), STILL * self._level)
        if luma is None:
            return kept
        return torch.minimum(kept, F.interpolate(luma, size=(kept.shape[-2], kept.shape[-1]), mode="area"))

    def _remember(self, memory: _Plane, plane: Tensor, change: Tensor, kept: Tensor) -> None:
        memory.usual = torch.lerp(plane, memory.usual, kept)
        memory.change = torch.lerp(change, memory.change, kept)
        left = (memory.change - memory.written).abs_() > kept.mul_((HOLD - 0.5) / KEPT).add_(0.5)
        # Exact, as all are whole codes, and `torch.where` takes three times as long on a CPU.
        memory.written = torch.addcmul(memory.written, left.to(torch.float32), memory.change.round() - memory.written)


def _blocks(values: Tensor) -> Tensor:
    return F.avg_pool2d(values, min(BLOCK, *values.shape[-2:]), ceil_mode=True)


def _enlarged(blocks: Tensor, plane: Tensor) -> Tensor:
    return F.interpolate(blocks, size=(plane.shape[-2], plane.shape[-1]), mode="bilinear", align_corners=False)


def _widened(values: Tensor) -> Tensor:
    """Return the largest value of each block and its neighbours: `F.max_pool2d` in a 25th of its time on a CPU."""
    if values.is_cuda:
        return F.max_pool2d(values, 3, stride=1, padding=1)
    around = F.pad(values, (1, 1, 1, 1), mode="replicate")
    rows = torch.maximum(torch.maximum(around[..., :-2], around[..., 1:-1]), around[..., 2:])
    return torch.maximum(torch.maximum(rows[..., :-2, :], rows[..., 1:-1, :]), rows[..., 2:, :])


def _falling(values: Tensor, half: float) -> Tensor:
    return 1.0 / (1.0 + (values / half).square())
