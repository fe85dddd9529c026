"""The study from end to end: train every variant with every seed, measure, write tables, go on where it stopped."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from libranet.device import describe_device, pick_device
from libranet.errors import InputError
from libranet.evaluation.clips import EvalClip, open_dataset
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import NetworkRestorer, Restorer, open_restorer
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import Scores, prepare_scores
from libranet.evaluation.summary import summarise_clip, summarise_models
from libranet.lab.ablation.ablation_tables import Study, write_study
from libranet.lab.ablation.records import Records, Run
from libranet.lab.ablation.training_runs import Sources, train_variant
from libranet.lab.ablation.variants import FULL, Variant, flat_settings, load_variants
from libranet.lab.bench.efficiency import release
from libranet.lab.held_back import FIRST_SCENE, plan_scenes, write_held_back_clips
from libranet.runtime import load_network
from libranet.training.config import TrainConfig
from libranet.training.dry_run import describe_photos, rehearse

METRICS = "psnr,ssim,lpips,tof,sigma_psnr"
HELD_BACK = "held-back clips"
REFERENCE = "identity"  # measured beside the variants: what the clips are without dehazing
FIRST_GUESS = 6.0  # seconds to measure one network, before any was measured

Report = Callable[[str], None]


@dataclass(frozen=True)
class AblationOptions:
    """How a study is done."""

    recipes: Path  # folder with `full.toml` and the variants
    output: Path  # folder of the study; a study in it goes on
    seeds: int = 3  # runs of each variant
    steps: int | None = None  # steps of each run; None takes those of the full recipe
    only: tuple[str, ...] = ()  # variants to take beside the full one; none means all
    overrides: tuple[str, ...] = ()  # changes to the full recipe, `key=value` each
    data: tuple[str, ...] = ()  # sets to measure on beside the rendered clips, as NAME=PATH or PATH
    clips: int = 9
    """Clips that are rendered and measured on; nine have every haze regime once, 0 is none."""
    frames: int = 5  # frames of each clip that are measured
    size: tuple[int, int] = (1920, 1080)  # width and height of rendered clips
    device: str = "auto"
    cache: Path | None = None  # folder of third-party weights
    stop_after: float = math.inf  # begin nothing that would not end within so many seconds
    keep_weights: bool = False  # keep the weights of every run, not only until they are measured
    part: tuple[int, int] = (1, 1)
    """(2, 5) does the second of every five variants alone: processes on one GPU, or on several, share a folder."""

    def __post_init__(self) -> None:
        number, parts = self.part
        if not 1 <= number <= parts:
            raise InputError(f"expected a part such as 2/5, counted from 1, got {number}/{parts}")
        for name in ("seeds", "frames"):
            if getattr(self, name) < 1:
                raise InputError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if self.clips < 0 or (self.clips == 0 and not self.data):
            raise InputError(f"expected sets to measure on: rendered clips or --data, got clips={self.clips}")
        if self.steps is not None and self.steps < 2:
            raise InputError(f"expected a budget of at least 2 steps, got {self.steps}")


def parse_part(text: str) -> tuple[int, int]:
    """Read a part of a study such as `2/5`."""
    number, slash, parts = text.partition("/")
    if not (slash and number.isdecimal() and parts.isdecimal()):
        raise InputError(f"expected a part such as 2/5, got {text!r}")
    return int(number), int(parts)


@dataclass
class Clock:
    """Says what still fits, from how long such pieces took before."""

    end: float
    train: float = 0.0  # longest training so far
    measure: float = FIRST_GUESS  # seconds per network of the slowest measurement so far

    def allows(self, *, runs: int, waiting: int) -> bool:
        """Whether so many trainings, and measuring them and those that wait, fit into the time."""
        needed = runs * (self.train * 1.1 + self.measure) + waiting * self.measure
        return time.monotonic() + needed < self.end


@dataclass(frozen=True)
class Plan:
    """What a study will do."""

    options: AblationOptions
    variants: list[Variant]
    sets: dict[str, Path]
    device: torch.device
    missing: list[tuple[Variant, int]] = field(default_factory=list)
    """Runs of this part that are not done yet."""
    total: int = 0  # runs of this part, done or not

    def lines(self) -> list[str]:
        """The plan in words: variants, what is left to do, and what is measured."""
        text = [f"{self.options.recipes}: {len(self.variants)} variants on {describe_device(self.device)}"]
        for variant in self.variants:
            changed = ", ".join(f"{key} = {value}" for key, value in variant.changes.items())
            if variant.same_as:
                changed += f"; the same as {variant.same_as} here, not trained twice"
            if variant.not_run:
                changed += f"; NOT RUN: {variant.not_run}"
            text.append(f"  {variant.name}: {changed or 'the full recipe'}")
        number, parts = self.options.part
        whose = "" if parts == 1 else f" in part {number} of {parts}"
        done = self.total - len(self.missing)
        text.append(f"{self.total} runs{whose} with {self.options.seeds} seeds, {done} of them done")
        full = self.variants[0].config
        if full.photos is not None:
            text.append(f"trained on {describe_photos(full.photos)[0]}; the same samples for all variants of a seed")
        elif full.paired is not None:
            text.append(f"trained on the pairs of {full.paired.place}")
        text.append("measured on " + ", ".join(f"{name} ({path})" for name, path in self.sets.items()))
        if HELD_BACK in self.sets:
            width, height = self.options.size
            clips = f"{self.options.clips} clips of {self.options.frames} frames at {width}x{height}"
            text.append(
                f"{HELD_BACK}: {clips}, rendered from the scenes {FIRST_SCENE} on, which no training takes, each with "
                "exact depth and one haze regime"
            )
        return text


def plan_study(options: AblationOptions) -> Plan:
    """Read and check everything that can be checked before anything is trained."""
    variants = load_variants(options.recipes, overrides=options.overrides, only=options.only)
    device = pick_device(options.device)
    photos = variants[0].config.photos
    for folder in () if photos is None else photos.folders:
        if not Path(folder).is_dir():
            raise InputError(
                f"no photos at {folder}, as {options.recipes / f'{FULL}.toml'} names it: give your own with --set "
                "'photos.folders=[\"DIR\"]' --set photos.depth=, take rendered scenes with --set 'photos.folders=[]' "
                "--set photos.depth= --set photos.scenes=40, or make ours with research/pack_open_set.py"
            )
    sets = _name_sets(options)
    for name, path in sets.items():
        if name != HELD_BACK:
            _open_set(name, path)
    if variants[0].config.steps < 2 and options.steps is None:
        raise InputError("expected a budget: the full recipe counts epochs, so give --steps")
    records = Records(options.output)
    records.begin(_settings(options, variants[0].config))
    number, parts = options.part
    own = [variant for variant in variants if variant.trained][number - 1 :: parts]
    runs = [(variant, seed) for seed in range(options.seeds) for variant in own]
    missing = [(variant, seed) for variant, seed in runs if not _is_done(records, variant, seed)]
    return Plan(options, variants, sets, device, missing, len(runs))


def estimate_study(plan: Plan) -> str:
    """Train a few steps of the full recipe on random numbers and say how long the study takes."""
    config = plan.variants[0].config
    rehearsal = rehearse(config, plan.device)
    steps = plan.options.steps or config.steps
    train = len(plan.missing) * steps * rehearsal.seconds_per_step
    return (
        f"{rehearsal.seconds_per_step:.3f} s a step of {config.batch} samples; {steps} steps a run: {train / 60:.1f} "
        f"minutes of training for {len(plan.missing)} runs, without reading data and measuring; "
        f"memory of the full recipe about {rehearsal.peak_bytes / 1e9:.1f} GB"
    )


def ablate(plan: Plan, report: Report = lambda line: None) -> tuple[Study, bool]:
    """Do what is left of a study, or as much as the time allows.

    Returns:
        The study so far, and whether it is complete.
    """
    options, device, records = plan.options, plan.device, Records(plan.options.output)
    clock = Clock(time.monotonic() + options.stop_after)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    settings = _settings(options, plan.variants[0].config)
    records.begin(settings)
    if plan.missing:
        report("reading the training data")
        sources = Sources(plan.variants[0].config, device)
        records.write_settings(settings)
        scores = prepare_scores(choose_metrics(METRICS), paired=True, cache=options.cache, device=str(device))
        for metric, reason in scores.not_measured.items():
            report(f"{metric} is not measured: {reason}")
        if _render_clips(plan, clock, report, part=options.part):
            for seed in range(options.seeds):
                if not _do_seed(plan, seed, settings["steps"], sources, scores, records, clock, report):
                    break
    study = collect(plan, settings["steps"])
    write_study(study, options.output)
    return study, not any(not _is_done(records, variant, seed) for variant, seed in plan.missing)


def collect(plan: Plan, steps: int | None) -> Study:
    """All results that a study has so far."""
    records = Records(plan.options.output)
    runs: dict[str, list[Run]] = {}
    for variant in plan.variants:
        name = variant.same_as or variant.name
        twin = next(other for other in plan.variants if other.name == name)
        found = (records.find(name, seed, twin.changes) for seed in range(plan.options.seeds))
        runs[variant.name] = [] if variant.not_run else [run for run in found if run is not None and run.done]
    reference = records.find(REFERENCE, 0, {})
    return Study(
        variants=tuple(plan.variants),
        runs=runs,
        reference={} if reference is None else reference.sets,
        sets=tuple(plan.sets),
        seeds=plan.options.seeds,
        steps=steps or 0,
        batch=plan.variants[0].config.batch,
        device=describe_device(plan.device),
    )


def _do_seed(
    plan: Plan,
    seed: int,
    steps: int,
    sources: Sources,
    scores: Scores,
    records: Records,
    clock: Clock,
    report: Report,
) -> bool:
    """Train all variants with one seed, then measure them side by side. False means that time has run out."""
    waiting: list[Run] = []
    todo = [variant for variant, wanted in plan.missing if wanted == seed and not _is_done(records, variant, seed)]
    in_time = True
    for variant in todo:
        run = records.find(variant.name, seed, variant.changes)
        if run is None:
            if not clock.allows(runs=1, waiting=len(waiting)):
                in_time = False
                break
            run = train_variant(
                variant,
                sources.of(seed),
                seed=seed,
                steps=steps,
                device=plan.device,
                weights=records.weights(variant.name, seed),
            )
            records.save(run)
            release(plan.device)
            clock.train = max(clock.train, run.seconds)
            loss = "no loss" if run.loss is None else f"loss {run.loss:.4f}"
            report(
                f"{variant.name}, seed {seed}: " + (run.failure or f"{run.steps} steps in {run.seconds:.1f} s, {loss}")
            )
        if not run.done:
            waiting.append(run)
    # The clips of other parts are there by now, unless such a part does not run.
    if waiting and _render_clips(plan, clock, report) and clock.allows(runs=0, waiting=len(waiting)):
        begin = time.monotonic()
        _measure(plan, seed, waiting, scores, records, report)
        clock.measure = (time.monotonic() - begin) / len(waiting)
    elif waiting:
        in_time = False
    return in_time


def _measure(plan: Plan, seed: int, waiting: list[Run], scores: Scores, records: Records, report: Report) -> None:
    """Measure trained networks side by side on all sets, and write their results."""
    device = str(plan.device)
    restorers: list[Restorer] = []
    if plan.options.part[0] == 1 and records.find(REFERENCE, 0, {}) is None:
        restorers.append(open_restorer(REFERENCE, device=device))
    for run in waiting:
        network = load_network(str(records.weights(run.variant, seed)), device=device, precision="fp32")
        restorers.append(NetworkRestorer(network, run.variant, f"{seed} {run.loss} {run.seconds}", steady=0.0))
    found: dict[str, dict[str, dict[str, float]]] = {restorer.name: {} for restorer in restorers}
    for name, path in plan.sets.items():
        clips = _open_set(name, path)
        file_name = "".join(letter if letter.isalnum() else "-" for letter in name)
        store = ResultStore(records.folder / "measured" / f"{file_name}-seed-{seed}")
        store.begin({"metrics": METRICS, "estimators": scores.estimators, "frames": plan.options.frames})
        for number, clip in enumerate(clips, start=1):
            evaluate(
                [clip],
                restorers,
                scores,
                store,
                subject=restorers[-1].name,
                limit_frames=plan.options.frames,
                device=device,
                panels=False,
            )
            report(f"seed {seed}: {len(restorers)} networks measured on {name} {number}/{len(clips)}")
        results = [store.find(r.name, r.fingerprint, clip.name) for clip in clips for r in restorers]
        summary = summarise_models([summarise_clip(result) for result in results if result is not None])
        for model, values in summary.items():
            found[model][name] = {metric: value.mean for metric, value in values.items()}
    if REFERENCE in found:
        records.save(Run(REFERENCE, 0, 0, 0, 0.0, sets=found[REFERENCE]))
    for run in waiting:
        records.save(replace(run, sets=found[run.variant]))
        if not plan.options.keep_weights:
            records.weights(run.variant, seed).unlink()
    del restorers
    release(plan.device)


def _render_clips(plan: Plan, clock: Clock, report: Report, *, part: tuple[int, int] = (1, 1)) -> bool:
    """Render the clips of a part, or of all, that are not there yet. False means that time has run out."""
    options = plan.options

    def may_begin(name: str) -> bool:
        if allowed := time.monotonic() + 30 < clock.end:
            report(f"rendering {name}")
        return allowed

    if not options.clips:
        return True
    clips = plan_scenes(options.clips, frames=options.frames, size=options.size, device=str(plan.device))
    return write_held_back_clips(plan.sets[HELD_BACK], clips, frames=options.frames, part=part, may_begin=may_begin)


def _open_set(name: str, path: Path) -> list[EvalClip]:
    clips = open_dataset(path)
    if any(clip.clear is None for clip in clips):
        raise InputError(f"expected a set with ground truth, and {name} ({path}) has none")
    return clips


def _name_sets(options: AblationOptions) -> dict[str, Path]:
    sets = {HELD_BACK: options.output / "clips"} if options.clips else {}
    for entry in options.data:
        name, equals, path = entry.partition("=")
        place = Path(path if equals else entry)
        name = name if equals else place.resolve().name
        if name in sets:
            raise InputError(f"two sets are called {name!r}: give one another name as NAME=PATH")
        if not place.is_dir():
            raise InputError(f"no set at {place}: check --data {entry}")
        sets[name] = place
    return sets


def _settings(options: AblationOptions, full: TrainConfig) -> dict[str, Any]:
    """What has to stay the same for results to be comparable."""
    return {
        "full": flat_settings(full),
        "steps": options.steps or full.steps,
        "data": list(options.data),
        "clips": options.clips,
        "frames": options.frames,
        "size": list(options.size),
    }


def _is_done(records: Records, variant: Variant, seed: int) -> bool:
    run = records.find(variant.name, seed, variant.changes)
    return run is not None and run.done
