"""`libranet bench --me`: how fast this machine is, what bounds it, others beside it, and a card to show around."""

import datetime
import importlib.util
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

import libranet
from libranet.device import describe_device, pick_device
from libranet.engine.dehazer import Dehazer
from libranet.errors import InputError, MissingDependencyError, install_command
from libranet.kernels.native.library import level
from libranet.lab.bench.codec import codec_rates
from libranet.runtime.gpu.estimate import BYTES_PER_PIXEL, ENCODER_FLOPS, FLOPS_PER_PIXEL

SIZE = (1920, 1080)
"""Of the frames."""
_COPIED = 1 << 28
"""Bytes that are copied to measure memory: far more than caches hold."""
_MATRIX = 2048


@dataclass(frozen=True)
class Other:
    """A machine that was measured before."""

    device: str
    date: str
    base: float
    """Frames a second with libranet-base."""
    small: float | None
    source: str
    """The result in benchmarks/results/."""


OTHERS = (
    Other("NVIDIA H200, fp16", "2026-11-17", 1522.9, None, "bench-peers-h200-2026-11-17.json"),
    Other("AMD EPYC, 2 threads, AVX512-BF16", "2026-11-17", 7.55, 18.34, "cpu-2026-11-17.json"),
    Other("AMD EPYC, 2 threads, AVX2", "2026-11-17", 3.86, 13.43, "cpu-2026-11-17-avx2-code.json"),
)
"""Network alone at 1920x1080. The CPUs' kernels have become faster since."""


@dataclass(frozen=True)
class Machine:
    """What was measured. Rates are frames a second at `SIZE`."""

    device: str
    backend: str
    instructions: str
    threads: int
    base: float
    small: float
    decode: float
    encode: float
    gigabytes: float
    """Copied in a second."""
    gigaflops: float
    """Of a product of large matrices, in the numbers that the network takes."""
    load: float
    """Of the machine when the measurement began."""
    date: str

    @property
    def bound(self) -> str:
        """What a file waits for, in a sentence."""
        slowest = min(
            ("decoding", self.decode), ("encoding", self.encode), ("the network", self.base), key=lambda x: x[1]
        )
        if slowest[0] != "the network":
            return f"a file waits for its codec: {slowest[0]} H.264 gives {slowest[1]:.1f} frames a second"
        pixels = SIZE[0] * SIZE[1]
        compute = (pixels * FLOPS_PER_PIXEL + ENCODER_FLOPS) / (1e9 * self.gigaflops)
        memory = pixels * BYTES_PER_PIXEL / (1e9 * self.gigabytes)
        reached = self.base * max(compute, memory)
        name = "compute" if compute >= memory else "memory"
        share = f": it reaches {reached:.0%} of that ceiling" if reached <= 1 else ""  # on a busy machine nothing fits
        return f"a file waits for the network, and the network for {name}{share}"

    @property
    def ranked(self) -> list[Other]:
        """This machine among the others, the slowest first."""
        mine = Other(f"{self.device} (this machine)", self.date, self.base, self.small, "")
        return sorted([mine, *OTHERS], key=lambda one: one.base)

    def as_json(self) -> str:
        values = {**asdict(self), "size": SIZE, "bound": self.bound, "libranet": libranet.__version__}
        return json.dumps({**values, "others": [asdict(other) for other in OTHERS]}, indent=2) + "\n"

    def lines(self) -> list[str]:
        rows = [
            f"| {one.device} | {one.date} | {one.base:.1f} | {'-' if one.small is None else f'{one.small:.1f}'} |"
            for one in reversed(self.ranked)
        ]
        busy = [f"The load was {self.load:.1f}: other programs made this slower."] if self.load > self.threads else []
        return [
            f"{self.device}, {self.backend}, {self.instructions or 'no'} kernels, {self.threads} threads",
            f"decode {self.decode:.0f}, encode {self.encode:.0f} frames a second of H.264; memory {self.gigabytes:.1f} "
            f"GB/s, matrices {self.gigaflops:.0f} GFLOP/s",
            self.bound,
            *busy,
            "",
            f"| network alone, {SIZE[0]}x{SIZE[1]} | date | base | small |",
            "|---|---|---|---|",
            *rows,
        ]


