"""One step of a stream on the GPU: B new frames in, B restored ones out, in their own samples, captured as CUDA graphs.

Frames and features live in rings on the device; frame i is in slot i modulo the ring's length (frames, which are large,
have a shorter ring). A step reads and writes slots that are fixed once its place in the ring is known, so there is one
graph per place. Only the windows' indices change, by the edge rule of `network/stream.py` at a stream's two ends; they
are a small tensor per place, written when they change. Grids, which are filtered over time, are in `history.py`.

Latency mode (`batch=1`): a frame's temporal features are needed in the step that brings it, so the encoder runs beside
the detail stream of the frame being restored. Throughput mode (`overlap=True`): restoring lags one more batch behind,
so encoders and refiner work on different frames and share no order at all.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError
from libranet.frames import FrameFormat, Frames
from libranet.frames.format import copyable
from libranet.network.forward import restore
from libranet.network.libranet import LiBrANet
from libranet.network.stream import NO_FILTER, FrameGrids, GridFilter, start_stream
from libranet.runtime.gpu.compile import compile_ahead
from libranet.runtime.gpu.fields import FusedFields
from libranet.runtime.gpu.history import GridHistory
from libranet.runtime.gpu.refiner import FusedRefiner, RefinerBuffers, RefinerTiles
from libranet.runtime.gpu.ring import RingSchedule
from libranet.runtime.gpu.store import FrameStore, Planes
from libranet.runtime.gpu.support import why_not_network
from libranet.runtime.interface import check_size


class FusedStep:
    """Restores a stream of frames of one format.

    >>> step = FusedStep(model, FrameFormat(3840, 2160, RGB8))
    >>> for frame in frames:                        # [H, W, 3] uint8 on the device
    ...     (restored,) = step.push((frame[None],))  # [0 or 1, H, W, 3]
    >>> (rest,) = step.drain()

    What `push` returns is overwritten by the second push after it.
    """

    def __init__(
        self,
        model: LiBrANet,
        format_: FrameFormat,
        *,
        batch: int = 1,
        lookahead: int | None = None,
        overlap: bool = False,
        strength: float = 1.0,
        grid_filter: GridFilter = NO_FILTER,
        grids_given: bool = False,
        device: str | torch.device = "cuda",
        tiles: RefinerTiles | None = None,
        graphs: bool = True,
    ) -> None:
        """Make buffers for one frame size, and capture the graphs.

        Args:
            lookahead: Future frames that a frame waits for, 0 to T // 2; None is T // 2.
            overlap: Throughput mode.
            grids_given: `give` brings each frame's grids. Needs a look-ahead of 0, and no overlap: nothing is encoded.
            device: A CUDA device, or the CPU in Triton's interpreter.
            graphs: False launches kernel by kernel, for profiling.
        """
        config = model.config
        if reason := why_not_network(config):
            raise InputError(f"{reason}; use the plain path")
        check_size(format_)
        radius = config.window // 2
        lookahead = start_stream(model, lookahead=lookahead).lookahead
        if batch < 1:
            raise InputError(f"expected batches of at least one frame, got {batch}")
        assert not (grids_given and (lookahead or overlap))
        assert model.refiner is not None
        assert model.chromatic is not None
        assert model.temporal is not None
        self.device, self.format = torch.device(device), format_
        self.schedule = RingSchedule(batch, lookahead, radius, overlap)
        self.refiner = FusedRefiner(model.refiner, self.device, tiles)
        side = config.grid_side
        ring = self.schedule.ring
        self.frames = FrameStore(
            format_,
            ring=self.schedule.frame_ring,
            batch=batch,
            encoder_size=config.encoder.size,
            device=self.device,
        )
        self.fields = FusedFields(
            model.chromatic, model.temporal, batch=batch, ring=ring, size=config.encoder.size, device=self.device
        )
        self.windows = torch.zeros(ring // batch, batch, config.window, dtype=torch.long, device=self.device)
        self._written: dict[int, list[list[int]]] = {}
        self.strength = torch.tensor([strength], dtype=torch.float32, device=self.device)
        self.buffers = RefinerBuffers(
            batch,
            *self.frames.padded,
            channels=config.refiner.width,
            grid=(config.fields.bins, side),
            device=self.device,
        )
        self.history = GridHistory(
            grid_filter,
            self.schedule,
            bins=config.fields.bins,
            side=side,
            cells=self.buffers.shape[1:],
            device=self.device,
            given=grids_given,
            dense_fog=config.dense_fog,
        )

        self.compiled = 0
        """Kernels that Triton had to compile, or had in its cache: the others were shipped."""
        self.step = self.count = 0
        self.ended = False
        self._cuda = self.device.type == "cuda"
        # Small kernels before large ones: the encoders' would otherwise wait behind whole convolutions.
        self._side = [torch.cuda.Stream(self.device, priority=-1) for _ in range(2)] if self._cuda else []
        self._graphs = self._capture() if graphs and self._cuda else []

    def write(
        self,
        planes: Planes,  # n frames, anywhere
        at: int,
    ) -> None:
        """Copy frames into the next batch, from its place `at` on."""
        first = self.schedule.first_in(self.step) % self.schedule.frame_ring
        self.frames.write(first + at, planes)

    def give(self, grids: FrameGrids, at: int) -> None:
        """Take the grids of a frame of the next batch, at its place."""
        self.history.give(self.step * self.schedule.batch + at, at, grids)

    def push(
        self,
        planes: Planes,  # n frames, n at most B; fewer only for the last batch of a stream
    ) -> Planes:  # the m frames that are ready
        """Take new frames and return the restored ones that are due."""
        count = len(Frames(planes, self.format))  # checks them
        if not 1 <= count <= self.schedule.batch:
            raise InputError(f"expected 1 to {self.schedule.batch} frames, got {count}")
        self.write(planes, 0)
        ready = self.advance(count)
        return self.frames.result(ready.parity, ready.low, ready.high)

    def advance(self, new: int) -> "Ready":  # frames that `write` has brought
        """Run one step. With `new=0` the stream drains."""
        if self.ended and new:
            raise InputError("this stream was drained: call reset() before the next one")
        self.count += new
        if new < self.schedule.batch:
            self.ended = True
            self.history.end(self.count)
        place = self.schedule.first_in(self.step) // self.schedule.batch
        windows = self.schedule.windows(self.step, self.count)
        if self._written.get(place) != windows:
            self._written[place] = windows
            self.windows[place].copy_(torch.tensor(windows, pin_memory=self._cuda), non_blocking=True)
        if self._graphs:
            self._graphs[place].replay()
        else:
            self._work(place)
        first = self.schedule.first_out(self.step)
        self.step += 1
        low, high = max(-first, 0), min(self.count - first, self.schedule.batch)
        return Ready(place % 2, low, max(high, low), first % self.schedule.frame_ring)

    @property
    def drained(self) -> bool:
        """Whether every frame so far was restored."""
        return self.schedule.first_out(self.step) >= self.count

    def drain(self) -> Planes:
        """Restore the frames still waiting. The stream ends."""
        self.ended = True
        rest = [self.frames.result(0, 0, 0)]
        while not self.drained:
            ready = self.advance(0)
            rest.append(tuple(p.clone() for p in self.frames.result(ready.parity, ready.low, ready.high)))
        return tuple(_concatenate(planes) for planes in zip(*rest, strict=True))

    def reset(self) -> None:
        """Begin a new stream: after a drain, or at a new shot."""
        self.step = self.count = 0
        self.ended = False
        self.history.reset()

    @torch.no_grad()
    def _work(self, place: int) -> None:
        """Everything a step does at one place in the ring."""
        schedule, frames, fields, history = self.schedule, self.frames, self.fields, self.history
        slot = place * schedule.batch
        first = (slot - schedule.delay) % schedule.ring
        start = self._mark()

        def encode() -> None:
            frames.read_small(slot % schedule.frame_ring, fields.small)
            fields.encode(slot)

        def predict_plane() -> None:
            fields.predict_plane(self.windows[place])
            history.remember_planes(fields.plane)

        def predict_chroma() -> None:
            fields.predict_chroma(slot)
            history.remember_frames(fields.small, fields.chroma)

        # The plane comes first where it waits for nothing, so that the colour field never waits for an encoder.
        mixed = coloured = None
        if history.given:
            pass
        elif schedule.overlap:
            mixed = self._beside(0, start, predict_plane)
            self._beside(0, None, encode)
            coloured = self._beside(0, None, predict_chroma)
        else:
            encoded = self._beside(0, start, encode)
            coloured = self._beside(1, encoded, predict_chroma)
            mixed = self._beside(0, None, predict_plane)

        operations = _StepOperations(self, place % 2, (mixed,) if schedule.overlap else (mixed, coloured))
        steady = history.filter_residuals if history.grid_filter.memory else None
        restore(first % schedule.frame_ring, history, operations, strength=self.strength, steady=steady)
        self.wait(coloured)
        history.advance()

    def _mark(self) -> torch.cuda.Event | None:
        if not self._cuda:
            return None
        event = torch.cuda.Event()
        event.record()
        return event

    def wait(self, event: torch.cuda.Event | None) -> None:
        """Let what follows on the current stream wait for an event."""
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)

    def _beside(self, number: int, after: torch.cuda.Event | None, work: Callable[[], None]) -> torch.cuda.Event | None:
        """Run on a side stream and return the event of its end; without CUDA, run now."""
        if not self._cuda:
            work()
            return None
        stream = self._side[number]
        if after is not None:
            stream.wait_event(after)
        with torch.cuda.stream(stream):
            work()
            return self._mark()

    def _capture(self) -> list[torch.cuda.CUDAGraph]:
        graphs: list[torch.cuda.CUDAGraph] = []
        main = torch.cuda.Stream(self.device)
        main.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(main):
            self.compiled = compile_ahead(lambda: self._work(0))
            self._work(0)  # some libraries prepare themselves at their first call, which a capture must not see
            torch.cuda.synchronize(self.device)
            pool = None
            for place in range(self.schedule.ring // self.schedule.batch):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool, stream=main, capture_error_mode="thread_local"):
                    self._work(place)
                pool = pool or graph.pool()
                graphs.append(graph)
            self.history.reset()  # the steps outside of the capture advanced it
        torch.cuda.current_stream(self.device).wait_stream(main)
        return graphs


class _StepOperations:
    """The forward pass of one step, by kernels. A frame is a slot of the ring; maps are in the step's buffers."""

    def __init__(self, step: FusedStep, parity: int, grids_ready: tuple[torch.cuda.Event | None, ...]) -> None:
        self._step, self._parity, self._grids_ready = step, parity, grids_ready
        self._buffers, self._refiner = step.buffers, step.refiner

    def reduce(self, frame: int) -> tuple[int, Tensor]:
        self._refiner.read_frames(self._step.frames, frame, self._buffers)
        # The detail stream looks at the frames alone, so it runs while the encoders still predict the grids.
        self._refiner.run_detail(self._buffers)
        return frame, self._buffers.low

    def apply_field(self, low: Tensor, grids: GridHistory, strength: Tensor) -> Tensor:
        for event in self._grids_ready:  # in latency mode the filter looks ahead to frames that came with this step
            self._step.wait(event)
        grids.filter_grids()
        self._strengths = grids.strengths(strength)
        self._refiner.run_field(grids.filtered_chroma, grids.filtered_planes, self._strengths, self._buffers)
        return self._buffers.small

    def correction(self, small: Tensor, low: Tensor) -> Tensor:
        return self._buffers.delta

    def refine(self, carrier: int, small: Tensor) -> Tensor:
        self._refiner.run_structure(self._buffers)
        self._refiner.run_fusion(self._buffers)
        self._refiner.run_project(self._buffers)
        return self._buffers.residual

    def cell_means(self, residual: Tensor) -> Tensor:
        return self._step.history.cell_means(residual)

    def shift(self, correction: Tensor, means: Tensor, strength: Tensor) -> Tensor:
        size = (correction.shape[-2], correction.shape[-1])
        correction += F.interpolate(
            means * self._strengths.view(-1, 1, 1, 1), size=size, mode="bilinear", align_corners=False
        )
        return correction

    def add_back(self, carrier: int, correction: Tensor, residual: Tensor, strength: Tensor) -> None:
        self._refiner.write_frames(self._step.frames, carrier, self._strengths, self._parity, self._buffers)


@dataclass(frozen=True)
class Ready:
    """Where the frames are that a step restored."""

    parity: int  # which of the two sets of results
    low: int
    high: int  # the first of them in the set, and the one behind the last
    first: int  # slot of the set's first frame in the ring of hazy frames


def _concatenate(planes: tuple[Tensor, ...]) -> Tensor:
    dtype = planes[0].dtype
    return torch.cat([plane.view(copyable(dtype)) for plane in planes]).view(dtype)
