"""Train LiBrA-Net and its peers by one recipe, and measure them at 4K on the test part of the open set.

python benchmarks/comparison.py OUT [--models all] [--samples 20000] [--seeds 3] [--part 1/4] [--stop-after 540]
                                    [--only clips] [--pairs FOLDER] [--cache FOLDER] [--bench bench.json]

Every network gets the recipe's optimiser, schedule, loss (ours also its Lie term), crops and samples: the same batches
in the same order. A training that time ends is saved and goes on exactly; its state, four times the weights, stays in
OUT/trained/NAME/state.safetensors. OUT/runs has a small file per network with the values of every clip: with it and
the states a comparison goes on, on this machine or another. Run the same command again until it says that all is done.

Processes may share one GPU and one folder: each takes the next network that no other has begun, ours first, then peers
from the cheapest to the dearest. It needs no network and no video packages.
"""

import argparse
import gc
import logging
import math
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from comparison_rows import METRICS, PAIRS, Records, Run, format_set, write_table
from libranet.data.frames import FrameSequence
from libranet.engine.frame_sources import FrameSource
from libranet.errors import InputError
from libranet.evaluation.clips import EvalClip, EvalFrame, open_dataset
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import Restorer, open_restorer
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import Scores, prepare_scores
from libranet.evaluation.summary import summarise_clip
from libranet.haze.images import ImageBank
from libranet.lab.ablation.ablate import parse_part
from libranet.lab.ablation.variants import flat_settings
from libranet.lab.held_back import plan_open_set, write_held_back_clips
from libranet.lab.peers import PEERS
from libranet.thirdparty import find_model, find_weights
from libranet.training.config import TrainConfig
from libranet.training.loop import run_training
from libranet.training.recipe import load_recipe
from libranet.training.start import haze_source, load_images
from libranet.training.state import STATE_FILE
from libranet.training.trainer import Trainer, TrainingStoppedError
from machine import describe_machine

OURS = "libranet"
OURS_PLAIN = "libranet-plain"
"""LiBrA-Net trained in plain PyTorch, as the peers are, without our kernels."""
SHIPPED = "libranet-shipped"
"""LiBrA-Net with the weights of the package, as the product runs it."""
REFERENCES = ("identity", "clahe", "dcp", "maxim-outdoor", SHIPPED)
"""Rows that nothing is trained for."""
ONLY_PAIRS = ("maxim-outdoor",)
"""Not measured on the clips: 54 TFLOPs in float32 for each of their frames."""
CHEAPEST_FIRST = (
    *("dehazexl", "dehazeformer-t", "msbdn-dff", "dehamer", "4kdehazing", "uhddip", "uhdformer", "dehazeformer-s"),
    *("dcl", "astp-net-t", "pm-net", "ffa-net", "dehazeformer-b", "dvd", "astp-net-s", OURS_PLAIN, "ds-tfn", "map-net"),
    *("astp-net-b", "viws-net"),
)
"""The order in which peers are begun, so that little time gives many rows."""

LAST_STEP = 15.0
"""Seconds that writing a state, or measuring a clip, may take."""


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

    @property
    def left(self) -> float:
        """Seconds in which something may still begin."""
        return self.end - time.monotonic() - LAST_STEP

    def say(self, text: str) -> None:
        """Print a line with the seconds since the beginning."""
        print(f"{time.monotonic() - self.begin:6.1f} s  {text}", flush=True)


