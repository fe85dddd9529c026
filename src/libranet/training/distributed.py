"""One process or many: the group that `torchrun` makes, and the two sums that a step needs."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from libranet.errors import InputError


@dataclass(frozen=True)
class Shard:
    """Which part of the global batch this process computes."""

    rank: int = 0
    world: int = 1

    def of(self, batch: int) -> slice:
        per_process = batch // self.world
        return slice(self.rank * per_process, (self.rank + 1) * per_process)

    def check(self, batch: int, *, outputs: int = 1) -> None:
        """Refuse a batch that cannot be split evenly: equal shards keep the mean of means the mean of all."""
        if batch % (self.world * outputs):
            what = "a batch that" if outputs == 1 else "pairs that"
            raise InputError(f"expected {what} {self.world} processes can share evenly, got a batch of {batch}")


def own_device(device: torch.device) -> torch.device:
    """The GPU of this process: torchrun gives each process of a machine a number, and without one it is the first."""
    if device.type != "cuda" or device.index is not None or "LOCAL_RANK" not in os.environ:
        return device
    mine = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(mine)
    return mine


def was_restarted() -> bool:
    """Whether torchrun has started the processes again because one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def any_process(condition: bool, shard: Shard, device: torch.device) -> bool:
    """Whether something is true in at least one process: they must all take the same way."""
    return not bool(agreed(torch.tensor(not condition, device=device), shard))


def join_processes(device: torch.device) -> Shard:
    """Join the group that torchrun made, or be alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Shard()
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return Shard(dist.get_rank(), dist.get_world_size())


def leave_processes() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def average_gradients(model: nn.Module, shard: Shard) -> None:
    """Replace each gradient by its mean over all processes, in one message."""
    if shard.world == 1:
        return
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= shard.world
    for gradient, averaged in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(averaged.view_as(gradient))


def agreed(condition: Tensor, shard: Shard) -> Tensor:  # [] bool
    """Whether a boolean scalar is true in every process."""
    if shard.world == 1:
        return condition
    votes = condition.float()
    dist.all_reduce(votes, op=dist.ReduceOp.MIN)
    return votes > 0
