"""The optimiser, its schedule, and the averaged weights."""

import copy
import math

import torch
from torch import nn

from libranet.models.libranet import LiBrANet
from libranet.training.config import OptimiserConfig


def build_optimiser(model: nn.Module, config: OptimiserConfig) -> torch.optim.AdamW:
    """AdamW that decays convolution and linear weights only."""
    decayed = [p for name, p in model.named_parameters() if p.dim() > 1 and not name.endswith("position")]
    others = [p for name, p in model.named_parameters() if p.dim() <= 1 or name.endswith("position")]
    groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    on_gpu = all(p.is_cuda for p in model.parameters())
    return torch.optim.AdamW(groups, lr=config.lr, fused=on_gpu or None)  # None is the default for a CPU


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

    def __init__(self, model: LiBrANet, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: LiBrANet, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        ours = [p.data for p in self.model.parameters()]
        torch._foreach_lerp_(ours, [p.detach() for p in model.parameters()], 1 - decay)