def training_config(model: str, seed: int, options: argparse.Namespace) -> TrainConfig:
    """The recipe, for one network and seed."""
    config = load_recipe(options.recipe, options.overrides)
    steps = max(2, options.samples // config.batch)
    peer = "" if model in (OURS, OURS_PLAIN) else model
    return replace(config, name=model, seed=seed, steps=steps, fused=model == OURS, peer=peer)


def protocol(options: argparse.Namespace) -> dict[str, str]:
    """What rows must share to be comparable."""
    settings = flat_settings(training_config(OURS_PLAIN, 0, options))
    used = {key: value for key, value in settings.items() if key not in ("name", "seed", "peer", "fused")}
    return used | {"frames": str(options.frames), "size": options.clip_size}


class Work:
    """What one process needs to train and measure rows."""

    def __init__(self, records: Records, options: argparse.Namespace, clock: Clock) -> None:
        self.records, self.options, self.clock = records, options, clock
        self.device = torch.device(options.device)
        self.config = training_config(OURS, 0, options)
        self.bank: ImageBank | None = None
        self.scores: Scores | None = None
        self.sets: dict[str, list[EvalClip]] = {}

    def do(self, name: str, seed: int) -> bool:
        """Do one row as far as time allows; False where memory was missing that other processes may give back."""
        run = self.records.find(name, seed) or Run(name, seed)
        what = f"{name}, seed {seed}"
        try:
            if name not in REFERENCES and run.steps < self.config.steps:
                run = self._train(run)
                self.records.save(run)
                self.clock.say(f"{what}: {run.samples:,} of {self.options.samples:,} samples in {run.seconds:.0f} s")
                _free(self.device)
            if (name in REFERENCES or run.steps >= self.config.steps) and not run.done and self.clock.left > 0:
                run = self._measure(run)
                self.records.save(run)
                found = format_set(run) if run.done else "not all clips"
                self.clock.say(f"{what}: measured in {run.measuring:.0f} s: {found}")
        except (torch.OutOfMemoryError, TrainingStoppedError) as error:
            memory = isinstance(error, torch.OutOfMemoryError)
            if memory and self.options.part[1] > 1:  # says nothing about the network
                self.clock.say(f"{what}: out of memory beside other processes")
                _free(self.device)
                return False
            self.records.save(replace(run, failure=str(error).splitlines()[0]))
            self.clock.say(f"{what}: {error}")
        except Exception:  # a mistake in one row must not cost the others their time; the next call tries it again
            self.clock.say(f"{what}: error\n{traceback.format_exc()}")
        _free(self.device)
        return True

    def _train(self, run: Run) -> Run:
        """Begin or go on with a training, until its end or as long as time allows."""
        config = training_config(run.model, run.seed, self.options)
        self.bank = self.bank or load_images(config, self.device)
        folder = self.records.folder_of(run.model, run.seed)
        resume = (folder / STATE_FILE).is_file()
        trainer = Trainer(config, steps=config.steps, device=self.device)
        begin = time.monotonic()
        outcome = run_training(
            trainer, haze_source(config, self.bank), folder=folder, pairs=[], resume=resume, seconds=self.clock.left
        )
        done = outcome.progress.step
        if done >= config.steps:
            (folder / STATE_FILE).unlink()  # up to 2.4 GB that nobody needs
        spent = time.monotonic() - begin
        before = run if resume else Run(run.model, run.seed)
        return replace(before, steps=done, samples=done * config.batch, seconds=round(before.seconds + spent, 1))

    def _measure(self, run: Run) -> Run:
        """Measure a row on all sets, clip by clip."""
        begin = time.monotonic()
        self.sets = self.sets or self._open_sets()
        if self.scores is None:
            device = str(self.device)
            self.scores = prepare_scores(choose_metrics(METRICS), paired=True, cache=self.options.cache, device=device)
            for metric, reason in self.scores.not_measured.items():
                self.clock.say(f"{metric} is not measured: {reason}")
        row = self._open_row(run)
        found: dict[str, dict[str, dict[str, float]]] = {}
        for where, clips in self.sets.items():
            if where != PAIRS and run.model in ONLY_PAIRS:
                continue
            store = ResultStore(self.options.output / "measured" / where / f"{run.model}-{run.seed}")
            store.begin({"metrics": METRICS, "estimators": self.scores.estimators, "steps": run.steps})
            found[where] = {}
            for clip in clips:
                if self.clock.left < 0:  # the store keeps the clips so far
                    return replace(run, measuring=round(run.measuring + time.monotonic() - begin, 1))
                (result,) = evaluate(
                    [clip], [row], self.scores, store, subject=row.name, device=str(self.device), panels=False
                )
                values = summarise_clip(result).values
                found[where][clip.name] = {m: round(values[m], 6) for m in METRICS.split(",") if m in values}
        spent = run.measuring + time.monotonic() - begin
        return replace(run, values=found, measuring=round(spent, 1), backend=row.backend)

    def _open_row(self, run: Run) -> Restorer:
        """A reference, the shipped weights, or what was trained here, which computes as it did while training."""
        device = self.options.device
        if run.model == SHIPPED:
            return open_restorer(f"{SHIPPED}={OURS}", device=device)
        if run.model in REFERENCES:
            return open_restorer(run.model, device=device, precision="fp32")
        spec = f"{run.model}={self.records.weights(run.model, run.seed)}"
        # Ours is the paper's network alone, each frame by itself, as it was trained.
        if run.model == OURS:
            return open_restorer(spec, device=device, steady=0.0, dense_fog=False)
        row = open_restorer(spec, device=device, precision="fp32", steady=0.0, dense_fog=False)
        return AsTrained(row, torch.device(device)) if self.config.precision == "bf16" else row

    def _open_sets(self) -> dict[str, list[EvalClip]]:
        """The test clips, in memory, and the pairs."""
        write_clips(self.options, self.records)

        def read(frames: FrameSequence) -> FramesInMemory:
            with ThreadPoolExecutor(4) as pool:  # 200 frames of 4K: half a minute one after another
                return FramesInMemory(tuple(pool.map(frames.read, range(len(frames)))))

        clips = open_dataset(self.options.output / "clips")
        sets = {"clips": [replace(c, hazy=read(c.hazy), clear=c.clear and read(c.clear)) for c in clips]}
        if self.options.pairs:
            sets[PAIRS] = open_dataset(self.options.pairs, stills=True)
        return sets


def write_clips(options: argparse.Namespace, records: Records) -> None:
    """Make the test clips that are not there yet, beside other processes that do the same."""
    width, height = (int(side) for side in options.clip_size.split("x"))
    clips = plan_open_set(options.sources, device=options.device, size=(width, height))
    missing = clips[:: max(1, len(clips) // options.clips)][: options.clips]
    while missing:
        others = []
        for clip in missing:
            with records.claim(f"clip-{clip.name}") as ours:
                if ours:
                    write_held_back_clips(options.output / "clips", [clip], frames=options.frames)
                else:
                    others.append(clip)
        time.sleep(1.0 if others else 0.0)
        missing = others


def choose_references(options: argparse.Namespace) -> list[str]:
    """The rows that nothing is trained for, without those whose weights are not here."""
    found = [name for name in REFERENCES if options.pairs or name not in ONLY_PAIRS]
    for entry in PEERS:
        if entry.name in found and entry.published and find_weights(find_model(entry.name)) is None:
            print(f"{entry.name} is left out: it is not in the cache", flush=True)
            found.remove(entry.name)
    return found


def do_rows(rows: list[tuple[str, int]], records: Records, options: argparse.Namespace, clock: Clock) -> None:
    """Train and measure rows that no other process has, one after another, as far as time allows."""
    work = Work(records, options, clock)
    for again in (False, True):  # the second time, other processes may have given back the memory
        missing: list[tuple[str, int]] = []
        for name, seed in rows:
            run = records.find(name, seed)
            if (run is not None and run.done) or clock.left <= 0:
                continue
            with records.claim(f"{name}-{seed}") as ours:
                if ours and not work.do(name, seed):
                    missing.append((name, seed))
        if again or not missing:
            return
        rows = missing


def _free(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def main() -> None:
    """Do as much as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--recipe", type=Path, default=Path("recipes/uhv4k-open.toml"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--sources", type=Path, default=Path("data/paper/test"), help="photos of the test clips")
    parser.add_argument("--models", default="all")
    parser.add_argument("--samples", type=int, default=20_000, help="of each network")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of ours; peers have one")
    parser.add_argument("--part", default="1/1", help="2/4: one of four processes")
    parser.add_argument("--stop-after", type=float, default=math.inf, help="be done after so many seconds")
    parser.add_argument("--only", choices=("clips", "table"), help="make the test clips, or write the table, and stop")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--clips", type=int, default=20, help="test clips")
    parser.add_argument("--frames", type=int, default=5, help="frames of each, from its first")
    parser.add_argument("--clip-size", default="3840x2160")
    parser.add_argument("--pairs", type=Path, help="a folder with hazy/ and clear/ images as a second opinion")
    parser.add_argument("--cache", type=Path, help="cache folder of LPIPS and RAFT weights")
    parser.add_argument("--bench", type=Path, help="bench.json of `libranet bench` at the size of the clips")
    options = parser.parse_args()
    options.part = parse_part(options.part)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    known = [OURS, *choose_references(options), *CHEAPEST_FIRST]
    models = known if options.models == "all" else options.models.split(",")
    if unknown := [model for model in models if model not in known]:
        raise InputError(f"cannot measure {unknown[0]!r}: expected names of {', '.join(known)}")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    clock = Clock(options.stop_after)
    records = Records(options.output, protocol(options))
    rows = [(name, seed) for name in known if name in models for seed in range(options.seeds if name == OURS else 1)]
    if options.only == "clips":
        write_clips(options, records)
        return
    if options.only is None:
        do_rows(rows, records, options, clock)
    found = [records.find(name, seed) or Run(name, seed) for name, seed in rows]
    print(write_table(found, options, describe_machine()))
    print("all is done" if all(run.done for run in found) else "not done yet: run the same command again", flush=True)


if __name__ == "__main__":
    main()
