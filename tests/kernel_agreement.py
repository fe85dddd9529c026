"""Holding a kernel against its reference implementation, which has the same name and parameters."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def poison(*shape: int, device: str, dtype: torch.dtype = torch.float16) -> Tensor:
    """A tensor to be written, which shows where nothing was."""
    return torch.full(shape, float("nan"), device=device, dtype=dtype)


def assert_agree(
    reference: Callable[..., None],
    kernel: Callable[..., None],
    inputs: dict[str, Any],
    written: dict[str, Tensor],
    *,
    atol: float,
    rtol: float,
    sums_atol: float = 2e-2,
    **kernel_only: object,
) -> None:
    """Call both with the same arguments and compare all they write; partial sums by their total."""
    assert reference.__name__ == kernel.__name__
    wanted = {name: torch.zeros_like(out, dtype=torch.float64) for name, out in written.items()}
    reference(**inputs, **wanted)
    kernel(**inputs, **written, **kernel_only)
    for name, out in written.items():
        if name == "sums":
            torch.testing.assert_close(out.double().sum(-3), wanted[name].sum(-3), atol=sums_atol, rtol=1e-3)
        else:
            torch.testing.assert_close(out.double(), wanted[name], atol=atol, rtol=rtol)
