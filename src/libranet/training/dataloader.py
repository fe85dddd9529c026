"""Where training batches come from: haze made on the fly over clear images, or a paired dataset on disk."""

import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from libranet.data import (
    ClipWindows,
    PairedClip,
    WindowConfig,
    folder_pairs,
    hazeworld_pairs,
    packed_pairs,
    revide_pairs,
    uhv4k_pairs,
)
from libranet.data.agreement import require_pairs
from libranet.errors import InputError
from libranet.extension import load_own
from libranet.frames import check_values
from libranet.haze.draws import Draws
from libranet.haze.images import ImageBank
from libranet.haze.kinds import HazeConfig
from libranet.haze.parameters import rows, to_device
from libranet.haze.recording import draw_footage, film
from libranet.haze.sampler import draw_samples
from libranet.haze.windows import reference
from libranet.network.libranet import check_frames
from libranet.runtime.gpu.support import why_not_device
from libranet.training.config import PairedSourceConfig
from libranet.training.distributed import Shard
from libranet.training.image_bank import COARSE, FINE


@dataclass(frozen=True)
class Batch:
    """One process's part of a step."""

    hazy: Tensor  # [B, T + K - 1, 3, H, W] in [0, 1], or [B, K, 3, H, W] with `still`
    clear: Tensor  # [B * K, 3, H, W] in [0, 1], the centre frames of each sample's K consecutive windows
    still: bool = False  # every window is one frame T times, which is stored and encoded once
    filmed: Tensor | None = None  # [B * K], 1 where the haze is that of real footage


class BatchSource(Protocol):
    """Gives the batch of a step. The same step always gives the same batch, which is what makes resuming exact."""

    def batch(self, step: int, shard: Shard) -> Batch: ...


class OnlineHazeSource:
    """Crops, camera motion, depth and haze, drawn per sample on the device from a bank of clear images."""

    def __init__(
        self,
        bank: ImageBank,
        *,
        haze: HazeConfig,
        batch: int,
        crops: tuple[tuple[int, int], ...],
        window: int,
        seed: int,
        outputs: int = 1,
    ) -> None:
        """Make a source.

        Args:
            batch: Windows per step, over all processes.
            crops: (height, width) of the crops; each step takes the next one.
            seed: Batches depend on it and on the step alone.
            outputs: Consecutive windows of each sample.
        """
        self.bank, self.haze, self.outputs = bank, haze, outputs
        self.samples, self.crops, self.seed = batch // outputs, crops, seed
        self.still = haze.geometry.still_probability == 1
        self.window = 1 if self.still else window  # a still window is made and encoded once
        self.haze_windows = reference.haze_windows
        if why_not_device(bank.fine.device) is None:
            from libranet.haze.windows import triton  # needs Triton

            self.haze_windows = triton.haze_windows

    @torch.no_grad()
    def batch(self, step: int, shard: Shard) -> Batch:
        """Make this process's part of a step's batch."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        size = self.crops[step % len(self.crops)]
        index = torch.randint(len(self.bank), (self.samples,), generator=generator)
        drawn, kinds = draw_samples(self.haze, self.bank, index, size, generator, outputs=self.outputs)
        noise_seed = int(torch.randint(2**40, (1,), generator=generator)) + shard.rank
        # A crop that covers more image lines than it has pixels reads the smaller copy, which is free of aliasing.
        shrink = float(drawn.view.half_size[:, 1].mean()) * self.bank.fine.shape[-2] / size[0]
        images = self.bank.fine if shrink < 0.5 * (FINE + 1 / COARSE) else self.bank.coarse
        mine = shard.of(self.samples)
        hazy, clear = self.haze_windows(
            images,
            self.bank.depth,
            rows(drawn, mine),
            size,
            window=self.window,
            outputs=self.outputs,
            seed=noise_seed,
        )
        filmed = torch.tensor([kind.filmed for kind in self.haze.kinds])[kinds]
        draws = Draws(self.samples, generator)
        elsewhere = draws.chance(self.haze.front.elsewhere_probability) & ~filmed
        if filmed.any() or elsewhere.any():
            frames, first = hazy.shape[1], self.window // 2
            footage = draw_footage(self.haze.front, self.haze.recording, frames, draws)
            for part, how in ((filmed, footage), (elsewhere, footage.fronts_only())):
                places = torch.nonzero(part[mine])[:, 0]
                if len(places) == 0:
                    continue
                chosen = to_device(rows(rows(how, mine), places), hazy.device)
                places = places.to(hazy.device)
                hazy[places], clear[places] = film(hazy[places], clear[places], chosen, first=first, seed=noise_seed)
        as_footage = filmed[mine].float().repeat_interleave(self.outputs).to(hazy.device)
        return Batch(hazy, clear.flatten(0, 1), still=self.still, filmed=as_footage)


def open_training_clips(config: PairedSourceConfig) -> list[PairedClip]:
    """Open the training split of a dataset, in its own layout."""
    if config.hazy:
        return folder_pairs(config.hazy, config.clear)
    path = Path(config.path)
    if not path.is_dir():
        raise InputError(f"no dataset at {path}: check the recipe's [paired] path")
    readers = {"uhv4k": uhv4k_pairs, "revide": revide_pairs, "hazeworld": hazeworld_pairs, "folders": require_pairs}
    return packed_pairs(path) if config.layout == "packed" else readers[config.layout](path, "train")


def open_own_data(config: PairedSourceConfig) -> list[PairedClip] | Dataset[dict[str, Tensor]]:
    """Call a user's own reader: clips, or a dataset of samples."""
    found = load_own(config.opener)(config.path)
    if isinstance(found, Dataset):
        return found
    clips = list(found) if isinstance(found, Iterable) else []
    if not clips or not all(isinstance(clip, PairedClip) for clip in clips):
        what = type(clips[0]).__name__ if clips else type(found).__name__ if found is None else "nothing"
        raise InputError(f"expected {config.opener} to return clips (PairedClip) or a torch Dataset, got {what}")
    return [clip.checked() for clip in clips]


