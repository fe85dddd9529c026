"""Train LiBrA-Net and its peers alike, and measure them on held-back moving clips and on pairs.

python benchmarks/comparison.py OUT [--models all] [--samples 8000] [--seconds 100] [--part 1/4] [--stop-after 540]
                                    [--pairs FOLDER] [--cache FOLDER] [--bench bench.json]

Every network gets the same optimiser, schedule, loss (LiBrA-Net also its Lie term), data, crops and budget on one
device: a number of samples, and a wall-clock time that none may exceed. A budget of 90 to 120 seconds on an H200 ranks
networks; it does not train them to their end.

Processes may share one GPU and one folder: each does its --part of the networks. Their times then say nothing, and
samples are the budget. The script goes on where it stopped: run the same command again until it says that all is done.
OUT/runs is all that it needs for that on another machine. It needs no network and no video packages.
"""

import argparse
import gc
import json
import math
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from libranet.ablation.ablate import parse_part
from libranet.baselines import PEERS
from libranet.errors import InputError
from libranet.evaluation.bench_report import quality_plot
from libranet.evaluation.clips import EvalClip, open_dataset
from libranet.evaluation.efficiency import Efficiency
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import Restorer, open_restorer
from libranet.evaluation.results import ResultStore, write_file
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import Scores, prepare_scores
from libranet.evaluation.summary import Estimate, summarise_clip, summarise_models
from libranet.losses.objective import LossConfig
from libranet.synth.held_back import write_held_back_clips
from libranet.thirdparty import find_model, find_weights
from libranet.training.config import HazeConfig, OptimiserConfig, PhotoSourceConfig, RegimeConfig, TrainConfig
from libranet.training.distributed import Shard
from libranet.training.image_bank import ImageBank
from libranet.training.start import haze_source, load_images
from libranet.training.trainer import Trainer, TrainingStoppedError
from machine import describe_machine

OURS = "libranet"
OURS_PLAIN = "libranet-plain"
"""LiBrA-Net trained in plain PyTorch, as the peers are, without our kernels."""
SHIPPED = "libranet-shipped"
"""LiBrA-Net with the weights of the package."""
REFERENCES = ("identity", "clahe", "dcp", "maxim-outdoor", SHIPPED)
"""Rows that nothing is trained for."""
CLIPS, PAIRS = "4K clips", "pairs"
SETTINGS = (
    *("seconds", "samples", "precision", "batch", "crop", "lr"),
    *("seed", "lines", "clips", "frames", "clip_size"),
)
"""Options that rows must share to be comparable."""
METRICS = "psnr,ssim,lpips,tof,sigma_psnr"
OVER_TIME = ("tof", "sigma_psnr")
"""Of clips alone: a still has no frame before it."""
LARGEST_OVERRUN = 1.2
"""A run that takes this much longer than its budget, because other work slowed it down, is stopped."""


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


