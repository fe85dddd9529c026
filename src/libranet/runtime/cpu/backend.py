"""The backend of our own CPU kernels: frames stay in their own samples, one pass reads a frame, one pass writes it."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from libranet.errors import InputError
from libranet.frames import FrameFormat, Frames
from libranet.kernels.color_field.field import apply_field
from libranet.kernels.native.library import torch_threads
from libranet.kernels.resample.reference import upsample
from libranet.kernels.samples.panels import SampleFormat, cell_means
from libranet.network import NO_FILTER, GridFilter, LiBrANet, start_stream
from libranet.network.forward import Steady, reduced_means, restore, scaled
from libranet.network.libranet import Grids
from libranet.network.stream import FrameGrids, give_frame, restore_oldest, take_frame
from libranet.runtime.cpu.layers import CpuEncoder, CpuRefiner
from libranet.runtime.interface import Restored, check_size
from libranet.runtime.plain import PlainBackend
from libranet.runtime.slots import Planes, Slot, SlotBackend


@dataclass
class SampleSlot(Slot):
    """A waiting frame: its samples, where the restored ones go, and what the network sees of it."""

    after: Planes
    cells: np.ndarray  # [H', W', 48], float32 or bfloat16
    low: Tensor  # [1, 3, h, w]
    small: Tensor  # [1, 3, 256, 256] in [-1, 1]; nothing where its grids are given


class CpuStages:
    """The network's stages (`network.stream.Stages`) by our kernels: float32, or bfloat16 with sums in float32."""

    def __init__(self, network: LiBrANet, *, bf16: bool) -> None:
        """Pack the weights.

        Args:
            network: In float32 on the CPU, of a design that `choose.why_not_kernels` lets through.
            bf16: Whether maps and weights are stored in bfloat16.
        """
        assert network.chromatic is not None
        assert network.temporal is not None
        self.network, self.config, self.grid_side = network, network.config, network.grid_side
        self.kind: type[np.generic] = np.uint16 if bf16 else np.float32
        side, field = self.config.encoder.size, network.chromatic
        self._chromatic = CpuEncoder(field.encoder, side, field.head, kind=self.kind)
        self._temporal = CpuEncoder(network.temporal.encoder, side, kind=self.kind)
        assert network.refiner is not None
        self.refiner = CpuRefiner(network.refiner, self.kind)
        # Attention over 16x16 positions is too small for kernels of its own.
        without_encoder = {id(network.temporal.encoder): nn.Identity()}  # what `copy` takes for copied already
        mix = copy.deepcopy(network.temporal, without_encoder)
        self._mix = mix.to(torch.bfloat16 if bf16 else torch.float32).eval()
        for layer in self._mix.modules():
            if isinstance(layer, nn.Conv2d):
                layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._operations: _SampleOperations | None = None

    def begin(self, reader: SampleFormat) -> None:
        self.refiner.begin(*reader.cells)
        self._operations = _SampleOperations(reader, self.refiner, self.grid_side)

    def predict_chromatic(self, small: Tensor) -> Tensor:
        return self._chromatic(small).unflatten(1, (2, 12, self.config.fields.bins))

    def encode_temporal(self, small: Tensor) -> Tensor:
        return self._temporal(small)

    def mix_window(self, features: Tensor) -> Tensor:
        return self._mix.mix(features.to(self._mix.position.dtype), centre_only=True).float().contiguous()

    def restore(self, frame: SampleSlot, grids: Grids, *, strength: float, steady: Steady | None) -> SampleSlot:
        assert self._operations is not None
        slot, _ = restore(frame, grids, self._operations, strength=strength, steady=steady)
        return slot


class _SampleOperations:
    """The forward pass on samples: what is added back goes to the slot's restored samples."""

    def __init__(self, reader: SampleFormat, refiner: CpuRefiner, grid_side: int) -> None:
        self._reader, self._refiner, self._side = reader, refiner, grid_side

    def reduce(self, frame: SampleSlot) -> tuple[SampleSlot, Tensor]:
        return frame, frame.low  # read when the frame came, with the encoders' input

    def apply_field(self, low: Tensor, grids: Grids, strength: float) -> Tensor:
        assert grids.chromatic is not None
        assert grids.plane is not None
        small, self._delta = apply_field(low, scaled(grids.chromatic, strength), scaled(grids.plane, strength))
        return small

    def correction(self, small: Tensor, low: Tensor) -> Tensor:
        return self._delta

    def refine(self, carrier: SampleSlot, small: Tensor) -> np.ndarray:  # [H', W', 48]
        return self._refiner(carrier.cells, small)

    def cell_means(self, residual: np.ndarray) -> Tensor:
        return reduced_means(cell_means(residual, self._reader.cells), self._side)

    def shift(self, correction: Tensor, means: Tensor, strength: float) -> Tensor:
        return correction.add_(strength * upsample(means, self._reader.cells))

    def add_back(self, carrier: SampleSlot, correction: Tensor, residual: np.ndarray, strength: float) -> SampleSlot:
        self._reader.finish(carrier.planes, correction, residual, strength, carrier.after)
        return carrier


