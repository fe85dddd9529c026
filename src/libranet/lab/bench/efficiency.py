"""Parameters, GFLOPs, time per frame and peak memory of networks at given frame sizes, all in one run.

The networks take turns: each restores a few frames, then the next one does, round after round. A machine that slows
down or speeds up meanwhile does so for all of them.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from libranet.device import describe_device, ran_out_of_memory
from libranet.frames import FrameFormat, Frames
from libranet.frames.format import RGB8
from libranet.lab.peers.cost import network_cost
from libranet.network import GridFilter, LiBrANet, Network
from libranet.network.cost import count_parameters
from libranet.runtime import Backend, make_backend
from libranet.runtime.plain import PlainBackend

SIZES: dict[tuple[int, int], str] = {(1280, 720): "720p", (1920, 1080): "1080p", (3840, 2160): "4K", (7680, 4320): "8K"}
"""The sizes that are measured unless the user names one, and what people call them."""
MOST_ROUNDS = 15
BLOCK_SECONDS = 0.05  # a turn lasts at least this long, so that the clock's grain does not matter
CROWDED = 0.9
"""Share of a GPU's memory above which torch takes memory back from one network to give it to another."""


@dataclass(frozen=True)
class Subject:
    """A network to measure."""

    name: str
    network: Network
    plain: bool = False  # LiBrA-Net in plain PyTorch, without the kernels of the product path

    def backend(self) -> Backend:
        """What restores its frames."""
        if self.plain:
            assert isinstance(self.network, LiBrANet)
            return PlainBackend(self.network, grid_filter=GridFilter())
        return make_backend(self.network, grid_filter=GridFilter())  # as `libranet dehaze` does by default


@dataclass(frozen=True)
class Efficiency:
    """One network at one size, as a stream of 8-bit frames that are in the device's memory already."""

    model: str
    size: tuple[int, int]  # width and height
    parameters: int
    gflops: float | None
    """For one restored frame, two per multiply-add; LiBrA-Net: for one window, as the paper counts. None where the
    method is not a network."""
    milliseconds: float | None  # median over the turns; None where it could not run
    peak_bytes: int | None
    """CUDA: peak of allocated memory, weights included. CPU: growth of the resident set, where the system tells."""
    turns: int
    device: str
    precision: str
    failure: Literal["", "out of memory"] | str = ""  # why there is no time
    backend: str = ""  # what computed it; empty where it could not run

    @property
    def fps(self) -> float | None:
        return None if self.milliseconds is None else 1000.0 / self.milliseconds


def measure_efficiency(
    subjects: Iterable[Subject],
    *,
    sizes: Iterable[tuple[int, int]] = SIZES,
    device: str = "cpu",
    seconds: float = 4.0,
    report: Callable[[str], None] = lambda _: None,
) -> list[Efficiency]:
    """Measure networks on random frames of every size.

    Args:
        seconds: For one network at one size, after its first frames. A slow one gets at least one frame.
    """
    where = torch.device(device)
    found: list[Efficiency] = []
    with _refuse_instead_of_dying(where):
        for size in sizes:
            found += _measure_size(list(subjects), size, where, seconds, report)
    return found


class _Entrant:
    """A network while its size is measured."""

    def __init__(self, subject: Subject, frames: Frames, device: torch.device) -> None:
        self.subject, self.frames, self.device = subject, frames, device
        self.backend: Backend | None = None
        self.samples: list[float] = []
        self.block = 1
        self.backend_name = ""
        self.peak: int | None = None
        self.failure = ""

    def begin(self, seconds: float) -> None:
        """Load the network and restore the first frames, which compile kernels and choose algorithms.

        A network that takes longer than `seconds` for the frame after them has had its turn.
        """
        before = _begin_peak(self.device)
        self.subject.network.to(self.device)
        self.backend = self.subject.backend()
        self.backend_name = self.backend.name
        while not self.backend.push(self.frames):  # fill the look-ahead
            pass
        once = self._time(1)
        self.peak = _end_peak(self.device, before)
        self.block = max(1, round(BLOCK_SECONDS / max(once, 1e-6)))
        if once > seconds:
            self.samples.append(once)

    def take_turn(self) -> None:
        """Restore a few frames and note the time of one."""
        if self._is_crowded():
            release(self.device)
            self._time(1)  # takes the memory that the others' turns had
        self.samples.append(self._time(self.block))

    def _is_crowded(self) -> bool:
        """Whether this network's memory has to come out of what torch keeps for the others."""
        if self.device.type != "cuda" or self.peak is None:
            return False
        total = torch.cuda.get_device_properties(self.device).total_memory
        return torch.cuda.memory_reserved(self.device) + self.peak > CROWDED * total

    def leave(self) -> None:
        self.backend = None
        self.subject.network.to("cpu")

    def _time(self, frames: int) -> float:
        assert self.backend is not None
        _synchronize(self.device)
        start = time.perf_counter()
        for _ in range(frames):
            self.backend.push(self.frames)
        _synchronize(self.device)
        return (time.perf_counter() - start) / frames


