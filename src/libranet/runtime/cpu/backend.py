"""The backend of our own CPU kernels: frames stay in their own samples, one pass reads a frame, one pass writes it."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.frames import FrameFormat, Frames
from libranet.kernels.color_field.cpu import apply_field
from libranet.kernels.compiled import share_threads
from libranet.kernels.resample.reference import upsample
from libranet.kernels.samples.panels import SampleFormat, cell_means
from libranet.network import NO_FILTER, GridFilter, LiBrANet, Restoration, start_stream, stream_restore
from libranet.network.libranet import Grids
from libranet.runtime.cpu.layers import NumbaRefiner
from libranet.runtime.cpu.network import CpuNetwork
from libranet.runtime.interface import Restored, check_size
from libranet.runtime.plain import PlainBackend


@dataclass
class _Slot:
    """A waiting frame: its samples, where the restored ones go, and what the network sees of it."""

    planes: tuple[Tensor, ...]
    after: tuple[Tensor, ...]
    cells: np.ndarray  # [H', W', 48], float32 or bfloat16
    low: Tensor  # [1, 3, h, w]


class _SampleNetwork(LiBrANet):
    """A `CpuNetwork` whose `restore` takes slots and writes their samples."""

    def __init__(self, network: CpuNetwork, format_: SampleFormat) -> None:
        torch.nn.Module.__init__(self)  # not LiBrANet's: it would make weights
        assert network.source.refiner is not None
        self.config, self.weights = network.config, network.weights
        self.chromatic, self.temporal = network.chromatic, network.temporal
        self.format = format_
        self.refiner_by_kernels = NumbaRefiner(network.source.refiner, *format_.cells, network.choice.kind)

    def restore(  # type: ignore[override]
        self,
        frame: _Slot,
        grids: Grids,
        *,
        strength: float = 1.0,
        steady: Callable[[Tensor], Tensor] | None = None,
    ) -> Restoration:
        """Write the restored samples of a frame. The result has no image."""
        assert grids.chromatic is not None
        assert grids.temporal is not None
        size = self.format.cells
        plane = grids.temporal[:, :, grids.temporal.shape[2] // 2]
        small, delta = apply_field(frame.low, grids.chromatic * strength, plane * strength)
        residual = self.refiner_by_kernels(frame.cells, small)
        if steady is not None:
            shift = self.steady_shift(cell_means(residual, size), steady)
            delta += strength * upsample(shift, size)
        self.format.finish(frame.planes, delta, residual, strength, frame.after)
        nothing = delta.new_empty(0)
        return Restoration(nothing, small, nothing, nothing, delta.new_zeros(()), grids)


class SampleBackend:
    """A `Backend` for CPUs. Frames smaller than the encoders' input go through `PlainBackend`."""

    def __init__(
        self,
        network: CpuNetwork,
        *,
        lookahead: int | None = None,
        strength: float = 1.0,
        grid_filter: GridFilter = NO_FILTER,
    ) -> None:
        """Begin a stream.

        Args:
            network: In our own kernels.
            lookahead: As `start_stream` takes it.
            strength: Factor on the correction.
            grid_filter: How the grids are averaged over time.
        """
        self.device, self.strength = torch.device("cpu"), strength
        self._network, self._lookahead, self._filter = network, lookahead, grid_filter
        self._plain = PlainBackend(network, lookahead=lookahead, strength=strength, grid_filter=grid_filter)
        self._format: FrameFormat | None = None
        self._reader: SampleFormat | None = None
        self._model: _SampleNetwork | None = None
        self._waiting: deque[_Slot] = deque()
        self._spare: deque[_Slot] = deque()
        self._held: deque[_Slot] = deque()  # returned by the last push, not to be overwritten yet
        self._state = start_stream(network, lookahead=lookahead, grid_filter=grid_filter)

    def push(self, frames: Frames, *, cuts: Sequence[bool] = ()) -> list[Restored]:
        """Take frames and return those that became ready."""
        check_size(frames.format)
        share_threads()
        self._spare.extend(self._held)
        self._held.clear()
        ready = self._begin(frames.format)
        if self._model is None:
            return ready + self._plain.push(frames, cuts=cuts)
        for index in range(len(frames)):
            if cuts and cuts[index]:
                ready += self._drain()
            slot, small = self._fill(frames.plane_list(index))
            restoration, self._state = stream_restore(
                self._model, slot, self._state, strength=self.strength, small=small
            )
            self._waiting.append(slot)  # only now: a frame that fails leaves nothing behind
            ready += self._pack(restoration)
        return ready

    def flush(self) -> list[Restored]:
        """Drain the stream and begin a new one."""
        return self._drain() if self._model is not None else self._plain.flush()

    def _drain(self) -> list[Restored]:
        ready: list[Restored] = []
        while self._state.waiting:
            assert self._model is not None
            restoration, self._state = stream_restore(self._model, None, self._state, strength=self.strength)
            ready += self._pack(restoration)
        self._state = start_stream(self._network, lookahead=self._lookahead, grid_filter=self._filter)
        return ready

    def _begin(self, format_: FrameFormat) -> list[Restored]:
        """Drain the stream where the format is a new one."""
        if format_ == self._format:
            return []
        ready = self.flush()
        self._format = format_
        self._spare.clear()
        self._held.clear()
        self._reader = SampleFormat(format_, self._network.config.encoder_size)
        self._model = _SampleNetwork(self._network, self._reader) if self._reader.reduces else None
        return ready

    def _fill(self, planes: tuple[Tensor, ...]) -> tuple[_Slot, Tensor]:
        """Copy a frame into arrays that are free, or into new ones, and read it."""
        assert self._reader is not None
        assert self._model is not None
        if self._reader.format.layout.floating and any(bool(plane.isnan().any()) for plane in planes):
            raise InputError("expected values in [0, 1], got NaN")
        if self._spare:
            slot = self._spare.popleft()
            for mine, given in zip(slot.planes, planes, strict=True):
                mine.copy_(given)
        else:
            own = tuple(plane.to("cpu", copy=True, memory_format=torch.contiguous_format) for plane in planes)
            results = tuple(torch.empty_like(plane) for plane in own)
            slot = _Slot(own, results, self._model.refiner_by_kernels.make_cells(), torch.empty(0))
        slot.low, small = self._reader.read(slot.planes, slot.cells)
        return slot, small

    def _pack(self, restoration: Restoration | None) -> list[Restored]:
        if restoration is None:
            return []
        assert self._format is not None
        slot = self._waiting.popleft()
        self._held.append(slot)
        return [Restored(slot.planes, slot.after, self._format, None)]
