"""The training loop: step by step, with a log, checkpoints that are always whole, and a clean way to stop."""

import dataclasses
import json
import logging
import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.atomic import write_atomically
from libranet.device import describe_device
from libranet.errors import install_command
from libranet.losses.objective import LossTerms
from libranet.network import LiBrANet
from libranet.network.liveness import MIN_LIVE, live_units
from libranet.training.dataloader import Batch, BatchSource
from libranet.training.distributed import agreed
from libranet.training.state import Progress, check_folder
from libranet.training.trainer import MODEL_FILE, Trainer, gradient_norms
from libranet.training.training_heads import fold_heads
from libranet.training.validation import ValidationSet, validate

BEST_FILE = "best.safetensors"
LOG_FILE = "log.jsonl"
LIFE_SAMPLES = 16  # samples of the last batch on which live units are counted

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    progress: Progress
    interrupted: bool
    """True when a signal asked it to stop; the state on disk is whole and can be resumed."""
    seconds: float


def run_training(
    trainer: Trainer,
    source: BatchSource,
    *,
    folder: Path,
    pairs: Sequence[ValidationSet],
    resume: bool = False,
    until: int | None = None,
    seconds: float = math.inf,
) -> Outcome:
    """Train to the end of the recipe, to a step, for some time, or until a signal, whichever comes first.

    Args:
        until: Last step, instead of the recipe's.

    Raises:
        InputError: The folder holds a run and `resume` is False, or the other way round.
        TrainingStoppedError: The loss stays not finite.
    """
    config, shard = trainer.config, trainer.shard
    _prepare_folder(trainer, folder, resume)
    if resume and trainer.progress.step == trainer.steps:
        if shard.rank == 0:
            logger.info("%s is finished after %d steps: to extend it, give more steps or epochs", folder, trainer.steps)
        return Outcome(trainer.progress, False, 0.0)
    begin = time.perf_counter()
    end = min(trainer.steps, until or trainer.steps)
    first = trainer.progress.step + 1
    with closing(RunLog(folder if shard.rank == 0 else None, first_step=first)) as log, _stop_on_signals() as stop:
        if trainer.objective.warning:
            log.warn(trainer.objective.warning)
        pace = Pace(trainer.progress.step, end)
        while trainer.progress.step < end and time.perf_counter() - begin < seconds:
            waited = time.perf_counter()
            batches = [source.batch(trainer.progress.step, part) for part in trainer.parts]
            pace.waiting += time.perf_counter() - waited
            terms, error = trainer.step(*batches)
            step = trainer.progress.step
            if step % config.every.log == 0 or step == end:
                _log_step(log, trainer, terms, -10 * math.log10(max(float(error), 1e-12)), pace)
            if step % config.every.validation == 0 or step == end:
                _check_life(log, trainer, batches[0])
                _validate(log, trainer, pairs, folder)
            if step % config.every.checkpoint == 0:
                trainer.save(folder, _provenance(trainer, time.perf_counter() - begin))
            if not agreed(torch.tensor(not stop.requested, device=trainer.device), shard):
                stop.requested = True
                break
        spent = time.perf_counter() - begin
        trainer.save(folder, _provenance(trainer, spent))
        if stop.requested:
            log.info(f"stopped at step {trainer.progress.step}: the state is in {folder}, go on with --resume")
        else:
            log.info(f"done: {trainer.progress.step} steps in {spent:.0f} s, checkpoint {folder / MODEL_FILE}")
    return Outcome(trainer.progress, stop.requested, spent)