def _measure_size(
    subjects: list[Subject], size: tuple[int, int], device: torch.device, seconds: float, report: Callable[[str], None]
) -> list[Efficiency]:
    generator = torch.Generator().manual_seed(0)
    samples = torch.randint(256, (1, size[1], size[0], 3), dtype=torch.uint8, generator=generator).to(device)
    frames = Frames((samples,), FrameFormat(*size, RGB8))
    entrants = [_Entrant(subject, frames, device) for subject in subjects]
    label = SIZES.get(size, "x".join(map(str, size)))
    for entrant in entrants:
        _attempt(entrant, lambda entrant=entrant: entrant.begin(seconds))  # type: ignore[misc]
        report(f"{entrant.subject.name}, {label}: {entrant.failure or 'ready'}")
    for _ in range(MOST_ROUNDS):
        for entrant in entrants:
            spent = sum(entrant.samples) * entrant.block
            if not entrant.failure and (not entrant.samples or spent < seconds):
                _attempt(entrant, entrant.take_turn)
    found = []
    for entrant in entrants:
        network = entrant.subject.network
        dtype = str(network.dtype).removeprefix("torch.")
        row = Efficiency(
            entrant.subject.name,
            size,
            count_parameters(network),
            None,
            statistics.median(entrant.samples) * 1000 if entrant.samples and not entrant.failure else None,
            entrant.peak,
            len(entrant.samples),
            describe_device(device),
            dtype,
            entrant.failure,
            entrant.backend_name,
        )
        entrant.leave()
        if row.parameters:
            row = replace(row, gflops=network_cost(network, width=size[0], height=size[1]).gflops)
        found.append(row)
        time_ = "-" if row.milliseconds is None else f"{row.milliseconds:.1f} ms"
        report(f"{row.model}, {label}: {row.failure or time_}")
    release(device)
    return found


def _attempt(entrant: _Entrant, action: Callable[[], None]) -> None:
    try:
        action()
    except (RuntimeError, MemoryError) as error:
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        entrant.failure = "out of memory" if ran_out_of_memory(error) else f"failed: {text}"
        entrant.samples.clear()
    if entrant.failure:
        entrant.leave()
        release(entrant.device)


def release(device: torch.device) -> None:
    """Give back the memory of what nobody uses any more."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def _refuse_instead_of_dying(device: torch.device) -> Iterator[None]:
    """On Linux CPUs, let an allocation beyond the free memory fail, so that the system does not kill the process."""
    free, used = _memory_bytes("/proc/meminfo", "MemAvailable"), _memory_bytes("/proc/self/status", "VmData")
    if device.type != "cpu" or free is None or used is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = used + free if hard == resource.RLIM_INFINITY else min(used + free, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _begin_peak(device: torch.device) -> int | None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return int(torch.cuda.memory_allocated(device))
    try:
        Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak so far
    except OSError:
        return None
    return _memory_bytes("/proc/self/status", "VmRSS")


def _end_peak(device: torch.device, before: int | None) -> int | None:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device)) - (before or 0)
    peak = _memory_bytes("/proc/self/status", "VmHWM")
    return None if before is None or peak is None else max(0, peak - before)


def _memory_bytes(file: str, field: str) -> int | None:
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)
