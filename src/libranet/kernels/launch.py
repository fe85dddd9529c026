"""How kernels are launched: run at once, or collected, so that they can be compiled ahead and side by side."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Launch:
    """A launch that was collected and not run."""

    kernel: Any  # a function compiled by Triton
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def compile(self) -> Any:
        """Compile the kernel for these arguments, or find it in the cache."""
        return self.kernel.warmup(*self.arguments, grid=self.grid, **self.options)


_collected: ContextVar[list[Launch] | None] = ContextVar("collected", default=None)


def launch(kernel: Any, grid: tuple[int, ...]) -> Callable[..., None]:
    """Return what launches the kernel: `launch(kernel, grid)(*arguments, **options)`."""

    def start(*arguments: Any, **options: Any) -> None:
        launches = _collected.get()
        if launches is None:
            kernel[grid](*arguments, **options)
        else:
            launches.append(Launch(kernel, grid, arguments, options))

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
