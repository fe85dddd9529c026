"""The training loop: one step after the other, a checkpoint that is always whole, and a clean way to stop."""

import dataclasses
import functools
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError, LibraNetError
from libranet.fused.support import why_not_fused
from libranet.models.checkpoint import load_model, save_checkpoint
from libranet.models.libranet import LiBrANet
from libranet.training.batches import Batch, BatchSource, Share
from libranet.training.centred_heads import centre_heads, fold_heads
from libranet.training.config import TrainConfig
from libranet.training.graphed import Gradients, GraphedGradients
from libranet.training.log import Pace, RunLog
from libranet.training.objective import LossTerms, Objective, Predicted
from libranet.training.optimiser import Ema, build_optimiser, learning_rate
from libranet.training.processes import agreed, average_gradients, check_shares
from libranet.training.state import Progress, load_state, save_state
from libranet.training.validation import Pair, validate

STATE_FILE = "state.safetensors"
MODEL_FILE = "model.safetensors"
BEST_FILE = "best.safetensors"
AMP_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class TrainingStoppedError(LibraNetError):
    """The run cannot go on; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    progress: Progress
    interrupted: bool
    """True when a signal asked it to stop; the state on disk is whole and can be resumed."""
    last_psnr: float
    """PSNR of the last logged batch."""
    seconds: float


class Trainer:
    """A network, its optimiser and everything else a step changes."""

    def __init__(self, config: TrainConfig, *, steps: int, device: torch.device, share: Share | None = None) -> None:
        self.config, self.steps, self.device, self.share = config, steps, device, share or Share()
        check_shares(config.batch, self.share, pairs=config.loss.steady_weight > 0)
        torch.manual_seed(config.seed)
        self.model = _initial_model(config)
        if config.pivot:
            centre_heads(self.model, config.pivot)
        self.model.to(device)
        fused = config.fused and why_not_fused(config.model, device) is None
        if fused:
            for parameter in self.model.parameters():
                if parameter.dim() == 4:  # the temporal position has five axes and no such layout
                    parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        self.ema = Ema(self.model, config.ema)
        self.optimiser = build_optimiser(self.model, config.optimiser)
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
        self.objective = Objective(config.loss, device)
        self.progress = Progress()
        self.predict: Callable[..., Predicted] = self.model.predict
        self.gradients: Gradients = self._compute_gradients
        if fused:
            from libranet.fused import training  # needs Triton

            self.predict = functools.partial(training.predict, self.model)
            self.gradients = GraphedGradients(self._compute_gradients, self.model)
        # From here on the processes draw different stochastic depth and dropout.
        torch.manual_seed(config.seed + 7919 * (1 + self.share.rank))

    def step(self, batch: Batch) -> tuple[LossTerms, Tensor]:
        """One optimiser step; returns the loss and the squared error. A loss that is not finite changes nothing."""
        p = self.progress
        rate = learning_rate(p.step, self.steps, self.config.optimiser)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.model.train()
        terms, error = self.gradients(batch)
        average_gradients(self.model, self.share)
        self.scaler.unscale_(self.optimiser)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optimiser.clip)
        finite = torch.isfinite(terms.total.detach())
        if not self.scaler.is_enabled():  # the scaler looks after gradients that overflow
            finite &= torch.isfinite(norm)
        p.step += 1
        if self._finish(agreed(finite, self.share)):
            p.bad_in_a_row = 0
        else:
            p.bad_steps += 1
            p.bad_in_a_row += 1
        self.scaler.update()
        if p.bad_in_a_row >= self.config.max_bad_steps:
            raise TrainingStoppedError(
                f"the loss was not finite in {p.bad_in_a_row} steps in a row (step {p.step}): "
                "lower optimiser.lr, or use precision = 'bf16' or 'fp32'"
            )
        return terms, error

    def _finish(self, finite: Tensor) -> bool:
        """Change the weights and their average if the step was finite; says whether it was."""
        if self.device.type != "cuda" or self.scaler.is_enabled():
            if finite:
                self.scaler.step(self.optimiser)
                self.ema.update(self.model, self.progress.step)
            return bool(finite)
        # The optimiser skips the step itself, so that all work is queued before anyone waits for the answer.
        self.optimiser.found_inf = (~finite).float()  # type: ignore[attr-defined]
        self.optimiser.step()
        self.ema.update(self.model, self.progress.step, share=finite)
        return bool(finite)

    def _compute_gradients(self, batch: Batch) -> tuple[LossTerms, Tensor]:
        self.optimiser.zero_grad(set_to_none=True)
        amp = AMP_DTYPES.get(self.config.precision)
        with torch.autocast(self.device.type, dtype=amp, enabled=amp is not None):
            prediction = self.predict(batch.hazy, still=batch.still)
            terms = self.objective(prediction, batch.clear)
        self.scaler.scale(terms.total).backward()
        return terms, F.mse_loss(prediction.image.detach().float(), batch.clear)

    def save(self, folder: Path, provenance: dict[str, Any]) -> None:
        """Write the state of the run, and the averaged network as a checkpoint of its own."""
        if self.share.rank:
            return
        folder.mkdir(parents=True, exist_ok=True)
        save_state(folder / STATE_FILE, **self._state())
        self.save_average(folder / MODEL_FILE, provenance)

    def save_average(self, path: Path, provenance: dict[str, Any]) -> None:
        """Write the averaged network as an ordinary checkpoint."""
        save_checkpoint(fold_heads(self.ema.model), path, provenance=provenance)

    def resume(self, folder: Path) -> None:
        """Go back to the state in a folder."""
        state = self._state()
        del state["progress"]
        self.progress = load_state(folder / STATE_FILE, **state)

    def _state(self) -> dict[str, Any]:
        return {
            "config": self.config,
            "model": self.model,
            "ema": self.ema,
            "optimiser": self.optimiser,
            "scaler": self.scaler,
            "progress": self.progress,
        }


def run_training(
    trainer: Trainer,
    source: BatchSource,
    *,
    folder: Path,
    pairs: list[list[Pair]],
    resume: bool = False,
    until: int | None = None,
    seconds: float = math.inf,
) -> Outcome:
    """Train to the end of the recipe, to step `until`, for `seconds`, or until a signal, whichever comes first."""
    config, share = trainer.config, trainer.share
    _prepare_folder(trainer, folder, resume)
    begin, last_psnr = time.perf_counter(), float("nan")
    end = min(trainer.steps, until or trainer.steps)
    with RunLog(folder if share.rank == 0 else None) as log, _stop_on_signals() as stop:
        if trainer.objective.warning:
            log.say(f"WARNING: {trainer.objective.warning}")
        pace = Pace(trainer.progress.step, end)
        while trainer.progress.step < end and time.perf_counter() - begin < seconds:
            waited = time.perf_counter()
            batch = source.batch(trainer.progress.step, share)
            pace.waiting += time.perf_counter() - waited
            terms, error = trainer.step(batch)
            step = trainer.progress.step
            if step % config.log_every == 0 or step == end:
                last_psnr = -10 * math.log10(max(float(error), 1e-12))
                _log_step(log, trainer, terms, last_psnr, pace)
            if pairs and (step % config.validate_every == 0 or step == end):
                _validate(log, trainer, pairs, folder)
            if step % config.checkpoint_every == 0:
                trainer.save(folder, _provenance(trainer, time.perf_counter() - begin))
            if not agreed(torch.tensor(not stop.requested, device=trainer.device), share):
                stop.requested = True
                break
        trainer.save(folder, _provenance(trainer, time.perf_counter() - begin))
        if stop.requested:
            log.say(f"stopped at step {trainer.progress.step}: the state is in {folder}, go on with --resume")
    return Outcome(trainer.progress, stop.requested, last_psnr, time.perf_counter() - begin)


def _prepare_folder(trainer: Trainer, folder: Path, resume: bool) -> None:
    exists = (folder / STATE_FILE).is_file()
    if resume:
        if not exists:
            raise InputError(f"nothing to resume: {folder} has no {STATE_FILE}")
        trainer.resume(folder)
    elif exists:
        raise InputError(f"{folder} already holds a run: add --resume to go on, or choose another folder")


def _log_step(log: RunLog, trainer: Trainer, terms: LossTerms, batch_psnr: float, pace: Pace) -> None:
    p, c = trainer.progress, trainer.config
    rate, waiting, left = pace.report(p.step, c.batch)
    scalars = terms.scalars()
    log.scalars(
        p.step, scalars | {"psnr": batch_psnr, "samples_per_second": rate, "data_share": waiting}, group="train"
    )
    log.say(
        f"step {p.step}/{trainer.steps}  loss {scalars['total']:.4f}  PSNR {batch_psnr:.2f} dB  "
        f"{rate:.1f} samples/s  data {waiting:.0%}  {left} left" + (f"  {p.bad_steps} skipped" if p.bad_steps else "")
    )


def _validate(log: RunLog, trainer: Trainer, sets: list[list[Pair]], folder: Path) -> None:
    if trainer.share.rank:
        return
    p = trainer.progress
    scores: list[float] = []
    told: list[str] = []
    pictures: list[Tensor] = []
    for number, pairs in enumerate(sets, start=1):
        before, after, examples = validate(trainer.ema.model, pairs, trainer.device)
        group = "validation" if len(sets) == 1 else f"validation-{number}"
        log.scalars(p.step, {"hazy_psnr": before, "psnr": after}, group=group)
        pictures += examples
        scores.append(after)
        told.append(f"{before:.2f} -> {after:.2f} dB")
    log.pictures(p.step, pictures)
    score = sum(scores) / len(scores)
    if score > p.best:
        p.best, p.best_step = score, p.step
        trainer.save_average(folder / BEST_FILE, _provenance(trainer, 0.0))
    log.say(f"validation at step {p.step}: {', '.join(told)} (best {p.best:.2f} at step {p.best_step})")


def _provenance(trainer: Trainer, seconds: float) -> dict[str, Any]:
    recipe = dataclasses.asdict(trainer.config)
    del recipe["model"]  # stored as the checkpoint's own configuration
    return {
        "recipe": recipe,
        "progress": dataclasses.asdict(trainer.progress),
        "seconds": round(seconds, 1),
        "device": torch.cuda.get_device_name() if trainer.device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "warning": trainer.objective.warning,
    }


def _initial_model(config: TrainConfig) -> LiBrANet:
    if not config.init_from:
        return LiBrANet(config.model)
    model = load_model(config.init_from)
    if dataclasses.replace(model.config, drop_path=0, dropout=0) != dataclasses.replace(
        config.model, drop_path=0, dropout=0
    ):
        raise InputError(f"{config.init_from} has another configuration than the recipe's [model]")
    fresh = LiBrANet(config.model)
    fresh.load_state_dict(model.state_dict())
    return fresh


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
