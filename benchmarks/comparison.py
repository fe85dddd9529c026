"""Train LiBrA-Net and its peers alike for a short time each, and measure them on held-back moving clips and on pairs.

python benchmarks/comparison.py OUT [--models all] [--seconds 100] [--stop-after 540] [--pairs FOLDER] [--cache FOLDER]

Every network gets the same optimiser, schedule, loss (LiBrA-Net also its Lie term), data, crops and wall-clock time on
one device. A budget of 90 to 120 seconds on an H200 ranks networks; it does not train them to their end. The script
goes on where it stopped: run the same command again until it says that all is done. It needs
no network and no video packages.
"""

import argparse
import gc
import json
import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from libranet.baselines import PEERS
from libranet.errors import InputError
from libranet.evaluation.bench import run_bench
from libranet.evaluation.clips import EvalClip, open_dataset
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import NetworkRestorer, Restorer, open_restorer
from libranet.evaluation.results import ClipResult, ResultStore, write_file
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import prepare_scores
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
REFERENCES = ("identity", "clahe", "dcp", "maxim-outdoor")
"""Rows that nothing is trained for."""
METRICS = "psnr,ssim,lpips,tof,sigma_psnr"
LARGEST_OVERRUN = 1.2
"""A run that takes this much longer than its budget, because other work slowed it down, is stopped."""


@dataclass(frozen=True)
class Run:
    """How one network's training went."""

    model: str
    steps: int
    samples: int
    seconds: float
    loss: float | None
    """Pixel loss, mean over the last tenth of the steps; None where it did not come that far."""
    failure: str = ""


