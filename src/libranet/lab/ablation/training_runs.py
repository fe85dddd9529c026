"""Training the variants of a study: the same samples and the same number of steps for each."""

import math
import time
from dataclasses import replace
from pathlib import Path

import torch

from libranet.lab.ablation.records import Run
from libranet.lab.ablation.variants import Variant
from libranet.network import LiBrANet
from libranet.network.liveness import live_units
from libranet.training.config import TrainConfig
from libranet.training.dataloader import BatchSource
from libranet.training.start import build_source, haze_source, load_images
from libranet.training.trainer import Trainer, TrainingStoppedError

LIFE_SAMPLES = 8  # samples of the last batch on which live units are counted


class Sources:
    """The batches of each seed. Variants share them: the same seed gives the same samples."""

    def __init__(self, config: TrainConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        self.bank = load_images(config, device) if config.photos is not None else None
        self.made: tuple[int, BatchSource] | None = None

    def of(self, seed: int) -> BatchSource:
        if self.made is None or self.made[0] != seed:
            config = replace(self.config, seed=seed)
            source = build_source(config, self.device)[0] if self.bank is None else haze_source(config, self.bank)
            self.made = (seed, source)
        return self.made[1]


def train_variant(
    variant: Variant, source: BatchSource, *, seed: int, steps: int, device: torch.device, weights: Path
) -> Run:
    """Train one variant with one seed and write its averaged weights.

    A run whose loss stays not finite, or that does not fit into memory, is a result, too: it has a failure.
    """
    name, config = variant.name, variant.config
    try:
        trainer = Trainer(replace(config, seed=seed, steps=steps), steps=steps, device=device)
        begin, losses = _now(device), []
        for step in range(steps):
            batches = [source.batch(step, part) for part in trainer.parts]
            batch, (terms, _) = batches[0], trainer.step(*batches)
            if step >= steps - max(1, steps // 10):
                losses.append(terms.pixel.detach().clone())
        spent = _now(device) - begin
    except (TrainingStoppedError, torch.OutOfMemoryError) as error:
        return Run(name, seed, 0, 0, 0.0, changes=variant.changes, failure=str(error).splitlines()[0])
    network = trainer.ema.model
    alive = live_units(network, batch.hazy[:LIFE_SAMPLES], still=batch.still) if isinstance(network, LiBrANet) else {}
    loss = float(torch.stack(losses).mean())
    run = Run(
        name,
        seed,
        steps=steps,
        samples=steps * config.batch,
        seconds=round(spent, 2),
        loss=loss if math.isfinite(loss) else None,
        live_units=alive,
        changes=variant.changes,
    )
    weights.parent.mkdir(parents=True, exist_ok=True)
    trainer.save_average(weights, {"ablation": name, "seed": seed, "steps": steps})
    return run


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