def measure(*, device: str = "auto", seconds: float = 4.0) -> Machine:
    """Measure this machine, each thing for about so many seconds."""
    load = os.getloadavg()[0]
    generator = np.random.default_rng(0)
    frames = [generator.integers(0, 256, (SIZE[1], SIZE[0], 3), np.uint8) for _ in range(2)]
    chosen = pick_device(device)
    rates, backend = [], ""
    for model in (None, "libranet-small"):
        dehazer = Dehazer(model, device=device, live=True)
        rates.append(_rate(partial(_push, dehazer, frames), seconds) * len(frames))
        backend = backend or dehazer.backend_name
    decode, encode = codec_rates(SIZE, seconds)
    kind = torch.bfloat16 if "bf16" in backend else torch.float32
    left, right = (torch.rand(_MATRIX, _MATRIX).to(kind) for _ in range(2))
    source, target = torch.zeros(_COPIED, dtype=torch.uint8), torch.empty(_COPIED, dtype=torch.uint8)
    return Machine(
        device=describe_device(chosen) if chosen.type != "cpu" else _cpu_name(),
        backend=backend,
        instructions=level() or "",
        threads=torch.get_num_threads(),
        base=rates[0],
        small=rates[1],
        decode=decode,
        encode=encode,
        gigabytes=2 * _COPIED * _rate(lambda: target.copy_(source), seconds / 4) / 1e9,
        gigaflops=2 * _MATRIX**3 * _rate(lambda: left @ right, seconds / 4) / 1e9,
        load=round(load, 1),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    )


def check_card(path: Path) -> None:
    """Refuse a card that cannot be written, before anything is measured."""
    if path.suffix not in (".png", ".svg", ".json"):
        raise InputError(f"a card is .png, .svg or .json, got {path.name}: give -o such as card.png")
    if path.suffix != ".json" and importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError(f"an image needs matplotlib: {install_command('lab')}, or give -o card.json")


def write_card(machine: Machine, path: Path) -> None:
    """Write a card: .json, or an image as .png or .svg."""
    if path.suffix == ".json":
        path.write_text(machine.as_json())
        return
    from matplotlib.figure import Figure

    ranked = machine.ranked
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.add_subplot()
    for at, one in enumerate(ranked):
        for value, up, name in ((one.base, 0.2, "base"), (one.small, -0.2, "small")):
            if value is not None:
                colour = "#adb5bd" if one in OTHERS else "#0b7285"
                axes.barh(at + up, value, 0.36, color=colour, alpha=1.0 if name == "base" else 0.6)
                axes.text(value * 1.08, at + up, f"{value:,.1f} {name}", va="center", fontsize=9)
    names = [one.device.replace(", ", "\n", 1).replace(" (this", "\n(this") for one in ranked]
    axes.set_yticks(range(len(ranked)), names, fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(0.5, 6000)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("frames a second, network alone at 1920x1080", fontsize=9)
    figure.suptitle("LiBrA-Net on this machine", fontsize=15, fontweight="bold", x=0.01, ha="left")
    words = f"{machine.bound[0].upper()}{machine.bound[1:]}.\n"
    words += f"{machine.backend}, {machine.threads} threads, load {machine.load}; "
    words += f"libranet {libranet.__version__}, {machine.date}"
    figure.supxlabel(words, fontsize=9, x=0.01, ha="left", color="#495057")
    figure.savefig(path, dpi=150)


def _push(dehazer: Dehazer, frames: list[np.ndarray]) -> None:
    for frame in frames:
        dehazer.push(frame)


def _rate(work: Callable[[], object], seconds: float) -> float:
    """Return how often a piece of work is done in a second, at its best: others only ever make it slower."""
    work()
    end, best = time.perf_counter() + seconds, float("inf")
    while best == float("inf") or time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return 1 / best


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "CPU")
