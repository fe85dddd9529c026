"""From a recipe to a running job: device, processes, data, loop. Also `python -m libranet.training.start`."""

import argparse
import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch

from libranet.device import pick_device
from libranet.errors import InputError, LibraNetError
from libranet.training.batches import BatchSource, HazeOnTheFly, OneAhead
from libranet.training.config import PairedSourceConfig, TrainConfig
from libranet.training.loop import Outcome, Trainer, run_training
from libranet.training.paired import PairedBatches, open_training_clips
from libranet.training.photo_bank import load_bank, read_photos, render_scenes
from libranet.training.processes import join_processes, leave_processes
from libranet.training.recipe import load_recipe
from libranet.training.validation import load_pairs


def train(
    recipe: str | Path,
    folder: str | Path,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
    device: str = "auto",
    seconds: float = math.inf,
) -> Outcome:
    """Train a recipe into a folder. Under torchrun every process calls this."""
    config = load_recipe(recipe, overrides)
    place = pick_device(device)
    share = join_processes(place)
    try:
        source, steps = build_source(config, place)
        trainer = Trainer(config, steps=steps, device=place, share=share)
        pairs = load_pairs(config.validation)
        return run_training(trainer, source, folder=Path(folder), pairs=pairs, resume=resume, seconds=seconds)
    finally:
        leave_processes()


def build_source(config: TrainConfig, device: torch.device) -> tuple[BatchSource, int]:
    """The batches of a recipe, and how many steps it has."""
    if config.paired is not None:
        return _paired_source(config, config.paired, device)
    assert config.photos is not None  # the configuration has exactly one of the two
    photos = config.photos
    pictures = chain(
        read_photos(photos.folders, photos.depth or None),
        render_scenes(photos.scenes, photos.scene_views, seed=config.seed, lines=photos.lines, device=device),
    )
    source: BatchSource = HazeOnTheFly(
        load_bank(pictures, lines=photos.lines, device=device),
        haze=photos.haze,
        batch=config.batch,
        crops=config.crops,
        window=config.model.window,
        scene_share=photos.scene_share,
        seed=config.seed,
        pairs=config.loss.steady_weight > 0,
    )
    return (OneAhead(source) if device.type == "cuda" else source), config.steps


def _paired_source(config: TrainConfig, paired: PairedSourceConfig, device: torch.device) -> tuple[BatchSource, int]:
    if len(config.crops) != 1 or config.crops[0][0] != config.crops[0][1]:
        raise InputError(f"expected one square crop with a paired data set, got {config.crops}")
    source = PairedBatches(
        open_training_clips(paired),
        batch=config.batch,
        crop=config.crops[0][0],
        window=config.model.window,
        seed=config.seed,
        workers=paired.workers,
        device=device,
    )
    return source, config.steps or config.epochs * source.steps_per_epoch


def main() -> None:
    """Train without the command line's extra packages, as on a bare GPU machine."""
    parser = argparse.ArgumentParser(description="Train a recipe.")
    parser.add_argument("recipe")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this long")
    options = parser.parse_args()
    try:
        train(
            options.recipe,
            options.output,
            overrides=options.overrides,
            resume=options.resume,
            device=options.device,
            seconds=options.seconds,
        )
    except LibraNetError as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
