"""Grid heads as they are trained: normalised before their activation, and centred on a grey level.

**Normalised.** To a head's first convolution the encoder's features are mostly a constant: over images, each channel's
mean is several times its deviation. The constant acts as a bias with a learning rate hundreds of times larger, and the
first hundred steps push every unit far below zero, where GELU and its gradient vanish: the head is dead, and with it
the whole field. A batch normalisation between convolution and GELU keeps every unit alive.

**Centred.** A hazy pixel lies near the airlight, far from black. There the matrix and the translation of A I + b change
the image in almost the same way, and gradient descent settles on the translation alone. Predicting b' with
b = b' - pivot M 1, that is I + M (I - pivot) + b' to first order, separates contrast from brightness.

Both are linear once training is over: `fold_heads` folds them into the heads' convolutions, so a checkpoint, the
reference and the fused path know nothing of them.
"""

import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce

from libranet.network import LiBrANet, Network
from libranet.network.layers import COEFFICIENTS, GridHead


class UnitNorm(nn.Module):
    """Batch normalisation over the batch of all processes; outside training it uses running statistics.

    In a step of several parts (`micro_batches`) each part has statistics of its own.
    """

    MOMENTUM = 0.02
    EPSILON = 1e-5

    mean: Tensor
    variance: Tensor

    def __init__(self, units: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(units))
        self.bias = nn.Parameter(torch.zeros(units))
        self.register_buffer("mean", torch.zeros(units))
        self.register_buffer("variance", torch.ones(units))
        self.over_processes = True

    def forward(self, x: Tensor) -> Tensor:  # [N, units, h, w]
        mean, variance = self.mean, self.variance
        if self.training:
            mean, variance = self.measure(x)
            with torch.no_grad():
                finite = torch.isfinite(mean).all() & torch.isfinite(variance).all()
                share = torch.where(finite, self.MOMENTUM, 0.0)
                self.mean.lerp_(mean.nan_to_num(), share)
                self.variance.lerp_(variance.nan_to_num(), share)
        scale = self.weight * torch.rsqrt(variance + self.EPSILON)
        return x * scale[:, None, None] + (self.bias - mean * scale)[:, None, None]

    def measure(self, x: Tensor) -> tuple[Tensor, Tensor]:  # [units] float32 each
        """Mean and variance of every unit, over the batch of all processes."""
        x = x.float()
        mean = self._combine(x.mean(dim=(0, 2, 3)))
        return mean, self._combine((x - mean[:, None, None]).square().mean(dim=(0, 2, 3)))

    def _combine(self, value: Tensor) -> Tensor:
        """The mean over all processes, through which gradients flow; their shares of the batch are equal."""
        if not self.over_processes or not dist.is_initialized() or dist.get_world_size() == 1:
            return value
        return all_reduce(value) / dist.get_world_size()

    @torch.no_grad()
    def preserve(self, x: Tensor) -> None:
        """Become the identity on units with the statistics of `x`."""
        mean, variance = self.measure(x)
        self.mean.copy_(mean)
        self.variance.copy_(variance)
        self.bias.copy_(mean)
        self.weight.copy_(torch.sqrt(variance + self.EPSILON))


class TrainingHead(GridHead):
    """A head with normalised units whose translations are relative to the pivot."""

    def __init__(self, head: GridHead, *, bins: int, pivot: float) -> None:
        """Take over the weights of an ordinary head; `bins` is how many cells its grids have along the guide."""
        super().__init__(*_sizes(head))
        self.bins, self.pivot = bins, pivot
        self.norm = UnitNorm(head.expand.out_channels)
        _take_over(self, head, bins=bins, amount=pivot)

    def activate(self, features: Tensor) -> Tensor:
        return F.gelu(self.norm(self.expand(features)))

    def forward(self, features: Tensor) -> Tensor:
        return _shift_translations(super().forward(features), self.bins, -self.pivot, dim=1)

    def fold(self) -> GridHead:
        """Return an ordinary head that computes the same outside training."""
        plain = GridHead(*_sizes(self))
        _take_over(plain, self, bins=self.bins, amount=-self.pivot)
        norm, expand = self.norm, plain.expand
        assert expand.bias is not None
        with torch.no_grad():
            scale = norm.weight * torch.rsqrt(norm.variance + norm.EPSILON)
            expand.weight.mul_(scale[:, None, None, None])
            expand.bias.copy_((expand.bias - norm.mean) * scale + norm.bias)
        return plain


def prepare_heads(model: LiBrANet, pivot: float, *, over_processes: bool = True) -> None:
    """Put training heads in the place of the network's heads. Outside training it computes the same.

    Args:
        pivot: Grey level on which the heads are centred.
        over_processes: Whether their norms use the batch of all processes, or that of each one alone.
    """
    if model.chromatic is not None:
        model.chromatic.head = TrainingHead(model.chromatic.head, bins=model.chromatic.bins, pivot=pivot)
    if model.temporal is not None:
        model.temporal.head = TrainingHead(model.temporal.head, bins=1, pivot=pivot)
    for module in model.modules():
        if isinstance(module, UnitNorm):
            module.over_processes = over_processes


@torch.no_grad()
def preserve_heads(model: LiBrANet, frames: Tensor, *, still: bool) -> None:
    """Let trained heads compute the same in training as before, by the statistics of a batch.

    Without this the first step of a run that starts from a checkpoint would normalise units whose scale and bias mean
    something.
    """
    hooks = [
        head.expand.register_forward_hook(lambda _, __, out, norm=head.norm: norm.preserve(out))
        for head in model.modules()
        if isinstance(head, TrainingHead)
    ]
    training = model.training
    model.eval().predict_grids(frames, still=still)
    model.train(training)
    for hook in hooks:
        hook.remove()


def fold_heads(model: Network) -> Network:
    """Return a copy with ordinary heads that computes the same outside training; a peer is returned as it is."""
    if not isinstance(model, LiBrANet):
        return model
    plain = copy.deepcopy(model)
    for field in (plain.chromatic, plain.temporal):
        if field is not None and isinstance(field.head, TrainingHead):
            field.head = field.head.fold()
    return plain


def _sizes(head: GridHead) -> tuple[int, int, int, float]:
    return head.expand.in_channels, head.expand.out_channels, head.project.out_channels, head.dropout.p


def _take_over(head: GridHead, other: GridHead, *, bins: int, amount: float) -> None:
    """Copy another head's convolutions, with translations shifted by `amount` times the matrix's row sums."""
    head.to(other.project.weight.device).train(other.training).requires_grad_(other.project.weight.requires_grad)
    head.expand.load_state_dict(other.expand.state_dict())
    state = {
        name: _shift_translations(value, bins, amount, dim=0) for name, value in other.project.state_dict().items()
    }
    head.project.load_state_dict(state)


def _shift_translations(coefficients: Tensor, bins: int, amount: float, *, dim: int) -> Tensor:
    """Add `amount` times the matrix's row sums to the translation, along an axis of (grids, 12, bins) channels."""
    parts = coefficients.unflatten(dim, (-1, COEFFICIENTS, bins))
    axis = dim + 1
    matrix, translation = parts.narrow(axis, 0, 9), parts.narrow(axis, 9, 3)
    moved = translation + amount * matrix.unflatten(axis, (3, 3)).sum(dim=axis + 1)
    return torch.cat([matrix, moved], dim=axis).flatten(dim, dim + 2)
