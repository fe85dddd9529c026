"""The rows of `comparison.py`: a small file for each, which other processes and later calls find, and the table."""

import argparse
import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from libranet.errors import InputError
from libranet.evaluation.results import write_file
from libranet.evaluation.summary import Estimate
from libranet.lab.bench.efficiency import Efficiency
from libranet.lab.bench.report import quality_plot
from machine import describe_machine

CLIPS, PAIRS = "4K clips", "pairs"
SETTINGS = (
    *("seconds", "samples", "precision", "batch", "crop", "lr"),
    *("seed", "lines", "clips", "frames", "clip_size"),
)
"""Options that rows must share to be comparable."""
METRICS = "psnr,ssim,lpips,tof,sigma_psnr"
OVER_TIME = ("tof", "sigma_psnr")
"""Of clips alone: a still has no frame before it."""


@dataclass(frozen=True)
class Run:
    """One row: how the network's training went and what was measured."""

    model: str
    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    """Of training; shared with other processes where the study is done in parts."""
    loss: float | None = None
    """Pixel loss, mean over the last tenth of the steps; None where it did not come that far."""
    sets: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    """By set and metric."""
    failure: str = ""
    """Why there are no results."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return bool(self.sets or self.failure)


class Records:
    """The folder of a comparison: a small file per row, and weights until they are measured."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder = folder
        self.settings = {name: getattr(options, name) for name in SETTINGS}

    def find(self, model: str) -> Run | None:
        """An earlier run; None where there is none, or its weights are gone unmeasured.

        Raises:
            InputError: It was made with other settings.
        """
        path = self._path(model)
        if not path.is_file():
            return None
        content = json.loads(path.read_text())
        if content["settings"] != json.loads(json.dumps(self.settings)):
            raise InputError(f"{path} is of another budget or data ({content['settings']}): choose another folder")
        run = Run(**content["run"])
        sets = {where: {k: Estimate(**e) for k, e in found.items()} for where, found in run.sets.items()}
        return replace(run, sets=sets) if run.done or self.weights(model).is_file() else None

    def save(self, run: Run) -> None:
        """Write one row."""
        content = {"settings": self.settings, "machine": describe_machine(), "run": asdict(run)}
        write_file(self._path(run.model), json.dumps(content, indent=2) + "\n")

    def weights(self, model: str) -> Path:
        """Where the weights of a trained network are."""
        return self.folder / "models" / f"{model}.safetensors"

    def _path(self, model: str) -> Path:
        return self.folder / "runs" / f"{model}.json"

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


def format_set(run: Run, where: str) -> str:
    """The measured values of a row on one set, for the log."""
    return ", ".join(f"{metric} {_format(value)}" for metric, value in run.sets.get(where, {}).items())


def write_table(runs: list[Run], options: argparse.Namespace) -> str:
    """Write results.json, table.md and, with a benchmark, the plot of quality against speed; return the table."""
    folder, names = options.output, METRICS.split(",")
    sets = list(dict.fromkeys(where for run in runs for where in run.sets))
    speed = read_bench(options.bench, options.clip_size) if options.bench else []
    columns = [(where, m) for where in sets for m in names if where == CLIPS or m not in OVER_TIME]
    head = ["model", "samples", *(f"{metric}, {where}" for where, metric in columns), "FPS", "memory (GiB)"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for run in runs:
        fast = next((row for row in speed if row.model == run.model.removesuffix("-shipped")), None)
        cells = [run.model, f"{run.samples:,}" if run.samples else "-"]
        cells += [_format(run.sets.get(where, {}).get(metric)) for where, metric in columns]
        cells.append("-" if fast is None else f"{fast.fps:.2f}" if fast.fps is not None else fast.failure)
        cells.append("-" if fast is None or fast.peak_bytes is None else f"{fast.peak_bytes / 2**30:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"\n{run.model}: {run.failure}" for run in runs if run.failure]
    psnr = {run.model: run.sets[CLIPS]["psnr"].mean for run in runs if "psnr" in run.sets.get(CLIPS, {})}
    content = {
        "machine": describe_machine(),
        "options": {key: str(value) for key, value in vars(options).items()},
        "psnr": psnr,
        "runs": [asdict(run) for run in runs],
    }
    write_file(folder / "results.json", json.dumps(content, indent=2) + "\n")
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
