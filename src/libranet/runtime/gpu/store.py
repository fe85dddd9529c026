"""Frames on the device in their own samples: a ring of hazy ones, two sets of restored ones, and the passes over them.

Interleaved 8-bit RGB has kernels of its own, which read whole words; every other format shares one set of kernels.
"""

import torch
from torch import Tensor

from libranet.frames import FrameFormat
from libranet.frames.format import RGB8
from libranet.kernels.frame_io.gpu import finish_frame_out, read_cells_out
from libranet.kernels.resample.gpu import ResizeBands, reduce_frames_out
from libranet.kernels.samples.gpu import SampleBands, finish_samples_out, read_samples_out, reduce_samples_out
from libranet.kernels.samples.reference import SampleCodes
from libranet.kernels.tiles import PixelTile

Planes = tuple[Tensor, ...]  # each [n, h, w], or one [n, h, w, 3] of a packed layout


class FrameStore:
    """The frames of a step."""

    def __init__(self, format_: FrameFormat, *, ring: int, batch: int, encoder_size: int, device: torch.device) -> None:
        """Make the buffers."""
        self.format, self.ring = format_, ring
        self.padded = (format_.height + -format_.height % 4, format_.width + -format_.width % 4)
        self.rgb8 = format_.layout == RGB8
        if self.rgb8:

            def make(count: int) -> Planes:
                return (torch.zeros(count, *self.padded, 3, dtype=torch.uint8, device=device),)

            self.bands = ResizeBands.make(*self.padded, encoder_size).to(device)
        else:

            def make(count: int) -> Planes:
                return format_.empty(count, device=device)

            self.codes = SampleCodes.make(format_, device)
            self.sample_bands = SampleBands.make(*self.padded, encoder_size).to(device)
        self.hazy = make(ring)
        self.restored = (make(batch), make(batch))

    def write(self, slot: int, planes: Planes) -> None:
        """Copy frames into slots of the ring, one after the other."""
        count, height, width = len(planes[0]), self.format.height, self.format.width
        for mine, given in zip(self.hazy, planes, strict=True):
            place = mine[slot : slot + count]
            (place[:, :height, :width] if self.rgb8 else place).copy_(given, non_blocking=True)
            if self.rgb8:
                pad_frames(place, height, width)

    def original(self, slot: int) -> Planes:  # each [h, w], or one [h, w, 3]
        height, width = self.format.height, self.format.width
        if self.rgb8:
            return (self.hazy[0][slot, :height, :width],)
        return tuple(plane[slot] for plane in self.hazy)

    def result(self, parity: int, low: int, high: int) -> Planes:
        """Restored frames of one of the two sets."""
        height, width = self.format.height, self.format.width
        planes = tuple(plane[low:high] for plane in self.restored[parity])
        return (planes[0][:, :height, :width],) if self.rgb8 else planes

    def read_small(self, first: int, out: Tensor) -> None:  # [B, size, size, 4] fp16, written
        """Reduce B frames, from slot `first` on, to the square that the encoders see."""
        if self.rgb8:
            reduce_frames_out(self.hazy[0], out, bands=self.bands, first=first)
        else:
            reduce_samples_out(
                self.hazy, out, format_=self.format, codes=self.codes, bands=self.sample_bands, first=first
            )

    def read_cells(
        self,
        first: int,
        low: Tensor,  # [B, 3, h, w] fp32, written
        cells: Tensor,  # [B, h, w, 64] fp16, written
    ) -> None:
        """Reduce B frames to a quarter, and lay their 4x4 cells out along channels."""
        if self.rgb8:
            read_cells_out(self.hazy[0], low, cells, first=first)
        else:
            read_samples_out(self.hazy, low, cells, format_=self.format, codes=self.codes, first=first)

    def finish(
        self,
        first: int,
        residual: Tensor,  # [B, h, w, 64] fp16
        delta: Tensor,  # [B, 3, h, w] fp32
        strength: Tensor,  # [B] fp32
        parity: int,
        tile: PixelTile,
    ) -> None:
        """Add everything up. Writes one set of restored frames."""
        out = self.restored[parity]
        if self.rgb8:
            finish_frame_out(self.hazy[0], residual, delta, strength, out[0], first=first, tile=tile)
        else:
            finish_samples_out(
                self.hazy, residual, delta, strength, out, format_=self.format, codes=self.codes, first=first
            )


def pad_frames(
    frames: Tensor,  # [n, H', W', 3], the first `height` rows and `width` columns filled; the rest is written
    height: int,
    width: int,
) -> None:
    """Continue frames by reflection, as `pad_to_multiple` does."""
    for extra in range(frames.shape[2] - width):
        frames[:, :height, width + extra] = frames[:, :height, width - 2 - extra]
    for extra in range(frames.shape[1] - height):
        frames[:, height + extra] = frames[:, height - 2 - extra]
