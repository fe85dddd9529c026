"""Muon: the momentum of every weight matrix, made orthogonal, is its step; all other parameters take AdamW's.

An orthogonal step moves all directions of a matrix by the same amount, where a gradient moves a few far and the others
hardly at all. Its size is that of AdamW's steps, so that learning rates and weight decay mean the same for both.
"""

from collections import defaultdict

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
BETAS = (0.9, 0.999)
EPSILON = 1e-8
ADAMW_STEP = 0.2  # root mean square of AdamW's usual steps, in learning rates
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of an odd polynomial that brings every singular value in (0, 1] near 1 within five rounds."""
ROUNDS = 5
NARROW = 64
"""Rows up to which matrices are padded to one size, and beyond which to another, where few calls count."""


class Muon(torch.optim.Optimizer):
    """Orthogonal steps for the weights of convolutions and linear layers, AdamW's for the rest."""

    found_inf: Tensor | None = None
    """Set to 1 before a step that must change nothing, as for torch's own fused optimisers."""

    def __init__(self, model: nn.Module, *, lr: float, weight_decay: float) -> None:
        named = list(model.named_parameters())
        matrices = [p for name, p in named if _is_hidden_matrix(name, p)]
        chosen = {id(p) for p in matrices}
        others = [(name, p) for name, p in named if id(p) not in chosen]
        decayed = [p for name, p in others if p.dim() > 1 and not name.endswith("position")]
        kept = [p for name, p in others if p.dim() <= 1 or name.endswith("position")]
        groups = [
            {"params": matrices, "orthogonal": True, "weight_decay": weight_decay},
            {"params": decayed, "orthogonal": False, "weight_decay": weight_decay},
            {"params": kept, "orthogonal": False, "weight_decay": 0.0},
        ]
        super().__init__([group for group in groups if group["params"]], {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            gradients = [self._usable(p.grad) for p in parameters]
            steps = (self._orthogonal_steps if group["orthogonal"] else self._adam_steps)(parameters, gradients)
            torch._foreach_mul_(parameters, 1 - self._share(group["lr"] * group["weight_decay"]))
            torch._foreach_mul_(steps, self._share(group["lr"]))
            torch._foreach_sub_(parameters, steps)

    def _share(self, value: float) -> Tensor | float:
        """The value, or 0 in a step that must change nothing."""
        return value if self.found_inf is None else value * (1 - self.found_inf)

    def _usable(self, gradient: Tensor) -> Tensor:
        """The gradient in a normal step; zero in one that must change nothing."""
        return gradient if self.found_inf is None else torch.where(self.found_inf > 0, 0.0, gradient)

    def _orthogonal_steps(self, parameters: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        momenta = self._states(parameters, "momentum")
        self._average(momenta, gradients, MOMENTUM)
        ahead = [step.flatten(1) for step in torch._foreach_lerp(gradients, momenta, MOMENTUM)]
        # A GPU waits for launches of small kernels, not for their work; a CPU has no launches.
        found = orthogonalise_all(ahead, few_calls=parameters[0].is_cuda)
        torch._foreach_mul_(found, [ADAMW_STEP * max(step.shape) ** 0.5 for step in found])
        return [step.reshape(parameter.shape) for step, parameter in zip(found, parameters, strict=True)]

    def _adam_steps(self, parameters: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        means, squares = self._states(parameters, "mean"), self._states(parameters, "square")
        counts = self._states(parameters, "step", scalar=True)
        self._average(means, gradients, BETAS[0])
        self._average(squares, torch._foreach_mul(gradients, gradients), BETAS[1])
        torch._foreach_add_(counts, [torch.as_tensor(self._share(1.0), device=counts[0].device)] * len(counts))
        count = counts[0].clamp_min(1)  # all began together; 0 is a first step that must change nothing
        corrections = [1 - beta**count for beta in BETAS]
        scales = torch._foreach_sqrt(torch._foreach_div(squares, corrections[1]))
        torch._foreach_add_(scales, EPSILON)
        return list(torch._foreach_div(torch._foreach_div(means, corrections[0]), scales))

    def _states(self, parameters: list[Tensor], name: str, *, scalar: bool = False) -> list[Tensor]:
        """One tensor of state per parameter, zero at first."""
        for parameter in parameters:
            if name not in self.state[parameter]:
                first = parameter.new_zeros(()) if scalar else torch.zeros_like(parameter)
                self.state[parameter][name] = first
        return [self.state[parameter][name] for parameter in parameters]

    def _average(self, averages: list[Tensor], values: list[Tensor] | tuple[Tensor, ...], decay: float) -> None:
        """Move exponential averages towards values."""
        moves = torch._foreach_sub(values, averages)
        torch._foreach_mul_(moves, self._share(1 - decay))
        torch._foreach_add_(averages, moves)


def orthogonalise_all(matrices: list[Tensor], *, few_calls: bool) -> list[Tensor]:
    """Bring the singular values of matrices of any shapes near 1.

    Args:
        few_calls: Pad with zeros, which an orthogonalised matrix keeps, so that two calls do for all shapes.
    """
    groups: dict[tuple[int, ...] | bool, list[int]] = defaultdict(list)
    for index, matrix in enumerate(matrices):
        groups[min(matrix.shape) <= NARROW if few_calls else tuple(matrix.shape)].append(index)
    found = list(matrices)
    for members in groups.values():
        wide = [m if m.shape[0] <= m.shape[1] else m.T for m in (matrices[i] for i in members)]
        rows, columns = (max(m.shape[axis] for m in wide) for axis in (0, 1))
        stacked = wide[0].new_zeros(len(wide), rows, columns)
        for place, matrix in zip(stacked, wide, strict=True):
            place[: matrix.shape[0], : matrix.shape[1]] = matrix
        for index, matrix, result in zip(members, wide, orthogonalise(stacked), strict=True):
            step = result[: matrix.shape[0], : matrix.shape[1]]
            found[index] = step if matrices[index].shape == matrix.shape else step.T
    return found


def orthogonalise(
    matrices: Tensor,  # [N, rows, columns]
) -> Tensor:  # [N, rows, columns], all singular values near 1
    """Bring the singular values of matrices near 1 and keep their directions, by a Newton-Schulz iteration."""
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.transpose(1, 2)
    x = x.to(torch.bfloat16 if x.is_cuda else torch.float32)
    x = x / (x.flatten(1).norm(dim=1).view(-1, 1, 1) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    x = x.to(matrices.dtype)
    return x if wide else x.transpose(1, 2)


def _is_hidden_matrix(name: str, parameter: Tensor) -> bool:
    """Whether these are the weights of an inner layer: those that read pixels or write the result are AdamW's."""
    return parameter.dim() in (2, 4) and parameter.shape[1] > 3 and "project" not in name
