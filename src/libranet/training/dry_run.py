"""`libranet train --dry-run`: data, weights, memory, time and folder are checked before a run begins."""

import os
import resource
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from libranet.data import ClipWindows
from libranet.data.agreement import compare_sides
from libranet.device import describe_device, pick_device
from libranet.errors import InputError
from libranet.training.config import PhotoSourceConfig, TrainConfig
from libranet.training.dataloader import Batch, PairedSource
from libranet.training.image_bank import ASPECT, COARSE, DEPTH_SCALE, FINE, find_photos
from libranet.training.recipe import load_recipe
from libranet.training.start import build_source, training_data
from libranet.training.state import STATE_FILE, check_folder, read_progress
from libranet.training.trainer import Trainer
from libranet.training.validation import load_pairs

CPU_SAMPLES = 2
"""Samples of a rehearsed step on a CPU; time and memory are scaled up to the recipe's batch."""
STATE_COPIES = 4
"""Float32 copies of the network in a state: weights, their average, two moments of the optimiser."""


@dataclass(frozen=True)
class TrainingPlan:
    """What a run would do and take."""

    recipe: str
    data: str
    pairs: str  # how well the sides of a paired set fit, and what may be wrong about them
    validation: str
    weights: str
    memory: str
    time: str
    folder: str

    def lines(self) -> list[str]:
        return [f"{name:<11}{text}" for name, text in vars(self).items() if text]


def plan_training(
    recipe: str | Path,
    folder: str | Path,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
    device: str = "auto",
) -> TrainingPlan:
    """Check a run as `start.train` would begin it, rehearse some steps on random numbers, and write nothing."""
    config = load_recipe(recipe, overrides)
    place = pick_device(device)
    check_folder(Path(folder), resume=resume)
    done = read_progress(Path(folder) / STATE_FILE).step if resume else 0
    data, held_out, steps, data_bytes, agreement = _check_data(config, place)
    pairs = [f"{len(pairs)} images" for pairs in load_pairs(config.validation)]
    if held_out:
        pairs.append(f"{held_out} held-out clips of {config.validation.frames} frames")
    try:
        rehearsal = rehearse(config, place)
    except torch.OutOfMemoryError:
        raise InputError(f"a batch of {config.batch} does not fit into {describe_device(place)}: lower it") from None
    on_cpu = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = torch.cuda.mem_get_info(place)[1] if place.type == "cuda" else on_cpu
    needed = rehearsal.peak_bytes + data_bytes
    if needed > available:
        raise InputError(
            f"expected at most {available / 1e9:.1f} GB of memory, the run needs about {needed / 1e9:.1f} GB: "
            "lower batch, crops or photos.lines"
        )
    state = STATE_COPIES * 4 * rehearsal.parameters
    space = shutil.disk_usage(
        next(p for p in (Path(folder).absolute(), *Path(folder).absolute().parents) if p.exists())
    )
    if space.free < 3 * state:
        raise InputError(f"expected {3 * state / 1e6:.0f} MB of disk for {folder}, found {space.free / 1e6:.0f} MB")
    left = steps - done
    if left <= 0:
        raise InputError(f"{folder} has done {done} steps already: expected more than that, got {steps}")
    return TrainingPlan(
        recipe=f"{recipe} ({config.name}), seed {config.seed}, on {describe_device(place)} in {config.precision}",
        data=data,
        pairs=agreement,
        validation=", ".join(pairs) or "none: best.safetensors is not written",
        weights=_describe_weights(config, rehearsal.parameters),
        memory=f"about {needed / 1e9:.1f} GB of {available / 1e9:.1f} GB; a state of {state / 1e6:.0f} MB on disk",
        time=f"{rehearsal.seconds_per_step:.2f} s a step without data, {left} steps: about "
        f"{_clock(left * rehearsal.seconds_per_step)}",
        folder=f"{folder}: " + (f"goes on at step {done}" if resume else "a new run"),
    )


