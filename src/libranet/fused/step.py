"""One step of a stream on the GPU: B new 8-bit frames in, B restored ones out, captured as CUDA graphs.

Frames and features live in rings on the device; frame i is in slot i modulo the ring's length (frames, which are large,
have a shorter ring). A step reads and writes slots that are fixed once its place in the ring is known, so there is one
graph per place. Only the windows' indices change, by the edge rule of `models/stream.py` at a stream's two ends; they
are a small tensor per place, written when they change. Grids, which are filtered over time, are in `history.py`.

Latency mode (`batch=1`): a frame's temporal features are needed in the step that brings it, so the encoder runs beside
the detail stream of the frame being restored. Throughput mode (`overlap=True`): restoring lags one more batch behind,
so encoders and refiner work on different frames and share no order at all.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.fused.fields import FusedFields
from libranet.fused.history import GridHistory
from libranet.fused.refiner import FusedRefiner, RefinerBuffers, RefinerTiles
from libranet.fused.ring import RingSchedule
from libranet.fused.support import why_not_network
from libranet.models.libranet import MIN_SIZE, LiBrANet
from libranet.models.stream import NO_FILTER, GridFilter


class FusedStep:
    """Restores a stream of 8-bit frames of one size.

    >>> step = FusedStep(model, height=2160, width=3840)
    >>> for frame in frames:                    # [H, W, 3] uint8 on the device
    ...     restored = step.push(frame[None])   # [0 or 1, H, W, 3]
    >>> rest = step.drain()

    What `push` returns is overwritten by the second push after it.
    """

    def __init__(
        self,
        model: LiBrANet,
        *,
        height: int,
        width: int,
        batch: int = 1,
        lookahead: int | None = None,
        overlap: bool = False,
        strength: float = 1.0,
        grid_filter: GridFilter = NO_FILTER,
        device: str | torch.device = "cuda",
        tiles: RefinerTiles | None = None,
        graphs: bool = True,
    ) -> None:
        """Make buffers for one frame size, and capture the graphs.

        Args:
            model: The network.
            height: Of the frames.
            width: Of the frames.
            batch: Frames per step.
            lookahead: Future frames that a frame waits for, 0 to T // 2; None is T // 2.
            overlap: Throughput mode.
            strength: Factor on the correction: 0 returns the input.
            grid_filter: Average the grids over time. The default leaves them alone.
            device: A CUDA device, or the CPU in Triton's interpreter.
            tiles: Tile configurations of the refiner's kernels.
            graphs: False launches kernel by kernel, for profiling.

        Raises:
            InputError: The kernels do not cover this network, or a setting is out of range.
        """
        config = model.config
        if reason := why_not_network(config):
            raise InputError(f"{reason}; use the plain path")
        if min(height, width) < MIN_SIZE:
            raise InputError(f"expected frames of at least {MIN_SIZE}x{MIN_SIZE} pixels, got {width}x{height}")
        radius = config.window // 2
        lookahead = radius if lookahead is None else lookahead
        if not 0 <= lookahead <= radius:
            raise InputError(f"expected a look-ahead of 0 to {radius} frames for T={config.window}, got {lookahead}")
        if batch < 1:
            raise InputError(f"expected batches of at least one frame, got {batch}")
        assert model.refiner is not None
        assert model.chromatic is not None
        assert model.temporal is not None
        self.device = torch.device(device)
        self.size = (height, width)
        self.schedule = RingSchedule(batch, lookahead, radius, overlap)
        self.refiner = FusedRefiner(model.refiner, self.device, tiles)
        side = config.encoder_size >> len(config.encoder_widths)
        padded = (height + -height % 4, width + -width % 4)
        ring = self.schedule.ring
        self.frames = torch.zeros(self.schedule.frame_ring, *padded, 3, dtype=torch.uint8, device=self.device)
        self.fields = FusedFields(
            model.chromatic,
            model.temporal,
            batch=batch,
            ring=ring,
            frame_size=padded,
            size=config.encoder_size,
            device=self.device,
        )
        self.history = GridHistory(grid_filter, self.schedule, bins=config.bins, side=side, device=self.device)
        self.out = torch.zeros(2, batch, *padded, 3, dtype=torch.uint8, device=self.device)
        self.windows = torch.zeros(ring // batch, batch, config.window, dtype=torch.long, device=self.device)
        self._written: dict[int, list[list[int]]] = {}
        self.strength = torch.tensor([strength], dtype=torch.float32, device=self.device)
        self.buffers = RefinerBuffers(
            batch,
            *padded,
            channels=config.refiner_width,
            grid=(config.bins, side),
            device=self.device,
        )

        self.step = self.count = 0
        self.ended = False
        self._cuda = self.device.type == "cuda"
        # Small kernels before large ones: the encoders' would otherwise wait behind whole convolutions.
        self._side = [torch.cuda.Stream(self.device, priority=-1) for _ in range(2)] if self._cuda else []
        self._graphs = self._capture() if graphs and self._cuda else []

    @property
    def next_frames(self) -> Tensor:  # [B, H', W', 3] uint8
        """Where the next batch belongs; a decoder or a copy can write here and save one pass over the frame."""
        first = self.schedule.first_in(self.step) % self.schedule.frame_ring
        return self.frames[first : first + self.schedule.batch]

    def push(
        self,
        frames: Tensor,  # [n, H, W, 3] uint8, n at most B; fewer only for the last batch of a stream
    ) -> Tensor:  # [m, H, W, 3] uint8, the frames that are ready
        """Take new frames and return the restored ones that are due."""
        expected = (*self.size, 3)
        if frames.dtype != torch.uint8 or frames.shape[1:] != expected or not 1 <= len(frames) <= self.schedule.batch:
            raise InputError(
                f"expected 1 to {self.schedule.batch} uint8 frames [n, {', '.join(map(str, expected))}],"
                f" got {frames.dtype} {list(frames.shape)}"
            )
        height, width = self.size
        place = self.next_frames[: len(frames)]
        place[:, :height, :width].copy_(frames, non_blocking=True)
        pad_frames(place, height, width)
        return self.advance(len(frames))

    def advance(
        self,
        new: int,  # frames already written to `next_frames`, padding included
    ) -> Tensor:  # [m, H, W, 3] uint8
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
            self.windows[place].copy_(torch.tensor(windows))
        if self._graphs:
            self._graphs[place].replay()
        else:
            self._work(place)
        first, out = self.schedule.first_out(self.step), self.out[place % 2]
        self.step += 1
        low, high = max(-first, 0), min(self.count - first, self.schedule.batch)
        return out[low : max(high, low), : self.size[0], : self.size[1]]

    def drain(self) -> Tensor:  # [n, H, W, 3] uint8
        """Restore the frames still waiting. The stream ends."""
        self.ended = True
        rest = []
        while self.schedule.first_out(self.step) < self.count:
            rest.append(self.advance(0).clone())
        return torch.cat(rest) if rest else self.out[0, :0, : self.size[0], : self.size[1]]

    def reset(self) -> None:
        """Begin a new stream: after a drain, or at a new shot."""
        self.step = self.count = 0
        self.ended = False
        self.history.reset()

    def set_strength(self, strength: float) -> None:
        """Scale the correction from the next step on: 0 returns the input."""
        self.strength.fill_(strength)

    @torch.no_grad()
    def _work(self, place: int) -> None:
        """Everything a step does at one place in the ring."""
        schedule, buffers, frames, fields, history = self.schedule, self.buffers, self.frames, self.fields, self.history
        slot = place * schedule.batch
        first = (slot - schedule.delay) % schedule.ring
        start = self._mark()

        def encode() -> None:
            fields.read(frames, slot % schedule.frame_ring)
            fields.encode(slot)

        def predict_plane() -> None:
            fields.predict_plane(self.windows[place])
            history.remember_planes(fields.plane)

        def predict_chroma() -> None:
            fields.predict_chroma(slot)
            history.remember_frames(fields.small, fields.chroma)

        # The plane comes first where it waits for nothing, so that the colour field never waits for an encoder.
        if schedule.overlap:
            mixed = self._beside(0, start, predict_plane)
            self._beside(0, None, encode)
            coloured = self._beside(0, None, predict_chroma)
        else:
            encoded = self._beside(0, start, encode)
            coloured = self._beside(1, encoded, predict_chroma)
            mixed = self._beside(0, None, predict_plane)

        self.refiner.read_frames(frames, first % schedule.frame_ring, buffers)
        self.refiner.run_detail(buffers)
        self._wait(mixed)
        if not schedule.overlap:  # the filter looks ahead to frames that came with this step
            self._wait(coloured)
        history.filter_grids()
        self.refiner.run_field(history.filtered_chroma, history.filtered_planes, self.strength, buffers)
        self.refiner.run_structure(buffers)
        self.refiner.run_fusion(buffers)
        self.refiner.write_frames(frames, first % schedule.frame_ring, self.strength, self.out[place % 2], buffers)
        self._wait(coloured)
        history.advance()

    def _mark(self) -> torch.cuda.Event | None:
        if not self._cuda:
            return None
        event = torch.cuda.Event()
        event.record()
        return event

    def _wait(self, event: torch.cuda.Event | None) -> None:
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
            self._work(0)  # compile kernels outside of the capture
            torch.cuda.synchronize(self.device)
            pool = None
            for place in range(self.schedule.ring // self.schedule.batch):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool, stream=main, capture_error_mode="thread_local"):
                    self._work(place)
                pool = pool or graph.pool()
                graphs.append(graph)
            self.history.reset()  # the step outside of the capture advanced it
        torch.cuda.current_stream(self.device).wait_stream(main)
        return graphs


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
