"""Kernels made ready before they are launched: loaded as shipped, or compiled by Triton side by side."""

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from libranet.kernels.launch import Launch, collect_launches

MOST_THREADS = 16


def compile_ahead(work: Callable[[], None]) -> int:
    """Make every kernel ready that some work launches, without launching any. Returns how many had to be compiled."""
    with collect_launches() as launches:
        work()
    unknown = [one for one in launches if one.find_shipped() is None]
    if unknown:
        _compile(unknown)
    return len(unknown)


def _compile(launches: list[Launch]) -> None:
    """Compiling takes half a minute one by one, and leaves Python free meanwhile. Triton keeps the results on disk."""
    import triton

    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "compile") as pool:
        with triton.AsyncCompileMode(pool):
            # The refiner's kernels come last in a step and take longest.
            promised = [one.compile() for one in reversed(launches)]
        kernels = [one.result() if hasattr(one, "result") else one for one in promised]
        list(pool.map(_build_launcher, {id(kernel): kernel for kernel in kernels}.values()))


def _build_launcher(kernel: Any) -> None:
    """Compile the C program that launches a kernel. Triton finds it on disk when the kernel first runs."""
    from triton.runtime import driver

    with contextlib.suppress(Exception):  # whatever is wrong, the first run says it
        driver.active.launcher_cls(kernel.src, kernel.metadata)
