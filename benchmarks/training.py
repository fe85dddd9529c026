"""Training speed: samples per second, the share of making data, and peak memory, on the trainer's own path.

`data_share` is how much longer a step takes than one whose batch is ready; `waiting_share` is how long the loop waits.

    PYTHONPATH=src python3 benchmarks/training.py [RECIPE] [--set key=value ...] [--steps 30]

Without a recipe: random images and the default network, at the paper's crop and window.
"""

import argparse
import json
import time
from typing import Any

import numpy as np
import torch

from libranet.device import pick_device
from libranet.training.config import LossConfig, PhotoSourceConfig, TrainConfig
from libranet.training.dataloader import BatchSource, OnlineHazeSource, Prefetcher
from libranet.training.distributed import Shard
from libranet.training.image_bank import ClearImage, load_bank
from libranet.training.recipe import load_recipe
from libranet.training.start import build_source
from libranet.training.trainer import Trainer
from machine import describe_machine


def random_source(config: TrainConfig, device: torch.device) -> BatchSource:
    """Images of noise with random depth: what they show does not matter for speed."""
    rng = np.random.default_rng(0)
    images = [
        ClearImage(str(i), rng.integers(0, 256, (720, 1280, 3), np.uint8), rng.integers(0, 256, (360, 640), np.uint8))
        for i in range(16)
    ]
    bank = load_bank(images, lines=720, device=device)
    photos = config.photos or PhotoSourceConfig()
    source = OnlineHazeSource(
        bank,
        haze=photos.haze,
        batch=config.batch,
        crops=config.crops,
        window=config.model.window,
        seed=0,
    )
    return Prefetcher(source) if device.type == "cuda" else source


def measure(trainer: Trainer, source: BatchSource, *, steps: int, warmup: int) -> dict[str, Any]:
    """Time steps as the loop runs them, and again with one and the same batch: the difference is what data costs."""
    cuda = trainer.device.type == "cuda"

    def now() -> float:
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    seconds, waited = {}, 0.0
    for name, fixed in (("whole", None), ("without data", source.batch(0, Shard()))):
        for step in range(warmup + steps):
            if step == warmup:
                begin, waited = now(), 0.0
            asked = time.perf_counter()
            batch = fixed or source.batch(step, Shard())
            waited += time.perf_counter() - asked
            trainer.step(batch)
        seconds[name] = now() - begin
        if name == "whole":
            waiting = waited
    whole = seconds["whole"]
    return {
        "samples_per_second": round(steps * trainer.config.batch / whole, 1),
        "samples_per_second_without_data": round(steps * trainer.config.batch / seconds["without data"], 1),
        "data_share": round(1 - seconds["without data"] / whole, 4),
        "waiting_share": round(waiting / whole, 4),
        "ms_per_step": round(1000 * whole / steps, 1),
        "peak_gpu_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2) if cuda else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", nargs="?")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    options = parser.parse_args()

    device = pick_device("auto")
    if options.recipe:
        config = load_recipe(options.recipe, options.overrides)
        source, _ = build_source(config, device)
    else:
        cuda = device.type == "cuda"
        config = TrainConfig(
            batch=32 if cuda else 2,
            precision="bf16" if cuda else "fp32",
            loss=LossConfig(perceptual="none"),
            photos=PhotoSourceConfig(),
        )
        source = random_source(config, device)
    trainer = Trainer(config, steps=10_000, device=device)
    result = describe_machine() | {"batch": config.batch, "crops": config.crops}
    print(json.dumps(result | measure(trainer, source, steps=options.steps, warmup=options.warmup), indent=2))


if __name__ == "__main__":
    main()