def _check_data(config: TrainConfig, device: torch.device) -> tuple[str, int, int, int, str]:
    """The data in words, held-out clips, steps, the bytes that data takes on the device, and how well pairs fit."""
    if config.photos is not None:
        text, count = describe_photos(config.photos)
        lines = config.photos.lines
        pixels = lines * lines * ASPECT
        return text, 0, config.steps, int(count * pixels * (3 * FINE**2 + 3 * COARSE**2 + DEPTH_SCALE**2)), ""
    assert config.paired is not None
    source, steps = build_source(config, device)
    assert isinstance(source, PairedSource)
    epoch = f"{source.steps_per_epoch} steps an epoch"
    if not isinstance(source.windows, ClipWindows):
        return f"{len(source.windows)} samples of {config.paired.opener}; {epoch}", 0, steps, 0, ""
    clips, (_, held_out) = source.windows.clips, training_data(config.paired, config.validation)
    width, height = clips[0].hazy.size
    text = (
        f"{len(clips)} clips in {config.paired.place}, {len(source.windows)} windows of {config.window} frames, "
        f"{width}x{height}; {epoch}"
    )
    fit = compare_sides([*clips, *held_out])
    doubts = [f"clip {clip.name}: {clip.gaps}" for clip in clips if clip.gaps] + list(fit.problems)
    return text, len(held_out), steps, 0, "\n".join([fit.sentence(), *(f"  CHECK: {doubt}" for doubt in doubts)])


def describe_photos(photos: PhotoSourceConfig) -> tuple[str, int]:
    """The clear images of a recipe and their haze in words, and how many images there are."""
    found = find_photos(photos.folders, photos.depth)
    rendered = photos.scenes * photos.scene_views
    if not found and not rendered:
        raise InputError("no clear images to train on: give folders of photos, or a number of scenes")
    parts = [f"{len(found)} photos, {sum(map_ is not None for _, map_ in found)} with depth maps"] if found else []
    parts += [f"{rendered} images of {photos.scenes} rendered scenes"] if rendered else []
    kinds = ", ".join(f"{share:.0%} {name}" for name, share in photos.haze.shares.items() if share)
    return f"{'; '.join(parts)}; haze on the fly: {kinds}", len(found) + rendered


def _describe_weights(config: TrainConfig, parameters: int) -> str:
    parts = [f"{parameters / 1e6:.2f} M parameters", f"begins from {config.init_from or 'random numbers'}"]
    parts += [f"teacher {config.teacher.checkpoint}"] if config.teacher.checkpoint else []
    return ", ".join([*parts, f"perceptual term: {config.loss.perceptual}"])


def _clock(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


@dataclass(frozen=True)
class Rehearsal:
    """What a step of a recipe costs on this device."""

    seconds_per_step: float
    peak_bytes: int  # memory of the device; on a CPU that of the process, scaled to the batch
    parameters: int


def rehearse(config: TrainConfig, device: torch.device, *, steps: int = 3) -> Rehearsal:
    """Train some steps on random numbers. The slowest crop of the recipe is taken."""
    outputs = config.outputs
    batch = config.batch if device.type == "cuda" else min(config.batch, CPU_SAMPLES)
    parts = config.accumulate if batch % (config.accumulate * outputs) == 0 else 1
    trainer = Trainer(replace(config, batch=batch, accumulate=parts), steps=steps + 2, device=device)
    window = 1 if config.still else config.window
    height, width = max(config.crops, key=lambda crop: crop[0] * crop[1])
    before = _process_bytes()
    hazy = torch.rand(batch // parts // outputs, window + (outputs - 1), 3, height, width, device=device)
    clear = torch.rand(batch // parts, 3, height, width, device=device)
    times = []
    for _ in range(steps + 2):
        begin = time.perf_counter()
        trainer.step(*[Batch(hazy, clear, still=config.still)] * parts)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begin)
    scale = config.batch / batch
    if device.type == "cuda":
        peak = torch.cuda.max_memory_reserved(device)
    else:
        peak = int(before + (_process_bytes() - before) * scale)
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    return Rehearsal(sorted(times[2:])[steps // 2] * scale, peak, parameters)


def _process_bytes() -> int:
    """The most memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