class Clock:
    """Says when no new piece of work may begin."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

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


def train(model: str, bank: ImageBank, options: argparse.Namespace, device: torch.device, path: Path) -> Run:
    """Train one network for its time, and write its averaged weights."""
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


def write_clips(options: argparse.Namespace, folder: Path, device: torch.device, clock: Clock) -> bool:
    """Render the held-back clips. Return if all are there."""

    def may_begin(name: str) -> bool:
        if allowed := clock.allows(30):
            print(f"rendering {name}", flush=True)
        return allowed

    width, height = (int(part) for part in options.clip_size.split("x"))
    return write_held_back_clips(
        folder,
        clips=options.clips,
        frames=options.frames,
        size=(width, height),
        fps=options.fps,
        seed=options.seed,
        device=device,
        may_begin=may_begin,
    )


def measure(
    clips: list[EvalClip],
    restorers: list[Restorer],
    folder: Path,
    options: argparse.Namespace,
    clock: Clock,
    device: torch.device,
) -> tuple[list[ClipResult], bool]:
    """Measure networks on clips; return the results so far, and whether all are there."""
    scores = prepare_scores(choose_metrics(METRICS), paired=True, cache=options.cache, device=str(device))
    store = ResultStore(folder)
    store.begin({"metrics": METRICS, "estimators": scores.estimators()})
    results: list[ClipResult] = []
    for clip in clips:
        missing = [r for r in restorers if store.find(r.name, r.fingerprint, clip.name) is None]
        if missing and not clock.allows(20):
            return results, False
        results += evaluate([clip], restorers, scores, store, subject=restorers[-1].name, device=str(device))
        if missing:
            print(f"{folder.name}: {clip.name} measured", flush=True)
    return results, True


def open_rows(models: list[str], folder: Path, options: argparse.Namespace) -> list[Restorer]:
    """The references, the shipped weights, and what was trained here."""
    rows: list[Restorer] = []
    for name in (*REFERENCES, OURS):
        entry = next((entry for entry in PEERS if entry.name == name), None)
        if entry is not None and entry.published and find_weights(find_model(name)) is None:
            print(f"{name} is left out: it is not in the cache", flush=True)
            continue
        if name == OURS and options.no_shipped:
            continue
        row = open_restorer(name, device=options.device, precision="auto" if name == OURS else "fp32")
        row.name = "libranet-shipped" if name == OURS else name
        rows.append(row)
    for model in models:
        path = folder / f"{model}.safetensors"
        if path.is_file():
            precision = "auto" if model == OURS else "fp32"
            rows.append(open_restorer(f"{model}={path}", device=options.device, precision=precision))
    return rows


def write_table(
    folder: Path,
    runs: dict[str, Run],
    sets: dict[str, dict[str, dict[str, Estimate]]],
    speed: dict[str, dict[str, float | None]],
    options: argparse.Namespace,
) -> str:
    """Write results.json and table.md; return the latter."""
    models = list(dict.fromkeys(model for found in sets.values() for model in found))
    names = METRICS.split(",")
    head = ["model", "samples", *(f"{metric}, {where}" for where in sets for metric in names), "FPS", "memory (GiB)"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for model in models:
        run, fast = runs.get(model), speed.get(model.replace("-shipped", ""), {})
        cells = [model, f"{run.samples:,}" if run else "-"]
        for found in sets.values():
            cells += [_format(found.get(model, {}).get(metric)) for metric in names]
        fps, memory = fast.get("fps"), fast.get("memory")
        cells += ["-" if fps is None else f"{fps:.2f}", "-" if memory is None else f"{memory / 2**30:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"\n{run.model}: {run.failure}" for run in runs.values() if run.failure]
    first = next(iter(sets), None)
    content = {
        "machine": describe_machine(),
        "options": {key: str(value) for key, value in vars(options).items()},
        "runs": {model: asdict(run) for model, run in runs.items()},
        "psnr": {m: v["psnr"].mean for m, v in sets[first].items() if "psnr" in v} if first else {},
        "sets": {
            where: {m: {k: asdict(e) for k, e in v.items()} for m, v in found.items()} for where, found in sets.items()
        },
        "speed": speed,
    }
    write_file(folder / "results.json", json.dumps(content, indent=2) + "\n")
    text = "\n".join(lines) + "\n"
    write_file(folder / "table.md", text)
    return text


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


def train_all(models: list[str], options: argparse.Namespace, device: torch.device, clock: Clock) -> dict[str, Run]:
    """Train what is not trained yet and return all runs so far."""
    folder: Path = options.output
    path = folder / "runs.json"
    runs = {m: Run(**r) for m, r in json.loads(path.read_text()).items()} if path.is_file() else {}
    missing = [model for model in models if model not in runs]
    if not missing or not clock.allows(options.seconds * 1.3):
        return runs
    bank = load_images(training_config(OURS, options), device)
    for model in missing:
        if not clock.allows(options.seconds * 1.3):
            break
        try:
            runs[model] = train(model, bank, options, device, folder / "models" / f"{model}.safetensors")
        except (torch.OutOfMemoryError, TrainingStoppedError) as error:
            runs[model] = Run(model, 0, 0, 0.0, None, str(error).splitlines()[0])
        _free(device)
        write_file(path, json.dumps({m: asdict(r) for m, r in runs.items()}, indent=2) + "\n")
        print(runs[model], flush=True)
    return runs


def main() -> None:
    """Do as much as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--models", default="all")
    parser.add_argument("--seconds", type=float, default=100.0, help="training time of each network")
    parser.add_argument("--samples", type=int, default=0, help="most samples of each network; 0: only the time counts")
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
    parser.add_argument("--frames", type=int, default=6, help="frames of each")
    parser.add_argument("--fps", type=float, default=10.0, help="frame rate of their camera paths")
    parser.add_argument("--clip-size", default="3840x2160")
    parser.add_argument("--pairs", type=Path, help="a folder with hazy/ and clear/ images as a second opinion")
    parser.add_argument("--cache", type=Path, help="cache folder of LPIPS and RAFT weights")
    parser.add_argument("--no-shipped", action="store_true", help="leave out the weights of the package")
    parser.add_argument("--bench-seconds", type=float, default=2.0)
    options = parser.parse_args()
    known = [OURS, OURS_PLAIN, *(entry.name for entry in PEERS if entry.trainable)]
    models = known if options.models == "all" else options.models.split(",")
    if unknown := [model for model in models if model not in known]:
        raise InputError(f"cannot train {unknown[0]!r}: expected names of {', '.join(known)}")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    device, clock, folder = torch.device(options.device), Clock(options.stop_after), options.output

    runs = train_all(models, options, device, clock)
    complete = all(model in runs for model in models)
    sets: dict[str, dict[str, dict[str, Estimate]]] = {}
    if complete and write_clips(options, folder / "clips", device, clock):
        rows = open_rows(models, folder / "models", options)
        places = {"4K clips": (open_dataset(folder / "clips"), folder / "on-clips")}
        if options.pairs:
            places["pairs"] = (open_dataset(options.pairs, stills=True), folder / "on-pairs")
        for where, (clips, place) in places.items():
            results, finished = measure(clips, rows, place, options, clock, device)
            complete &= finished
            sets[where] = summarise_models([summarise_clip(result) for result in results])
        for row in rows:
            if isinstance(row, NetworkRestorer):
                row.network.to("cpu")
        del rows
        _free(device)
    else:
        complete = False
    complete &= (speed := measure_speed(models, options, device, clock)) is not None
    print(write_table(folder, runs, sets, speed or {}, options))
    print("all is done" if complete else "not done yet: run the same command again", flush=True)


def measure_speed(
    models: list[str], options: argparse.Namespace, device: torch.device, clock: Clock
) -> dict[str, dict[str, float | None]] | None:
    """Frames per second and memory at the size of the clips, in one run; None where no time is left for it."""
    path: Path = options.output / "speed.json"
    if path.is_file():
        return json.loads(path.read_text())
    if not clock.allows(120 if device.type == "cuda" else 5):
        return None
    width, height = (int(part) for part in options.clip_size.split("x"))
    rows, _ = run_bench(
        [*models, "clahe", "dcp"],
        sizes=[(width, height)],
        device=str(device),
        seconds=options.bench_seconds,
        report=lambda line: print(line, flush=True),
    )
    speed = {row.model: {"fps": row.fps, "memory": row.peak_bytes} for row in rows}
    write_file(path, json.dumps(speed, indent=2) + "\n")
    return speed


if __name__ == "__main__":
    main()
