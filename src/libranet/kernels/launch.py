"""How kernels are launched: as shipped where this GPU has them so, otherwise compiled by Triton; or only collected.

Nothing here imports Triton before a kernel has to be compiled: it takes time, and users need not have it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from libranet.kernels import shipped
from libranet.kernels.shipped import Blocks

__all__ = ["Blocks", "Launch", "collect_launches", "launch", "processors"]


@dataclass(frozen=True)
class Launch:
    """A launch that may be run now, or was collected."""

    name: str
    """Of the kernel, as it is imported, from `libranet.kernels` on."""
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def find_shipped(self) -> shipped.Binary | None:
        """The kernel as it was shipped, loaded onto the current GPU."""
        return shipped.find(self.name, self.arguments, self.options)

    def run(self) -> None:
        binary = self.find_shipped()
        if binary is None:
            self._function[self.grid](*self._for_triton, **self.options)
        else:
            binary.launch(self.grid, self.arguments)

    def compile(self) -> Any:
        """Compile the kernel for these arguments, or find it in Triton's cache."""
        return self._function.warmup(*self._for_triton, grid=self.grid, **self.options)

    @property
    def _function(self) -> Any:
        module, _, name = self.name.rpartition(".")
        return getattr(import_module(f"libranet.kernels.{module}"), name)

    @property
    def _for_triton(self) -> list[Any]:
        return [_descriptor(value) if isinstance(value, Blocks) else value for value in self.arguments]


_collected: ContextVar[list[Launch] | None] = ContextVar("collected", default=None)


def launch(name: str, grid: tuple[int, ...]) -> Callable[..., None]:
    """Return what launches a kernel: `launch(name, grid)(*arguments, **options)`.

    Args:
        name: As in `Launch`.
    """

    def start(*arguments: Any, **options: Any) -> None:
        one, launches = Launch(name, grid, arguments, options), _collected.get()
        if launches is None:
            one.run()
        else:
            launches.append(one)

    return start


@contextmanager
def collect_launches() -> Iterator[list[Launch]]:
    """Collect the launches of this thread instead of running them."""
    launches: list[Launch] = []
    token = _collected.set(launches)
    try:
        yield launches
    finally:
        _collected.reset(token)


def processors(device: torch.device) -> int:
    """Multiprocessors of a GPU."""
    if device.type != "cuda":
        return 1  # kernels are compiled for GPUs that are not here
    return torch.cuda.get_device_properties(device).multi_processor_count


def _descriptor(blocks: Blocks) -> Any:
    from triton.experimental.gluon.language import NVMMASharedLayout
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    layout = NVMMASharedLayout(shipped.SWIZZLE_BYTES, 16, len(blocks.shape))
    tensor: Tensor = blocks.tensor
    return TensorDescriptor.from_tensor(tensor, list(blocks.shape), layout)
