"""The rows of `comparison.py`: a small file for each, which other processes and later calls find, and the table."""

import argparse
import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from libranet.errors import InputError
from libranet.evaluation.results import write_file
from libranet.evaluation.summary import Estimate, estimate
from libranet.lab.bench.efficiency import Efficiency
from libranet.lab.bench.report import quality_plot
from libranet.training.state import STATE_FILE
from libranet.training.trainer import MODEL_FILE
from machine import describe_machine

CLIPS, PAIRS = "clips", "pairs"
METRICS = "psnr,ssim,lpips,tof,sigma_psnr"
OVER_TIME = ("tof", "sigma_psnr")
"""Of clips alone: a still has no frame before it."""


@dataclass(frozen=True)
class Run:
    """One row: how far the network's training has come and what was measured."""

    model: str
    seed: int = 0
    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    """Of training, over all calls; shared with other processes where the study is done in parts."""
    measuring: float = 0.0  # seconds, likewise
    backend: str = ""  # what computed the measured frames
    values: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """By set, clip and metric."""
    failure: str = ""
    """Why there are no results."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return bool(self.values or self.failure)


class Records:
    """The folder of a comparison: a small file per row, and a folder per training."""

    def __init__(self, folder: Path, protocol: dict[str, str]) -> None:
        self.folder, self.protocol = folder, protocol

    def find(self, model: str, seed: int) -> Run | None:
        """An earlier run; None where there is none, or its weights are gone unmeasured.

        Raises:
            InputError: It was made with other settings.
        """
        path = self._path(model, seed)
        if not path.is_file():
            return None
        content = json.loads(path.read_text())
        if content["protocol"] != self.protocol:
            before, now = content["protocol"], self.protocol
            changed = sorted(k for k in before.keys() | now.keys() if before.get(k) != now.get(k))
            raise InputError(f"{path} is of another protocol ({', '.join(changed)}): choose another folder")
        run = Run(**content["run"])
        there = [self.weights(model, seed), self.folder_of(model, seed) / STATE_FILE]
        return run if run.done or any(path.is_file() for path in there) else None

    def save(self, run: Run) -> None:
        """Write one row."""
        content = {"protocol": self.protocol, "machine": describe_machine(), "run": asdict(run)}
        write_file(self._path(run.model, run.seed), json.dumps(content, indent=1) + "\n")

    def folder_of(self, model: str, seed: int) -> Path:
        """Where the state of a training is."""
        return self.folder / "trained" / f"{model}-{seed}"

    def weights(self, model: str, seed: int) -> Path:
        """Where the weights of a trained network are."""
        return self.folder_of(model, seed) / MODEL_FILE

    def _path(self, model: str, seed: int) -> Path:
        return self.folder / "runs" / f"{model}-{seed}.json"

    @contextmanager
    def claim(self, model: str) -> Iterator[bool]:
        """Keep other processes from a row; False where one of them has it. A process that dies gives it back."""
        path = self.folder / "claims" / model
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


def estimates(runs: list[Run], where: str) -> dict[str, Estimate]:
    """Means over the clips of a set with 95 % intervals; a clip's value is the mean over the seeds."""
    measured = [run.values[where] for run in runs if where in run.values]
    if not measured:
        return {}
    found: dict[str, Estimate] = {}
    for metric in METRICS.split(","):
        by_clip = [[run[clip][metric] for run in measured if metric in run[clip]] for clip in measured[0]]
        means = [sum(values) / len(values) for values in by_clip if values]
        if means:
            found[metric] = estimate(means)
    return found


def format_set(run: Run, where: str = CLIPS) -> str:
    """The measured values of a row on one set, for the log."""
    return ", ".join(f"{metric} {_format(value)}" for metric, value in estimates([run], where).items())


def write_table(runs: list[Run], options: argparse.Namespace, machine: dict[str, Any]) -> str:
    """Write results.json, table.md and, with a benchmark, the plot of quality against speed; return the table."""
    folder, names = options.output, METRICS.split(",")
    sets = list(dict.fromkeys(where for run in runs for where in run.values))
    speed = read_bench(options.bench, options.clip_size) if options.bench else []
    columns = [(where, m) for where in sets for m in names if where == CLIPS or m not in OVER_TIME]
    head = ["model", f"samples of {options.samples:,}", "seeds", "training (s)", "measuring (s)"]
    head += [*(f"{metric}, {where}" for where, metric in columns), "FPS", "memory (GiB)"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    psnr: dict[str, float] = {}
    for model in dict.fromkeys(run.model for run in runs):
        mine = [run for run in runs if run.model == model]
        done = [run for run in mine if run.values]
        shown = done or mine
        fast = next((row for row in speed if row.model == model.removesuffix("-shipped")), None)
        samples = min(run.samples for run in shown)
        seconds = [
            f"{sum(times) / len(shown):.0f}" for times in zip(*((r.seconds, r.measuring) for r in shown), strict=True)
        ]
        cells = [model, f"{samples:,}" if samples else "-", str(len(done)), *seconds]
        found = {where: estimates(done, where) for where in sets}
        cells += [_format(found[where].get(metric)) for where, metric in columns]
        cells.append("-" if fast is None else f"{fast.fps:.2f}" if fast.fps is not None else fast.failure)
        cells.append("-" if fast is None or fast.peak_bytes is None else f"{fast.peak_bytes / 2**30:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
        if "psnr" in found.get(CLIPS, {}):
            psnr[model] = found[CLIPS]["psnr"].mean
    lines += [f"\n{run.model}, seed {run.seed}: {run.failure}" for run in runs if run.failure]
    content = {
        "machine": machine,
        "options": {key: str(value) for key, value in vars(options).items()},
        "psnr": psnr,
        "runs": [asdict(run) for run in runs],
    }
    write_file(folder / "results.json", json.dumps(content, indent=1) + "\n")
    if speed:
        write_file(folder / "quality-by-fps.svg", quality_plot(speed, psnr))
    text = "\n".join(lines) + "\n"
    write_file(folder / "table.md", text)
    return text


def read_bench(path: Path, size: str) -> list[Efficiency]:
    """Rows of one size from the bench.json of `libranet bench`."""
    width, height = (int(side) for side in size.split("x"))
    rows = json.loads(path.read_text())["rows"]
    keys = [key for key in Efficiency.__dataclass_fields__ if key != "size"]
    found = [
        Efficiency(size=(width, height), **{key: row[key] for key in keys if key in row})
        for row in rows
        if tuple(row["size"]) == (width, height)
    ]
    if not found:
        raise InputError(f"expected rows of {size} in {path}: run libranet bench with --sizes {size}")
    return found


def _format(value: Estimate | None) -> str:
    if value is None:
        return "-"
    digits = 2 if abs(value.mean) >= 1 else 4
    return f"{value.mean:.{digits}f}" + ("" if value.half_width is None else f" ± {value.half_width:.{digits}f}")
