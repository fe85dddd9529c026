"""From a recipe to a running job: device, processes, data, loop.

`python -m libranet.training.start` is `libranet train` without the packages of the command line, for bare GPU machines
and for torchrun.
"""

import argparse
import logging
import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from libranet.data import ClipWindows, PairedClip
from libranet.data.agreement import compare_sides
from libranet.device import pick_device
from libranet.errors import InputError, LibraNetError
from libranet.haze.images import ImageBank
from libranet.training.config import PairedSourceConfig, TrainConfig, ValidationConfig
from libranet.training.dataloader import (
    BatchSource,
    OnlineHazeSource,
    PairedSource,
    Prefetcher,
    open_own_data,
    open_training_clips,
)
from libranet.training.distributed import any_process, join_processes, leave_processes, own_device, was_restarted
from libranet.training.image_bank import load_bank, read_density, read_photos, render_scenes
from libranet.training.loop import Outcome, run_training
from libranet.training.recipe import load_recipe
from libranet.training.state import STATE_FILE
from libranet.training.trainer import Trainer
from libranet.training.validation import HeldOutClip, ValidationSet, hold_out, load_pairs

logger = logging.getLogger(__name__)

INTERRUPTED = 130  # exit code after a signal, as of `libranet train`


def train(
    recipe: str | Path,
    folder: str | Path,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
    auto_resume: bool = False,
    device: str = "auto",
    seconds: float = math.inf,
) -> Outcome:
    """Train a recipe into a folder. Under torchrun every process calls this.

    Args:
        folder: Where the state, the checkpoints and the log go.
        overrides: `key=value` each, as `load_recipe` takes them.
        resume: Go on from the state in the folder. Processes that torchrun starts again because one died do so by
            themselves.
        auto_resume: Go on if there is a state, and begin if there is none: for schedulers that start jobs again, and
            for machines that join a run.
        device: As `libranet.device.pick_device` takes it.
        seconds: Stop after this long.

    Raises:
        InputError: A mistake in the recipe, the folder or the device.
        TrainingStoppedError: The loss stays not finite.
    """
    config = load_recipe(recipe, overrides)
    place = own_device(pick_device(device))
    shard = join_processes(place)
    if any_process(auto_resume or was_restarted(), shard, place):
        resume = any_process((Path(folder) / STATE_FILE).is_file(), shard, place) or resume
    if shard.rank == 0:
        logger.info("preparing the data of %s", recipe)
    try:
        source, steps = build_source(config, place)
        if shard.rank == 0 and not resume:
            _name_doubts(source)
        trainer = Trainer(config, steps=steps, device=place, shard=shard)
        pairs: list[ValidationSet] = [*load_pairs(config.validation)]
        if config.paired is not None and config.validation.held_out:
            _, held_out = training_data(config.paired, config.validation)
            pairs.append([HeldOutClip(clip, config.validation.frames) for clip in held_out])
        return run_training(trainer, source, folder=Path(folder), pairs=pairs, resume=resume, seconds=seconds)
    finally:
        leave_processes()


def _name_doubts(source: BatchSource) -> None:
    """Log what may be wrong about pairs, before a night is spent on them."""
    if not isinstance(source, PairedSource) or not isinstance(source.windows, ClipWindows):
        return
    clips = source.windows.clips
    gaps = [f"clip {clip.name}: {clip.gaps}" for clip in clips if clip.gaps]
    for doubt in (*gaps, *compare_sides(clips, most=8).problems):
        logger.warning("%s", doubt)


def build_source(config: TrainConfig, device: torch.device) -> tuple[BatchSource, int]:
    """Make the source of a recipe's batches; return it with the number of steps."""
    if config.paired is not None:
        return _paired_source(config, config.paired, device)
    return haze_source(config, load_images(config, device)), config.steps


def load_images(config: TrainConfig, device: torch.device) -> ImageBank:
    """Read and render the clear images of a recipe with [photos]."""
    assert config.photos is not None
    photos = config.photos
    images = chain(
        read_photos(photos.folders, photos.depth),
        render_scenes(photos.scenes, photos.scene_views, seed=config.seed, lines=photos.lines, device=device),
    )
    return load_bank(images, lines=photos.lines, device=device, density=read_density(photos.density))


def haze_source(config: TrainConfig, bank: ImageBank) -> BatchSource:
    """Make the batches of a recipe with [photos] from its images; runs may share them."""
    assert config.photos is not None
    source = OnlineHazeSource(
        bank,
        haze=config.photos.haze,
        batch=config.batch,
        crops=config.crops,
        window=config.window,
        seed=config.seed,
        outputs=config.outputs,
    )
    return Prefetcher(source) if bank.fine.device.type == "cuda" else source


def _paired_source(config: TrainConfig, paired: PairedSourceConfig, device: torch.device) -> tuple[BatchSource, int]:
    if len(config.crops) != 1 or config.crops[0][0] != config.crops[0][1]:
        raise InputError(f"expected one square crop with a paired dataset, got {config.crops}")
    source = PairedSource(
        training_data(paired, config.validation)[0],
        batch=config.batch,
        crop=config.crops[0][0],
        window=config.window,
        seed=config.seed,
        workers=paired.workers,
        device=device,
    )
    return source, config.steps or config.epochs * source.steps_per_epoch


def training_data(
    paired: PairedSourceConfig, validation: ValidationConfig
) -> tuple[list[PairedClip] | Dataset[dict[str, Tensor]], list[PairedClip]]:
    """The clips of a paired set that are trained on, or a user's own dataset, and the clips held out for validation."""
    found = open_own_data(paired) if paired.opener else open_training_clips(paired)
    if isinstance(found, Dataset):
        if validation.held_out:
            raise InputError(f"{paired.opener} returns no clips to hold out: set validation.held_out = 0")
        return found, []
    return hold_out(found, validation.held_out)


def main() -> None:
    """Train without the command line's extra packages, as on a bare GPU machine."""
    parser = argparse.ArgumentParser(description="Train a recipe.")
    parser.add_argument("recipe")
    parser.add_argument("-o", "--output", required=True, dest="folder")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--auto-resume", action="store_true", help="go on if the folder has a state, begin if not")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this long")
    options = vars(parser.parse_args())  # named as the arguments of `train`
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        outcome = train(**options)
    except LibraNetError as error:
        parser.exit(2, f"error: {error.sentence}\n")
    if outcome.interrupted:  # a script, and torchrun, must not take a stopped run for a finished one
        parser.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
