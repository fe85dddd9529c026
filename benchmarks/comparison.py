"""Train LiBrA-Net and its peers alike, and measure them on held-back moving clips and on pairs.

python benchmarks/comparison.py OUT [--models all] [--samples 8000] [--seconds 100] [--part 1/4] [--stop-after 540]
                                    [--pairs FOLDER] [--cache FOLDER] [--bench bench.json]

Every network gets the same optimiser, schedule, loss (LiBrA-Net also its Lie term), data, crops and budget on one
device: a number of samples, and a wall-clock time that none may exceed. A budget of 90 to 120 seconds on an H200 ranks
networks; it does not train them to their end.

Processes may share one GPU and one folder: each renders its --part of the clips, then takes the next network that no
other has begun, the longest first. Their times then say nothing, and samples are the budget. The script goes on where
it stopped: run the same command again until it says that all is done. OUT/runs is all that it needs for that on
another machine. It needs no network and no video packages.
"""

import argparse
import gc
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from comparison_rows import CLIPS, METRICS, PAIRS, Records, Run, format_set, write_table
from libranet.data.frames import FrameSequence
from libranet.engine.frame_sources import FrameSource
from libranet.errors import InputError
from libranet.evaluation.clips import EvalClip, EvalFrame, open_dataset
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import Restorer, open_restorer
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import Scores, prepare_scores
from libranet.evaluation.summary import summarise_clip, summarise_models
from libranet.haze.images import ImageBank
from libranet.haze.kinds import HazeConfig, RegimeHaze, VariedHaze
from libranet.lab.ablation.ablate import parse_part
from libranet.lab.held_back import write_held_back_clips
from libranet.lab.peers import PEERS
from libranet.losses.objective import LossConfig
from libranet.thirdparty import find_model, find_weights
from libranet.training.config import OptimiserConfig, PhotoSourceConfig, TrainConfig
from libranet.training.distributed import Shard
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
ONLY_PAIRS = ("maxim-outdoor",)
"""Not measured on the clips: 54 TFLOPs in float32 for each of their frames."""
LONGEST_FIRST = (
    *("ffa-net", "dvd", "map-net", "pm-net", "4kdehazing", "dehazeformer-b", "dehamer", OURS),
    *("uhdformer", "dehazexl", "uhddip", "msbdn-dff", OURS_PLAIN, "dehazeformer-s", "dehazeformer-t"),
)
"""The order in which networks are begun, so that no long one is left when the other processes are done."""
SHARED = 0.8
"""Of the time that a training seems to take beside other processes: some of them end before it does."""
LARGEST_OVERRUN = 1.2
"""A run that takes this much longer than its budget, because other work slowed it down, is stopped."""


@dataclass(frozen=True)
class FramesInMemory:
    """The frames of a clip, read once for all rows."""

    images: tuple[np.ndarray, ...]  # [H, W, 3] 8 bit each

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.images[0].shape[1], self.images[0].shape[0]

    def __len__(self) -> int:
        return len(self.images)

    def read(self, index: int) -> np.ndarray:
        """One frame."""
        return self.images[index]


class AsTrained:
    """A restorer that computes in the precision of the training, by autocast."""

    def __init__(self, restorer: Restorer, device: torch.device) -> None:
        self.restorer, self.device = restorer, device
        self.name, self.fingerprint = restorer.name, f"{restorer.fingerprint} autocast"

    @property
    def backend(self) -> str:
        """What computed the last clip."""
        return f"{self.restorer.backend}, autocast"

    def restore(self, source: FrameSource, frames: Iterator[EvalFrame]) -> Iterator[Tensor]:
        """Restore the frames of a clip."""
        restored = self.restorer.restore(source, frames)
        while True:
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                image = next(restored, None)
            if image is None:
                return
            yield image


