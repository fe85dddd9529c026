"""A training step: the network, its optimiser and schedule, and its averaged weights."""

import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.errors import InputError, LibraNetError
from libranet.extension import is_own
from libranet.losses.objective import LossTerms, Objective
from libranet.network import LiBrANet, Network, load_model, save_checkpoint
from libranet.network.base import Predicted
from libranet.runtime import build_fresh, load_network
from libranet.runtime.gpu.support import why_not_fused
from libranet.training.config import OptimiserConfig, TrainConfig
from libranet.training.dataloader import Batch
from libranet.training.distributed import Shard, agreed, average_gradients
from libranet.training.graphed_step import Graphed, LateAnswer
from libranet.training.micro_batches import average_parts, divide, seed_part, share_weights
from libranet.training.muon import Muon
from libranet.training.state import STATE_FILE, Progress, RunState
from libranet.training.training_heads import fold_heads, prepare_heads, preserve_heads

MODEL_FILE = "model.safetensors"
AMP_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

Gradients = Callable[[Batch], tuple[LossTerms, Tensor]]
"""Fills every parameter's `.grad`; returns the loss and the squared error."""


class TrainingStoppedError(LibraNetError):
    """The run cannot go on; the message says why."""


class Trainer:
    """A network, its optimiser and everything else a step changes."""

    def __init__(self, config: TrainConfig, *, steps: int, device: torch.device, shard: Shard | None = None) -> None:
        self.config, self.steps, self.device, self.shard = config, steps, device, shard or Shard()
        self.parts = divide(self.shard, config.accumulate)
        """What this process computes in a step, one after another."""
        self.parts[0].check(config.batch, outputs=config.outputs)
        torch.manual_seed(config.seed)
        self.model = _initial_model(config)
        ours = self.model if isinstance(self.model, LiBrANet) else None
        if ours is not None and config.optimiser.head_norm:
            prepare_heads(ours, config.optimiser.pivot, over_processes=config.accumulate == 1)
        self.model.to(device)
        fused = config.fused and ours is not None and why_not_fused(config.model, device) is None
        if fused:
            _use_channels_last(self.model)
        self.ema = Ema(self.model, config.optimiser.ema)
        self.optimiser = build_optimiser(self.model, config.optimiser)
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
        self.objective = Objective(config.loss, device)
        self.teacher = load_model(config.teacher.checkpoint, device=device) if config.teacher.checkpoint else None
        self.progress = Progress(end=steps)
        self.state = RunState(config, self.model, self.ema.model, self.optimiser, self.scaler)
        self.predict: Callable[..., Predicted] = self.model.predict
        self.teach: Callable[..., Predicted] | None = self.teacher.predict if self.teacher is not None else None
        self.gradients: Gradients = self._compute_gradients
        self.whole_step: Graphed | None = None
        """The whole step as a CUDA graph, where nothing has to happen between its parts."""
        if fused and ours is not None:
            from libranet.runtime.gpu import training  # needs Triton

            self.predict = functools.partial(training.predict, ours)
            if self.teacher is not None and why_not_fused(self.teacher.config, device) is None:
                _use_channels_last(self.teacher)
                self.teach = functools.partial(training.predict, self.teacher)
            if self.shard.world == 1 and config.accumulate == 1 and not self.scaler.is_enabled():
                self.whole_step = Graphed(self._compute_step, self.model, rehearse=self._rehearse_step)
            else:
                self.gradients = Graphed(self._compute_gradients, self.model)
            self.rate, self.ema_share, self.finite, self.held = (torch.zeros((), device=device) for _ in range(4))
            self.answer = LateAnswer()
        # From here on the processes draw different stochastic depth and dropout.
        torch.manual_seed(config.seed + 7919 * (1 + self.shard.rank))

    def step(self, *batches: Batch) -> tuple[LossTerms, Tensor]:
        """Do one optimiser step. A loss that is not finite changes nothing.

        Args:
            batches: One for each of `parts`.

        Raises:
            TrainingStoppedError: The loss was not finite in too many steps in a row.
        """
        p = self.progress
        if p.step == 0 and self.config.init_from and isinstance(self.model, LiBrANet):
            preserve_heads(self.model, batches[0].hazy, still=batches[0].still)
            share_weights(self.model, self.shard)  # which the heads' norms take from each process's own frames
        rate = learning_rate(p.step - p.begin, self.steps - p.begin, self.config.optimiser)
        self.model.train()
        if self.whole_step is not None:
            return self._graphed_step(self.whole_step, batches[0], rate)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        terms, error = self._all_gradients(batches)
        self.scaler.unscale_(self.optimiser)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optimiser.clip)
        finite = torch.isfinite(terms.total.detach())
        if not self.scaler.is_enabled():  # the scaler looks after gradients that overflow
            finite &= torch.isfinite(norm)
        p.step += 1
        self._count(self._finish(agreed(finite, self.shard)))
        self.scaler.update()
        return terms, error

    def _graphed_step(self, step: Graphed, batch: Batch, rate: float) -> tuple[LossTerms, Tensor]:
        """Do the whole step as one CUDA graph, and count the step before: nobody waits for the GPU."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate
        self.progress.step += 1
        self.rate.fill_(rate)
        self.ema_share.fill_(self.ema.share(self.progress.step))
        result = step(batch)
        before = self.answer.take()
        self.answer.ask(self.finite)
        if before is not None:
            self._count(before)
        return result

    def settle(self) -> None:
        """Wait for the last step, and count it."""
        if self.whole_step is not None and (last := self.answer.take()) is not None:
            self._count(last)

    def _count(self, finite: bool) -> None:
        p = self.progress
        if finite:
            p.bad_in_a_row = 0
            return
        p.bad_steps += 1
        p.bad_in_a_row += 1
        if p.bad_in_a_row >= self.config.optimiser.max_bad_steps:
            raise TrainingStoppedError(
                f"the loss was not finite in {p.bad_in_a_row} steps in a row (step {p.step}): "
                "lower optimiser.lr, or use precision = 'bf16' or 'fp32'"
            )

    def _all_gradients(self, batches: tuple[Batch, ...]) -> tuple[LossTerms, Tensor]:
        """Gradients of the whole step, over all parts and processes."""
        if self.config.accumulate == 1:
            if self.shard.world > 1:  # so that a run goes on exactly: the state holds the numbers of one process
                seed_part(self.config.seed, self.progress.step, self.shard)
            terms, error = self.gradients(batches[0])
            average_gradients(self.model, self.shard)
            return terms, error
        return average_parts(self.model, self._each_part(batches), self.shard)

    def _each_part(self, batches: tuple[Batch, ...]) -> Iterator[tuple[LossTerms, Tensor]]:
        for part, batch in zip(self.parts, batches, strict=True):
            seed_part(self.config.seed, self.progress.step, part)
            yield self.gradients(batch)

    def save(self, folder: Path, provenance: dict[str, Any]) -> None:
        """Write the state of the run, and the averaged network as a checkpoint of its own."""
        self.settle()
        if self.shard.rank:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.state.save(folder / STATE_FILE, self.progress)
        self.save_average(folder / MODEL_FILE, provenance)

    def save_average(self, path: Path, provenance: dict[str, Any]) -> None:
        """Write the averaged network as an ordinary checkpoint."""
        save_checkpoint(fold_heads(self.ema.model), path, provenance=provenance)

    def resume(self, folder: Path) -> None:
        """Go back to the state in a folder.

        With another number of steps than before the run is extended: a new schedule begins at the step it has come to.
        """
        p = self.state.load(folder / STATE_FILE)
        if self.steps < p.step:
            raise InputError(f"{folder} has done {p.step} steps already: expected more than that, got {self.steps}")
        if p.end != self.steps:
            p.begin = p.step
        p.end = self.steps
        self.progress = p

    def _finish(self, finite: Tensor) -> bool:
        """Change the weights and their average if the step was finite; return whether it was."""
        if self.device.type != "cuda" or self.scaler.is_enabled():
            if finite:
                self.scaler.step(self.optimiser)
                self.ema.update(self.model, self.ema.share(self.progress.step))
            return bool(finite)
        # The optimiser skips the step itself, so that all work is queued before anyone waits for the answer.
        self.optimiser.found_inf = (~finite).float()  # type: ignore[attr-defined]
        self.optimiser.step()
        self.ema.update(self.model, self.ema.share(self.progress.step) * finite)
        return bool(finite)

    @torch.no_grad()
    def _taught(self, batch: Batch) -> Batch:
        """Mix the teacher's output into the truth."""
        if self.teach is None:
            return batch
        amp = AMP_DTYPES.get(self.config.precision)
        with torch.autocast(self.device.type, dtype=amp, enabled=amp is not None):
            restored = self.teach(batch.hazy, still=batch.still).image
        clear = torch.lerp(batch.clear, restored.to(batch.clear.dtype), self.config.teacher.share)
        return dataclasses.replace(batch, clear=clear)

    def _compute_gradients(self, batch: Batch) -> tuple[LossTerms, Tensor]:
        self.optimiser.zero_grad(set_to_none=True)
        batch = self._taught(batch)
        amp = AMP_DTYPES.get(self.config.precision)
        with torch.autocast(self.device.type, dtype=amp, enabled=amp is not None):
            prediction = self.predict(batch.hazy, still=batch.still)
            hazy = self.model.centres(batch.hazy, still=batch.still).flatten(0, 1)
            terms = self.objective(prediction, batch.clear, hazy, batch.filmed)
        self.scaler.scale(terms.total).backward()
        return terms, F.mse_loss(prediction.image.detach().float(), batch.clear)

    def _compute_step(self, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Gradients, clipping, optimiser and averaged weights; `finite` tells whether anything changed."""
        terms, error = self._compute_gradients(batch)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optimiser.clip)
        finite = torch.isfinite(terms.total.detach()) & torch.isfinite(norm)
        self.finite.copy_(finite * (1 - self.held))
        self.optimiser.found_inf = 1 - self.finite  # type: ignore[attr-defined]
        self.optimiser.step()
        self.ema.update(self.model, self.ema_share * self.finite)
        return terms, error

    def _rehearse_step(self, batch: Batch) -> None:
        """Do everything that a step does, and change nothing."""
        self.held.fill_(1.0)
        self._compute_step(batch)
        self.held.fill_(0.0)


def gradient_norms(model: nn.Module) -> dict[str, float]:
    """The norm of the last gradient in each part of a network, after clipping."""
    norms = {}
    for name, part in model.named_children():
        gradients = [p.grad.flatten() for p in part.parameters() if p.grad is not None]
        norms[name] = float(torch.cat(gradients).norm()) if gradients else 0.0
    return norms


def build_optimiser(model: nn.Module, config: OptimiserConfig) -> torch.optim.Optimizer:
    """Make an optimiser that decays convolution and linear weights only."""
    if config.kind == "muon":
        return Muon(model, lr=config.lr, weight_decay=config.weight_decay)
    decayed = [p for name, p in model.named_parameters() if p.dim() > 1 and not name.endswith("position")]
    others = [p for name, p in model.named_parameters() if p.dim() <= 1 or name.endswith("position")]
    groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    on_gpu = all(p.is_cuda for p in model.parameters())
    # A recorded step needs `capturable`; None is the default for a CPU.
    return torch.optim.AdamW(groups, lr=config.lr, fused=on_gpu or None, capturable=on_gpu)


def learning_rate(step: int, steps: int, config: OptimiserConfig) -> float:
    """Linear warm-up, then a cosine from the peak to its configured share at the last step."""
    warmup = round(config.warmup * steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    progress = (step - warmup) / max(steps - 1 - warmup, 1)
    share = config.final_lr + (1 - config.final_lr) * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
    return config.lr * share


class Ema:
    """An exponential moving average of a network's weights. Early on it forgets faster, to lose the initial weights."""

    def __init__(self, model: Network, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    def share(self, step: int) -> float:
        """How far the average moves in a step, as a share of its distance from the weights."""
        return 1 - min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def update(self, model: Network, share: Tensor | float) -> None:
        """Move by this share towards a network's weights; 0 keeps the average as it is."""
        # Running statistics are averaged, too; counters of batches are not.
        ours, theirs = (
            [t.detach() for t in (*m.parameters(), *m.buffers()) if t.is_floating_point()] for m in (self.model, model)
        )
        move = torch._foreach_sub(theirs, ours)
        torch._foreach_mul_(move, share)
        torch._foreach_add_(ours, move)


def _use_channels_last(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.dim() == 4:  # the temporal position has five axes and no such layout
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)


def _initial_model(config: TrainConfig) -> Network:
    fresh = build_fresh(config.peer, seed=config.seed) if config.peer else LiBrANet(config.model)
    if not config.init_from:
        return fresh
    own = config.peer if is_own(config.peer) else None
    model = load_network(own or config.init_from, weights=config.init_from if own else None, device="cpu")
    if model.architecture != fresh.architecture:
        raise InputError(f"{config.init_from} holds {model.architecture}, the recipe trains {fresh.architecture}")
    # These change no weight: a run may begin on small frames and go on with large ones.
    free: dict[str, Any] = {"drop_path": 0.0, "dropout": 0.0, "encoder_size": 256}
    if not config.peer and model.config.stored() | free != config.model.stored() | free:
        raise InputError(f"{config.init_from} has another configuration than the recipe's [model]")
    fresh.load_state_dict(model.state_dict())
    return fresh
