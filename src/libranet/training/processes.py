"""One process or many: what `torchrun` sets up, and the two sums that a step needs."""

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn

from libranet.errors import InputError
from libranet.training.batches import Share


def join_processes(device: torch.device) -> Share:
    """Join the group that torchrun made, or be alone."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return Share()
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return Share(dist.get_rank(), dist.get_world_size())


def leave_processes() -> None:
    """Leave the group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def check_shares(batch: int, share: Share, *, pairs: bool = False) -> None:
    """Equal shares keep the mean of means the mean; pairs of samples are not torn apart."""
    if batch % (share.world * (2 if pairs else 1)):
        what = "pairs that" if pairs else "a batch that"
        raise InputError(f"expected {what} {share.world} processes can share evenly, got a batch of {batch}")


def average_gradients(model: nn.Module, share: Share) -> None:
    """Replace each gradient by its mean over all processes, in one message."""
    if share.world == 1:
        return
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= share.world
    for gradient, averaged in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(averaged.view_as(gradient))


def agreed(condition: Tensor, share: Share) -> Tensor:  # [] bool
    """Whether a boolean scalar is true in every process."""
    if share.world == 1:
        return condition
    votes = condition.float()
    dist.all_reduce(votes, op=dist.ReduceOp.MIN)
    return votes > 0
