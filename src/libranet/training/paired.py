"""Batches from a paired data set on disk, read by worker processes, in an order that any step can be resumed from."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from libranet.data import (
    ClipWindows,
    PairedClip,
    WindowConfig,
    folder_pairs,
    hazeworld_pairs,
    revide_pairs,
    uhv4k_pairs,
)
from libranet.errors import InputError
from libranet.training.batches import Batch, Share
from libranet.training.config import PairedSourceConfig

READERS = {"uhv4k": uhv4k_pairs, "revide": revide_pairs, "hazeworld": hazeworld_pairs}


def open_training_clips(config: PairedSourceConfig) -> list[PairedClip]:
    """The training split of a data set, in its own layout."""
    path = Path(config.path)
    if not path.is_dir():
        raise InputError(f"no data set at {path}: check the recipe's [paired] path")
    if config.layout == "folders":
        return list(folder_pairs(path / "hazy", path / "clear"))
    return list(READERS[config.layout](path, "train"))


class PairedBatches:
    """Shuffles windows anew every epoch; a step's batch depends on the seed and the step alone."""

    def __init__(
        self,
        clips: list[PairedClip],
        *,
        batch: int,
        crop: int,
        window: int,
        seed: int,
        workers: int,
        device: torch.device,
    ) -> None:
        self.windows = ClipWindows(clips, WindowConfig(window=window, crop=crop, seed=seed))
        self.size, self.seed, self.workers, self.device = batch, seed, workers, device
        self.steps_per_epoch = len(self.windows) // batch
        if self.steps_per_epoch == 0:
            raise InputError(f"expected at least one batch of {batch} windows, the data set has {len(self.windows)}")
        self.running: tuple[int, Iterator[dict[str, torch.Tensor]]] | None = None

    def batch(self, step: int, share: Share) -> Batch:
        if self.running is None or self.running[0] != step or step % self.steps_per_epoch == 0:
            self.running = (step, self._rest_of_epoch(step, share))
        sample = next(self.running[1])
        self.running = (step + 1, self.running[1])
        hazy, clear = (sample[key].to(self.device, non_blocking=True) for key in ("hazy", "clear"))
        return Batch(hazy, clear)

    def _rest_of_epoch(self, step: int, share: Share) -> Iterator[dict[str, torch.Tensor]]:
        epoch, first = divmod(step, self.steps_per_epoch)
        self.windows.set_epoch(epoch)
        order = torch.randperm(len(self.windows), generator=torch.Generator().manual_seed(self.seed + epoch)).tolist()
        batches = [
            order[i * self.size : (i + 1) * self.size][share.of(self.size)] for i in range(first, self.steps_per_epoch)
        ]
        loader = DataLoader(
            self.windows,
            batch_sampler=batches,
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            persistent_workers=False,
        )
        return iter(loader)
