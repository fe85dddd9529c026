"""Kernels compiled ahead, side by side: compiling takes half a minute one by one, and leaves Python free meanwhile."""

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import triton

from libranet.kernels.launch import collect_launches

MOST_THREADS = 16


def compile_ahead(work: Callable[[], None]) -> int:
    """Compile every kernel that some work launches, without launching any. Triton keeps them on disk for later runs."""
    with collect_launches() as launches:
        work()
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "compile") as pool:
        with triton.AsyncCompileMode(pool):
            # The refiner's kernels come last in a step and take longest.
            promised = [one.compile() for one in reversed(launches)]
        kernels = [one.result() if hasattr(one, "result") else one for one in promised]
        list(pool.map(_build_launcher, {id(kernel): kernel for kernel in kernels}.values()))
    return len(launches)


def _build_launcher(kernel: Any) -> None:
    """Compile the C program that launches a kernel. Triton finds it on disk when the kernel first runs."""
    with contextlib.suppress(Exception):  # whatever is wrong, the first run says it
        triton.runtime.driver.active.launcher_cls(kernel.src, kernel.metadata)