class Clock:
    """Says when no new piece of work may begin."""

    def __init__(self, seconds: float) -> None:
        self.begin = time.monotonic()
        self.end = self.begin + seconds
        self.measuring = 40.0
        """Seconds to measure one network; the slowest so far."""

    def say(self, text: str) -> None:
        """Print a line with the seconds since the beginning."""
        print(f"{time.monotonic() - self.begin:6.1f} s  {text}", flush=True)

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
        fused=model == OURS,
        peer="" if model in (OURS, OURS_PLAIN) else model,
        optimiser=OptimiserConfig(lr=options.lr, warmup=0.05, ema=0.99),
        loss=LossConfig(perceptual="none"),
        photos=PhotoSourceConfig(
            folders=tuple(map(str, options.photos)),
            depth=str(options.depth or ""),
            scenes=options.scenes,
            scene_views=4,
            lines=options.lines,
            haze=HazeConfig(regimes=RegimeHaze(share=0.65), varied=VariedHaze(share=0.35)),
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
    share = 1.1 if options.part[1] == 1 else SHARED
    if not clock.allows(steps * one * share + clock.measuring):
        clock.say(f"{model}: {steps} steps of {one:.2f} s do not fit into the time that is left")
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
        if not clock.allows(clock.measuring):
            clock.say(f"{model}: given up after {step + 1} of {steps} steps, because time ran out")
            return None
    spent = _now(device) - begin
    done = trainer.progress.step
    run = Run(model, done, done * config.batch, round(spent, 1), float(np.mean(losses)) if losses else None)
    trainer.save_average(path, {"comparison": asdict(run), "machine": describe_machine()})
    return run


def write_clips(options: argparse.Namespace, clock: Clock, *, part: tuple[int, int] = (1, 1)) -> bool:
    """Render the held-back clips of a part, or of all. Return if they are there."""

    def may_begin(name: str) -> bool:
        if allowed := clock.allows(30):
            clock.say(f"rendering {name}")
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


def open_sets(options: argparse.Namespace) -> dict[str, list[EvalClip]]:
    """The held-back clips, in memory, and the pairs."""

    def read(frames: FrameSequence) -> FramesInMemory:
        return FramesInMemory(tuple(frames.read(index) for index in range(len(frames))))

    clips = open_dataset(options.output / "clips")
    sets = {CLIPS: [replace(c, hazy=read(c.hazy), clear=c.clear and read(c.clear)) for c in clips]}
    if options.pairs:
        sets[PAIRS] = open_dataset(options.pairs, stills=True)
    return sets


def measure(
    run: Run, row: Restorer, clips: dict[str, list[EvalClip]], scores: Scores, options: argparse.Namespace
) -> Run:
    """Measure one network on all sets."""
    sets = {}
    for where, parts in clips.items():
        if where == CLIPS and row.name in ONLY_PAIRS:
            continue
        store = ResultStore(options.output / f"on-{where.split()[-1]}")
        store.begin({"metrics": METRICS, "estimators": scores.estimators})
        found = evaluate(parts, [row], scores, store, subject=row.name, device=options.device, panels=False)
        sets[where] = summarise_models([summarise_clip(result) for result in found])[row.name]
    return replace(run, sets=sets)


def open_row(name: str, records: Records, options: argparse.Namespace) -> Restorer:
    """A reference, the shipped weights, or what was trained here, which computes as it did while training."""
    if name == SHIPPED:
        return open_restorer(f"{SHIPPED}={OURS}", device=options.device)
    if name in REFERENCES:
        return open_restorer(name, device=options.device, precision="fp32")
    spec = f"{name}={records.weights(name)}"
    if name == OURS:  # the product's kernels
        return open_restorer(spec, device=options.device)
    row = open_restorer(spec, device=options.device, precision="fp32")
    return AsTrained(row, torch.device(options.device)) if options.precision == "bf16" else row


def choose_references(options: argparse.Namespace) -> list[str]:
    """The rows that nothing is trained for, without those whose weights are not here."""
    found = [name for name in REFERENCES if name != SHIPPED or not options.no_shipped]
    if not options.pairs:
        found = [name for name in found if name not in ONLY_PAIRS]
    for entry in PEERS:
        if entry.name in found and entry.published and find_weights(find_model(entry.name)) is None:
            print(f"{entry.name} is left out: it is not in the cache", flush=True)
            found.remove(entry.name)
    return found


def do_rows(rows: list[str], records: Records, options: argparse.Namespace, clock: Clock) -> None:
    """Train and measure rows that no other process has, one after another, as far as time allows."""
    waiting = [name for name in rows if (run := records.find(name)) is None or not run.done]
    if not waiting or not clock.allows(0) or not write_clips(options, clock, part=options.part):
        return
    work = Work(records, options, clock)
    again: list[str] = []
    for name in waiting:
        with records.claim(name) as ours:
            if ours and not work.do(name):
                again.append(name)
    for name in again:  # other processes had the memory
        with records.claim(name) as ours:
            if ours:
                work.do(name)


class Work:
    """What one process needs to train and measure rows."""

    def __init__(self, records: Records, options: argparse.Namespace, clock: Clock) -> None:
        self.records, self.options, self.clock = records, options, clock
        self.device = torch.device(options.device)
        self.bank = load_images(training_config(OURS, options), self.device)
        self.scores = prepare_scores(choose_metrics(METRICS), paired=True, cache=options.cache, device=options.device)
        self.sets: dict[str, list[EvalClip]] = {}
        for metric, reason in self.scores.not_measured.items():
            clock.say(f"{metric} is not measured: {reason}")
        clock.say("ready")

    def do(self, name: str) -> bool:
        """Do one row as far as time allows; False where memory was missing that other processes may give back."""
        run = self.records.find(name) or (Run(name) if name in REFERENCES else None)
        if run is not None and run.done:
            return True
        try:
            if run is None:
                run = train(name, self.bank, self.options, self.device, self.records.weights(name), self.clock)
                if run is None:
                    _free(self.device)
                    return True
                self.records.save(run)
                self.clock.say(f"{name}: {run.samples} samples in {run.seconds} s")
                _free(self.device)
            run = self._measure(run)
            if run is None:
                return True
        except (torch.OutOfMemoryError, TrainingStoppedError) as error:
            if isinstance(error, torch.OutOfMemoryError) and self.options.part[1] > 1:  # says nothing about the network
                self.clock.say(f"{name}: out of memory beside other processes")
                run = None
            else:
                run = replace(run or Run(name), failure=str(error).splitlines()[0])
        _free(self.device)
        if run is None:
            return False
        self.records.save(run)
        self.clock.say(f"{name}: measured: {run.failure or format_set(run, CLIPS) or format_set(run, PAIRS)}")
        return True

    def _measure(self, run: Run) -> Run | None:
        """Measure a row; None where no time is left."""
        # The clips of other parts are there by now, unless such a part does not run.
        if not self.clock.allows(self.clock.measuring) or not write_clips(self.options, self.clock):
            return None
        self.sets = self.sets or open_sets(self.options)
        begin = time.monotonic()
        run = measure(run, open_row(run.model, self.records, self.options), self.sets, self.scores, self.options)
        self.clock.measuring = max(self.clock.measuring, time.monotonic() - begin)
        return run


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
    parser.add_argument("--part", default="1/1", help="2/4: one of four processes, which renders every fourth clip")
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
    order = sorted(models, key=LONGEST_FIRST.index)
    do_rows([*order, *references], records, options, Clock(options.stop_after))
    found = [records.find(name) for name in (*references, *models)]
    print(write_table([run for run in found if run is not None], options))
    complete = all(run is not None and run.done for run in found)
    print("all is done" if complete else "not done yet: run the same command again", flush=True)


if __name__ == "__main__":
    main()
