"""Where a frame is still, its change is still; where it is smooth, its change is smooth.

What the network changes at a pixel answers the noise and the compression of each frame, and a smooth sky gets a fine
texture from it. So the change is averaged over blocks where the frame has no texture, and over the last frames where
the frame looks as before; its rounded value is held until that mean has really left it. Noise is then not enlarged, and
rounding does not flicker. Where there is texture or motion, the frame's own change counts at once. A place looks as
before if its samples differ little from their own mean over the same frames, so slow motion adds up and is seen.

The memory begins anew with every shot and with every segment of a run, so a resumed run writes the same bytes.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.frames import FrameFormat
from libranet.kernels.native.library import level
from libranet.kernels.quiet_change import planes, reference
from libranet.kernels.quiet_change.reference import BLOCK, KEPT, Memory
from libranet.runtime import Restored

STILL, SMOOTH = 2.0, 2.0
"""Differences in 8-bit levels, from the frames before and from the mean of a block, that halve the averages' shares."""


class QuietChange:
    """Quiets the change of the frames of one video, in order, on the device where they are."""

    def __init__(self, format_: FrameFormat) -> None:
        self._peak = format_.layout.peak
        self._memory: list[Memory | None] = []

    def apply(self, restored: Restored, *, begin: bool) -> Restored:
        """Return the frame with its change quieted; `begin` forgets the frames before it."""
        if begin or not self._memory:
            self._memory = [None] * len(restored.before)
        after, still = [], None
        for place, (old, new) in enumerate(zip(restored.before, restored.after, strict=True)):
            before, now, memory = old.to(new.device)[None, None], new[None, None], self._memory[place]
            twin = planes if _in_c(now) else reference
            change, texture, moved = twin.look_at_blocks(before, now, memory)
            share = _falling(_widened(texture), SMOOTH * self._peak / 255.0)
            still = None if moved is None else self._still(moved, still)
            result, memory = twin.quiet_plane(before, now, memory, (change, share, still), self._peak)
            self._memory[place] = memory
            after.append(result[0, 0])
        return replace(restored, after=tuple(after))

    def _still(self, moved: Tensor, luma: Tensor | None) -> Tensor:  # [1, 1, h, w], in blocks
        """The share of the mean that stays; chroma changes where luma does, too."""
        kept = KEPT * _falling(_widened(moved), STILL * self._peak / 255.0)
        if luma is None:
            return kept
        return torch.minimum(kept, F.interpolate(luma, size=(kept.shape[-2], kept.shape[-1]), mode="area"))


def _in_c(plane: Tensor) -> bool:  # [1, 1, h, w]
    whole = plane.dtype in (torch.uint8, torch.uint16) and min(plane.shape[-2:]) >= BLOCK
    return whole and plane.device.type == "cpu" and level() is not None


def _widened(values: Tensor) -> Tensor:
    """Return the largest value of each block and its neighbours: `F.max_pool2d` in a 25th of its time on a CPU."""
    if values.is_cuda:
        return F.max_pool2d(values, 3, stride=1, padding=1)
    around = F.pad(values, (1, 1, 1, 1), mode="replicate")
    rows = torch.maximum(torch.maximum(around[..., :-2], around[..., 1:-1]), around[..., 2:])
    return torch.maximum(torch.maximum(rows[..., :-2, :], rows[..., 1:-1, :]), rows[..., 2:, :])


def _falling(values: Tensor, half: float) -> Tensor:
    return 1.0 / (1.0 + (values / half).square())
