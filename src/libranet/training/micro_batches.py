"""A step in equal parts, whose result does not depend on how many processes compute them.

Four things would differ between one process and several. Random numbers: every part draws its own, from seed, step and
its number. Data: a part has the samples that a process of that rank would have among as many processes. Statistics:
norms use those of their part, and running ones move by the mean of the parts. Rounding: gradients are added up
pairwise, in a tree over the parts. A process has consecutive parts, a whole branch of the tree, so the sums of its
branch and those above it are the same numbers wherever they are computed.

Branches are powers of two. Where the number of processes is not, such as after one of eight machines was lost, the
processes beyond the largest power of two compute what others compute, and nobody adds it up.
"""

import dataclasses
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from libranet.errors import InputError
from libranet.losses.objective import LossTerms
from libranet.training.distributed import Shard


def divide(shard: Shard, parts: int) -> list[Shard]:
    """Return the parts of a step that a process computes, one after another.

    Args:
        shard: The process.
        parts: Of the whole batch, over all processes; 1 for one part per process.

    Raises:
        InputError: The number is no power of two, or there are more processes than parts.
    """
    if parts == 1:
        return [shard]
    if parts < shard.world or parts & (parts - 1):
        raise InputError(
            f"expected accumulate as a power of two of at least {shard.world}, the number of processes, "
            f"got accumulate={parts}"
        )
    branches = branch_count(shard.world)
    mine = parts // branches
    return [Shard(shard.rank % branches * mine + number, parts) for number in range(mine)]


def branch_count(world: int) -> int:
    """Processes whose parts are added up: the largest power of two that is not above their number."""
    return 1 << (world.bit_length() - 1)


def seed_part(seed: int, step: int, part: Shard) -> None:
    """Seed stochastic depth and dropout of a part."""
    torch.manual_seed((seed * 1_000_003 + step) * 4099 + part.rank)


def tree_sum(values: list[Tensor]) -> Tensor:
    """Add up tensors pairwise. A whole branch of the tree can be added up elsewhere and gives the same bits."""
    while len(values) > 1:
        values = [a + b for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def mean_over_parts(
    values: list[Tensor],  # one for each part of this process
    shard: Shard,
) -> Tensor:
    """The mean over all parts of all processes."""
    branch = tree_sum(values)
    count = len(values) * branch_count(shard.world)
    if shard.world > 1:
        branches = [torch.empty_like(branch) for _ in range(shard.world)]
        dist.all_gather(branches, branch)
        branch = tree_sum(branches[: branch_count(shard.world)])
    return branch / count


class PartSums:
    """Collects gradients and losses of the parts, and gives back their means."""

    def __init__(self, model: nn.Module, shard: Shard) -> None:
        self._parameters, self._shard = list(model.parameters()), shard
        self._buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        self._before = [buffer.clone() for buffer in self._buffers]
        self._statistics: list[Tensor] = []
        self._gradients: list[Tensor] = []
        self._terms: list[LossTerms] = []
        self._errors: list[Tensor] = []

    def add(self, terms: LossTerms, error: Tensor) -> None:
        """Take the gradients of the part that was computed last."""
        flat = [p.grad.detach().flatten() for p in self._parameters if p.grad is not None]
        self._gradients.append(torch.cat(flat))
        self._terms.append(_map(terms, lambda value: value.detach().clone()))
        self._errors.append(error.detach().clone())
        if self._buffers:
            self._statistics.append(torch.cat([buffer.flatten() for buffer in self._buffers]))
            for buffer, before in zip(self._buffers, self._before, strict=True):
                buffer.copy_(before)  # the next part begins where this one did

    def finish(self) -> tuple[LossTerms, Tensor]:
        """Write mean gradients and running statistics into the network; return the mean loss and squared error."""
        with_gradient = [p for p in self._parameters if p.grad is not None]
        mean = mean_over_parts(self._gradients, self._shard)
        sizes = [parameter.numel() for parameter in with_gradient]
        for parameter, values in zip(with_gradient, mean.split(sizes), strict=True):
            assert parameter.grad is not None
            parameter.grad.copy_(values.view_as(parameter.grad))
        if self._buffers:
            running = mean_over_parts(self._statistics, self._shard).split([buffer.numel() for buffer in self._buffers])
            for buffer, values in zip(self._buffers, running, strict=True):
                buffer.copy_(values.view_as(buffer))
        numbers = [torch.stack([*_leaves(t), e]) for t, e in zip(self._terms, self._errors, strict=True)]
        means = list(mean_over_parts(numbers, self._shard))
        error = means.pop()
        return _map(self._terms[0], lambda _: means.pop(0)), error


def _leaves(terms: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for field in dataclasses.fields(terms):
        value = getattr(terms, field.name)
        found += _leaves(value) if dataclasses.is_dataclass(value) else [value.detach().float()]
    return found


def _map(terms: Any, change: Any) -> Any:
    """The same terms with every scalar changed, in the order of `_leaves`."""
    values = {}
    for field in dataclasses.fields(terms):
        value = getattr(terms, field.name)
        values[field.name] = _map(value, change) if dataclasses.is_dataclass(value) else change(value)
    return dataclasses.replace(terms, **values)


def share_weights(model: nn.Module, shard: Shard) -> None:
    """Give every process the weights of the first one."""
    if shard.world > 1:
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.detach(), 0)