class CpuBackend(SlotBackend[SampleSlot, SampleSlot]):
    """A `Backend` for CPUs. Frames smaller than the encoders' input go through `PlainBackend`."""

    def __init__(
        self,
        network: LiBrANet,
        *,
        bf16: bool,
        lookahead: int | None = None,
        strength: float = 1.0,
        grid_filter: GridFilter = NO_FILTER,
    ) -> None:
        super().__init__(torch.device("cpu"))
        self.name = "cpu-bf16" if bf16 else "cpu-fp32"
        with torch_threads():
            self.stages = self._stages = CpuStages(network, bf16=bf16)
        self.strength = strength
        self._lookahead, self._filter = lookahead, grid_filter
        self._plain = PlainBackend(network, lookahead=lookahead, strength=strength, grid_filter=grid_filter)
        self._state = start_stream(network, lookahead=lookahead, grid_filter=grid_filter)
        self._reader: SampleFormat | None = None
        self._enlarges = False

    def push(self, frames: Frames, *, cuts: Sequence[bool] = (), given: Sequence[FrameGrids] = ()) -> list[Restored]:
        check_size(frames.format)
        if self._enlarges and frames.format == self._format:
            return self._plain.push(frames, cuts=cuts, given=given)
        if not self._fits(frames.format):
            ready = self.flush()
            self._format, self._enlarges = frames.format, True
            return ready + self._plain.push(frames, cuts=cuts, given=given)
        waiting = self._plain.flush() if self._enlarges else []
        self._enlarges = False
        with torch_threads():
            return waiting + super().push(frames, cuts=cuts, given=given)

    def flush(self) -> list[Restored]:
        if self._enlarges:
            return self._plain.flush()
        with torch_threads():
            return super().flush()

    def begin(self, format_: FrameFormat) -> None:
        assert self._reader is not None
        self._stages.begin(self._reader)

    def fill(self, slot: SampleSlot | None, planes: Planes, *, encode: bool) -> SampleSlot:
        assert self._reader is not None
        if self._reader.format.layout.floating and any(bool(plane.isnan().any()) for plane in planes):
            raise InputError("expected values in [0, 1], got NaN")
        if slot is None:
            own = tuple(plane.to("cpu", copy=True, memory_format=torch.contiguous_format) for plane in planes)
            results, nothing = tuple(torch.empty_like(plane) for plane in own), torch.empty(0)
            slot = SampleSlot(own, results, self._stages.refiner.make_cells(), nothing, nothing)
        else:
            for mine, given in zip(slot.planes, planes, strict=True):
                mine.copy_(given)
        slot.low, slot.small = self._reader.read(slot.planes, slot.cells, encode=encode)
        return slot

    def step(self, slot: SampleSlot, given: FrameGrids | None) -> list[SampleSlot]:
        if given is None:
            self._state = take_frame(self._stages, slot, slot.small, self._state)
        else:
            self._state = give_frame(slot, given, self._state)
        return self._restore_oldest()

    def drain(self) -> list[SampleSlot]:
        self._state = replace(self._state, ended=True)
        ready = []
        while self._state.waiting:
            ready += self._restore_oldest()
        self._state = start_stream(self._stages, lookahead=self._lookahead, grid_filter=self._filter)
        return ready

    def pack(self, slot: SampleSlot, result: SampleSlot) -> Planes:
        """The restored samples are in the slot already."""
        return result.after

    @torch.no_grad()
    def _restore_oldest(self) -> list[SampleSlot]:
        restored, self._state = restore_oldest(self._stages, self._state, strength=self.strength)
        return [] if restored is None else [restored]

    def _fits(self, format_: FrameFormat) -> bool:
        """Whether the kernels read this size: they reduce frames to the encoders' input, and do not enlarge them."""
        if self._reader is None or self._reader.format != format_:
            self._reader = SampleFormat(format_, self._stages.config.encoder.size)
        return self._reader.reduces