class RunLog:
    """What a run writes while it goes: log lines, a JSON line per record, TensorBoard scalars and example images.

    Only the first process of a group writes; the others have a log with `folder=None`.
    """

    def __init__(self, folder: Path | None, *, first_step: int = 1) -> None:
        """Open the files of a run.

        Args:
            first_step: Records from this step on are from a run that was killed after its last state, and done again.
        """
        self.folder = folder
        self.board: Any = None
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.lines = (folder / LOG_FILE).open("a")
        try:
            from torch.utils.tensorboard import SummaryWriter

            # Without `purge_step` TensorBoard would show the repeated steps twice.
            self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=first_step)
        except ImportError:
            self.info(f"tensorboard is not installed: scalars go to log.jsonl only ({install_command('train')})")

    def close(self) -> None:
        if self.folder is not None:
            self.lines.close()
        if self.board is not None:
            self.board.close()

    def info(self, text: str) -> None:
        if self.folder is not None:
            logger.info(text)

    def warn(self, text: str) -> None:
        """Log one line that nobody should miss."""
        if self.folder is not None:
            logger.warning(text)

    def scalars(self, step: int, values: dict[str, float], *, group: str) -> None:
        if self.folder is None:
            return
        self.lines.write(json.dumps({"step": step, "group": group, **values}) + "\n")
        self.lines.flush()
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(f"{group}/{name}", value, step)

    def images(self, step: int, rows: list[Tensor]) -> None:
        """Record strips of hazy, restored and clear, [3, H, W] in [0, 1] each, as PNG and in TensorBoard."""
        if self.folder is None or not rows:
            return
        folder = self.folder / "images"
        folder.mkdir(exist_ok=True)
        for index, row in enumerate(rows):
            image = (row.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
            cv2.imwrite(str(folder / f"{step:07d}-{index}.png"), np.ascontiguousarray(image[..., ::-1]))
            if self.board is not None:
                self.board.add_image(f"hazy | restored | clear/{index}", row.clamp(0, 1), step)


class Pace:
    """Samples per second and the time left, over the steps since the last report, and the share spent on data."""

    def __init__(self, step: int, steps: int) -> None:
        self.step, self.steps = step, steps
        self.begin = time.perf_counter()
        self.waiting = 0.0

    def report(self, step: int, batch: int) -> tuple[float, float, str]:
        """Samples per second, share of the time spent waiting for data, and the time left; then start anew."""
        elapsed = max(time.perf_counter() - self.begin, 1e-9)
        done = max(step - self.step, 1)
        left = int((self.steps - step) * elapsed / done)
        clock = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
        share = self.waiting / elapsed
        self.step, self.begin, self.waiting = step, time.perf_counter(), 0.0
        return done * batch / elapsed, share, clock


def _prepare_folder(trainer: Trainer, folder: Path, resume: bool) -> None:
    check_folder(folder, resume=resume)
    if resume:
        trainer.resume(folder)
        p = trainer.progress
        if p.begin == p.step > 0 and trainer.shard.rank == 0:
            logger.info("extended: steps %d to %d have a warm-up and a cosine of their own", p.begin, p.end)
    if trainer.shard.rank == 0:
        _forget_later_steps(folder / LOG_FILE, trainer.progress.step)


def _forget_later_steps(log: Path, step: int) -> None:
    """Drop records of steps that a killed run had done after its last state: they are done again."""
    if not log.is_file():
        return
    lines = log.read_text().splitlines(keepends=True)
    kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
    if len(kept) < len(lines):
        write_atomically(log, "".join(kept).encode())


def _log_step(log: RunLog, trainer: Trainer, terms: LossTerms, batch_psnr: float, pace: Pace) -> None:
    p, c = trainer.progress, trainer.config
    rate, waiting, left = pace.report(p.step, c.batch)
    scalars = terms.scalars()
    log.scalars(
        p.step, scalars | {"psnr": batch_psnr, "samples_per_second": rate, "data_share": waiting}, group="train"
    )
    log.scalars(p.step, gradient_norms(trainer.model), group="gradients")
    log.info(
        f"step {p.step}/{trainer.steps}  loss {scalars['total']:.4f}  PSNR {batch_psnr:.2f} dB  "
        f"{rate:.1f} samples/s  data {waiting:.0%}  {left} left" + (f"  {p.bad_steps} skipped" if p.bad_steps else "")
    )


def _check_life(log: RunLog, trainer: Trainer, batch: Batch) -> None:
    """Log how much of each head is alive, and warn of a dead part: it would stay dead."""
    network = trainer.ema.model
    if trainer.shard.rank or not isinstance(network, LiBrANet):
        return
    alive = live_units(network, batch.hazy[:LIFE_SAMPLES], still=batch.still)
    log.scalars(trainer.progress.step, alive, group="live")
    for name, share in alive.items():
        if share < MIN_LIVE:
            log.warn(f"only {share:.0%} of the {name} field's hidden units are alive at step {trainer.progress.step}")


def _validate(log: RunLog, trainer: Trainer, sets: Sequence[ValidationSet], folder: Path) -> None:
    if trainer.shard.rank or not sets:
        return
    p = trainer.progress
    network = fold_heads(trainer.ema.model)
    scores = [validate(network, pairs) for pairs in sets]
    for number, score in enumerate(scores, start=1):
        group = "validation" if len(sets) == 1 else f"validation-{number}"
        log.scalars(p.step, {"hazy_psnr": score.hazy_psnr, "psnr": score.psnr}, group=group)
    log.images(p.step, [example for score in scores for example in score.examples])
    mean = sum(score.psnr for score in scores) / len(scores)
    if mean > p.best:
        p.best, p.best_step = mean, p.step
        trainer.save_average(folder / BEST_FILE, _provenance(trainer, 0.0))
    gains = ", ".join(f"{score.hazy_psnr:.2f} -> {score.psnr:.2f} dB" for score in scores)
    log.info(f"validation at step {p.step}: {gains} (best {p.best:.2f} at step {p.best_step})")


def _provenance(trainer: Trainer, seconds: float) -> dict[str, Any]:
    recipe = dataclasses.asdict(trainer.config)
    del recipe["model"]  # stored as the checkpoint's own configuration
    return {
        "recipe": recipe,
        "progress": dataclasses.asdict(trainer.progress),
        "seconds": round(seconds, 1),
        "device": describe_device(trainer.device),
        "torch": torch.__version__,
        "warning": trainer.objective.warning,
    }


class _Stop:
    requested = False


@contextmanager
def _stop_on_signals() -> Iterator[_Stop]:
    """Turn SIGINT and SIGTERM into a request to stop after the current step. A second signal stops at once."""
    stop = _Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