class Clock:
    """Says when no new piece of work may begin."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.measuring = 20.0
        """Seconds to measure one network; the slowest so far."""

    def allows(self, seconds: float) -> bool:
        """Whether so much time is left."""
        return time.monotonic() + seconds < self.end


def training_config(model: str, options: argparse.Namespace) -> TrainConfig:
    """The one recipe of the comparison."""
    return TrainConfig(
        name=model,
        seed=options.seed,
        steps=1,  # found by measuring how long a step takes
        batch=options.batch,
        crops=((options.crop, options.crop),),
        precision=options.precision,
        ema=0.99,
        fused=model == OURS,
        peer="" if model in (OURS, OURS_PLAIN) else model,
        optimiser=OptimiserConfig(lr=options.lr, warmup=0.05),
        loss=LossConfig(perceptual="none"),
        photos=PhotoSourceConfig(
            folders=tuple(map(str, options.photos)),
            depth=str(options.depth or ""),
            scenes=options.scenes,
            scene_views=4,
            lines=options.lines,
            haze=HazeConfig(regimes=RegimeConfig(probability=0.65)),
        ),
    )


def train(
    model: str, bank: ImageBank, options: argparse.Namespace, device: torch.device, path: Path, clock: Clock
) -> Run | None:
    """Train one network for its budget, and write its averaged weights; None where no time is left for it."""
    config = training_config(model, options)
    batches = haze_source(config, bank)
    shard = Shard()
    trial = Trainer(config, steps=1000, device=device)
    for step in range(3):  # compiles kernels and chooses algorithms
        trial.step(batches.batch(step, shard))
    begin = _now(device)
    for step in range(3, 3 + options.trial_steps):
        trial.step(batches.batch(step, shard))
    one = (_now(device) - begin) / options.trial_steps
    steps = max(2, int(options.seconds / one))
    if options.samples:
        steps = min(steps, max(2, options.samples // config.batch))
    if not clock.allows(steps * one * 1.1 + clock.measuring):
        return None
    trainer = Trainer(replace(config, steps=steps), steps=steps, device=device)
    del trial
    losses: list[float] = []
    begin = _now(device)
    for step in range(steps):
        terms, _ = trainer.step(batches.batch(step, shard))
        if step >= 0.9 * steps:
            losses.append(float(terms.pixel.detach()))
        if time.perf_counter() - begin > LARGEST_OVERRUN * options.seconds:
            break
    spent = _now(device) - begin
    done = trainer.progress.step
    run = Run(model, done, done * config.batch, round(spent, 1), float(np.mean(losses)) if losses else None)
    trainer.save_average(path, {"comparison": asdict(run), "machine": describe_machine()})
    return run


def write_clips(options: argparse.Namespace, clock: Clock, *, part: tuple[int, int] = (1, 1)) -> bool:
    """Render the held-back clips of a part, or of all. Return if they are there."""

    def may_begin(name: str) -> bool:
        if allowed := clock.allows(30):
            print(f"rendering {name}", flush=True)
        return allowed

    width, height = (int(side) for side in options.clip_size.split("x"))
    return write_held_back_clips(
        options.output / "clips",
        clips=options.clips,
        frames=options.frames,
        size=(width, height),
        device=torch.device(options.device),
        part=part,
        may_begin=may_begin,
    )


def measure(run: Run, row: Restorer, scores: Scores, options: argparse.Namespace) -> Run:
    """Measure one network on all sets."""
    clips: dict[str, list[EvalClip]] = {CLIPS: open_dataset(options.output / "clips")}
    if options.pairs:
        clips[PAIRS] = open_dataset(options.pairs, stills=True)
    sets = {}
    for where, parts in clips.items():
        store = ResultStore(options.output / f"on-{where.split()[-1]}")
        store.begin({"metrics": METRICS, "estimators": scores.estimators()})
        found = evaluate(parts, [row], scores, store, subject=row.name, device=options.device, panels=False)
        sets[where] = summarise_models([summarise_clip(result) for result in found])[row.name]
    return replace(run, sets=sets)


def open_row(name: str, records: Records, options: argparse.Namespace) -> Restorer:
    """A reference, the shipped weights, or what was trained here. Peers compute in float32."""
    if name == SHIPPED:
        return open_restorer(f"{SHIPPED}={OURS}", device=options.device)
    if name in REFERENCES:
        return open_restorer(name, device=options.device, precision="fp32")
    precision = "auto" if name == OURS else "fp32"
    return open_restorer(f"{name}={records.weights(name)}", device=options.device, precision=precision)


def choose_references(options: argparse.Namespace) -> list[str]:
    """The rows that nothing is trained for, without those whose weights are not here."""
    found = [name for name in REFERENCES if name != SHIPPED or not options.no_shipped]
    for entry in PEERS:
        if entry.name in found and entry.published and find_weights(find_model(entry.name)) is None:
            print(f"{entry.name} is left out: it is not in the cache", flush=True)
            found.remove(entry.name)
    return found


def do_part(rows: list[str], records: Records, options: argparse.Namespace, clock: Clock) -> None:
    """Train and measure rows one after another, as far as time allows."""
    missing = [name for name in rows if (run := records.find(name)) is None or not run.done]
    if not missing:
        return
    device = torch.device(options.device)
    if not clock.allows(0) or not write_clips(options, clock, part=options.part):
        return
    bank = load_images(training_config(OURS, options), device)
    scores = prepare_scores(choose_metrics(METRICS), paired=True, cache=options.cache, device=options.device)
    for metric, reason in scores.not_measured.items():
        print(f"{metric} is not measured: {reason}", flush=True)
    for name in missing:
        run = records.find(name) or (Run(name) if name in REFERENCES else None)
        try:
            if run is None:
                run = train(name, bank, options, device, records.weights(name), clock)
                if run is None:
                    return
                records.save(run)
                _free(device)
            # The clips of other parts are there by now, unless such a part does not run.
            if not clock.allows(clock.measuring) or not write_clips(options, clock):
                return
            begin = time.monotonic()
            run = measure(run, open_row(name, records, options), scores, options)
            clock.measuring = max(clock.measuring, time.monotonic() - begin)
        except (torch.OutOfMemoryError, TrainingStoppedError) as error:
            if isinstance(error, torch.OutOfMemoryError) and options.part[1] > 1:  # says nothing about the network
                print(f"{name}: out of memory beside other processes, left for another call", flush=True)
                _free(device)
                continue
            run = replace(run or Run(name), failure=str(error).splitlines()[0])
        records.save(run)
        _free(device)
        print(f"{name}: {run.samples} samples, {run.seconds} s, {run.failure or format_set(run, CLIPS)}", flush=True)


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
        Efficiency(size=(width, height), **{key: row[key] for key in keys})
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


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _free(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def main() -> None:
    """Do as much as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--models", default="all")
    parser.add_argument("--seconds", type=float, default=100.0, help="largest training time of each network")
    parser.add_argument("--samples", type=int, default=0, help="most samples of each network; 0: only the time counts")
    parser.add_argument("--part", default="1/1", help="2/4: the second of every four networks alone")
    parser.add_argument("--stop-after", type=float, default=math.inf, help="begin nothing new after so many seconds")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16", help="of the training")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--crop", type=int, default=256)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--photos", type=Path, nargs="*", default=[], help="folders of clear photos to train on")
    parser.add_argument("--depth", type=Path, help="their depth maps, as a recipe takes them")
    parser.add_argument("--scenes", type=int, default=96, help="rendered scenes to train on")
    parser.add_argument("--lines", type=int, default=540, help="height of the training images")
    parser.add_argument("--trial-steps", type=int, default=6, help="steps that find out how long a step takes")
    parser.add_argument("--clips", type=int, default=9, help="held-back clips; nine have every regime once")
    parser.add_argument("--frames", type=int, default=5, help="frames of each")
    parser.add_argument("--clip-size", default="3840x2160")
    parser.add_argument("--pairs", type=Path, help="a folder with hazy/ and clear/ images as a second opinion")
    parser.add_argument("--cache", type=Path, help="cache folder of LPIPS and RAFT weights")
    parser.add_argument("--no-shipped", action="store_true", help="leave out the weights of the package")
    parser.add_argument("--bench", type=Path, help="bench.json of `libranet bench` at the size of the clips")
    options = parser.parse_args()
    options.part = parse_part(options.part)
    known = [OURS, OURS_PLAIN, *(entry.name for entry in PEERS if entry.trainable)]
    models = known if options.models == "all" else options.models.split(",")
    if unknown := [model for model in models if model not in known]:
        raise InputError(f"cannot train {unknown[0]!r}: expected names of {', '.join(known)}")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    records, references = Records(options.output, options), choose_references(options)
    number, parts = options.part
    rows = [*models[number - 1 :: parts], *(references if number == 1 else ())]
    do_part(rows, records, options, Clock(options.stop_after))
    found = [records.find(name) for name in (*references, *models)]
    print(write_table([run for run in found if run is not None], options))
    complete = all(run is not None and run.done for run in found)
    print("all is done" if complete else "not done yet: run the same command again", flush=True)


if __name__ == "__main__":
    main()