class PairedSource:
    """Windows of a paired dataset, shuffled anew every epoch and read by worker processes."""

    def __init__(
        self,
        clips: list[PairedClip] | Dataset[dict[str, Tensor]],
        *,
        batch: int,
        crop: int,
        window: int,
        seed: int,
        workers: int,
        device: torch.device,
    ) -> None:
        self.windows: Any
        if isinstance(clips, Dataset):
            self.windows = clips
            check_sample(clips[0], window)
        else:
            self.windows = ClipWindows(clips, WindowConfig(window=window, crop=crop, seed=seed))
        self.size, self.seed, self.workers, self.device = batch, seed, workers, device
        self.steps_per_epoch = len(self.windows) // batch
        if self.steps_per_epoch == 0:
            raise InputError(f"expected at least one batch of {batch} windows, the dataset has {len(self.windows)}")
        self.running: dict[Shard, tuple[int, Iterator[dict[str, Tensor]]]] = {}

    def batch(self, step: int, shard: Shard) -> Batch:
        """Read this process's part of a step's batch. It depends on the seed and the step alone."""
        next_step, samples = self.running.get(shard, (-1, iter(())))
        if next_step != step or step % self.steps_per_epoch == 0:
            samples = self._rest_of_epoch(step, shard)
        sample = next(samples)
        self.running[shard] = (step + 1, samples)
        hazy, clear = (sample[key].to(self.device, non_blocking=True) for key in ("hazy", "clear"))
        return Batch(hazy, clear)

    def _rest_of_epoch(self, step: int, shard: Shard) -> Iterator[dict[str, Tensor]]:
        epoch, first = divmod(step, self.steps_per_epoch)
        if hasattr(self.windows, "set_epoch"):  # a user's dataset may draw nothing
            self.windows.set_epoch(epoch)
        order = torch.randperm(len(self.windows), generator=torch.Generator().manual_seed(self.seed + epoch)).tolist()
        batches = [
            order[i * self.size : (i + 1) * self.size][shard.of(self.size)] for i in range(first, self.steps_per_epoch)
        ]
        loader = DataLoader(
            self.windows,
            batch_sampler=batches,
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            persistent_workers=False,
            worker_init_fn=_leave_signals_to_the_parent,
        )
        return iter(loader)


def check_sample(sample: Any, window: int) -> None:
    """Refuse a sample of a user's dataset that the trainer cannot take."""
    hazy, clear = (sample.get(key) if isinstance(sample, dict) else None for key in ("hazy", "clear"))
    if not (isinstance(hazy, Tensor) and isinstance(clear, Tensor)):
        raise InputError(f"expected samples as a dict of tensors 'hazy' and 'clear', got {type(sample).__name__}")
    wanted = f"'hazy' [{window}, 3, h, w] and 'clear' [3, h, w]"
    if hazy.dim() != 4 or hazy.shape[0] != window or hazy.shape[1:] != clear.shape or clear.shape[0] != 3:
        raise InputError(f"expected samples of {wanted}, got {tuple(hazy.shape)} and {tuple(clear.shape)}")
    for side in (hazy, clear):
        check_frames(side)
        check_values(side)


def _leave_signals_to_the_parent(worker: int) -> None:
    """Let a signal to the whole process group stop the training loop, which saves its state, and not its workers."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


class Prefetcher:
    """Makes the next batch while the current step runs: in a thread, on a CUDA stream of its own."""

    def __init__(self, source: BatchSource) -> None:
        self.source = source
        self.stream = torch.cuda.Stream()
        self.thread = ThreadPoolExecutor(1)
        self.coming: dict[Shard, tuple[int, Future[Batch]]] = {}

    def batch(self, step: int, shard: Shard) -> Batch:
        """Return a step's batch and begin the next one."""
        if shard not in self.coming or self.coming[shard][0] != step:
            self._begin(step, shard)
        ready = self.coming[shard][1].result()
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        for tensor in (ready.hazy, ready.clear, ready.filmed):
            if tensor is not None:
                tensor.record_stream(current)
        self._begin(step + 1, shard)
        return ready

    def _begin(self, step: int, shard: Shard) -> None:
        self.coming[shard] = (step, self.thread.submit(self._make, step, shard))

    def _make(self, step: int, shard: Shard) -> Batch:
        with torch.cuda.stream(self.stream):
            return self.source.batch(step, shard)
