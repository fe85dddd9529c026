"""A step in equal parts, whose result does not depend on how many processes compute them.

Four things would differ between one process and several. Random numbers: every part draws its own, from seed, step and
its number. Data: a part has the samples that a process of that rank would have among as many processes. Statistics:
norms use those of their part, and running ones move by the mean of the parts. Rounding: gradients are added up
pairwise, in a tree over the parts. A process has consecutive parts, a whole branch of the tree, so the sums of its
branch and those above it are the same numbers wherever they are computed.

Branches are powers of two. Where the number of processes is not, such as after one of eight machines was lost, the
processes beyond the largest power of two compute what others compute, and nobody adds it up.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from libranet.errors import InputError
from libranet.haze.parameters import map_tensors
from libranet.losses.objective import LossTerms
from libranet.training.distributed import Shard


def divide(shard: Shard, parts: int) -> list[Shard]:
    """Return the parts of a step that a process computes, one after another.

    Args:
        parts: Of the whole batch, over all processes; 1 for one part per process.
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


def average_parts(
    model: nn.Module, results: Iterable[tuple[LossTerms, Tensor]], shard: Shard
) -> tuple[LossTerms, Tensor]:
    """Leave the mean gradients and running statistics of all parts in the network.

    Args:
        results: Loss and squared error of each part of this process. Asking for the next one computes it, which fills
            every parameter's `.grad`.
    """
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    before = [buffer.clone() for buffer in buffers]
    vectors: list[Tensor] = []
    for terms, error in results:
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        numbers: list[Tensor] = []
        map_tensors(lambda value, numbers=numbers: numbers.append(value) or value, terms)
        tensors = [*gradients, *buffers, *numbers, error]
        vectors.append(torch.cat([tensor.detach().float().flatten() for tensor in tensors]))
        for buffer, old in zip(buffers, before, strict=True):
            buffer.copy_(old)  # the next part begins where this one did
    means = list(mean_over_parts(vectors, shard).split([tensor.numel() for tensor in tensors]))
    for tensor in (*gradients, *buffers):
        tensor.copy_(means.pop(0).view_as(tensor))
    return map_tensors(lambda _: means.pop(0).view(()), terms), means.pop(0).view(())


def share_weights(model: nn.Module, shard: Shard) -> None:
    """Give every process the weights of the first one."""
    if shard.world > 1:
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.detach(), 0)
