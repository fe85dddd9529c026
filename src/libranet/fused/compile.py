"""Kernels compiled ahead, side by side: compiling takes half a minute one by one, and leaves Python free meanwhile."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import triton

from libranet.kernels.launch import collect_launches

MOST_THREADS = 16


def compile_ahead(work: Callable[[], None]) -> int:
    """Compile every kernel that some work launches, without launching any. Triton keeps them on disk for later runs.

    Args:
        work: Launches kernels through `libranet.kernels.launch`.

    Returns:
        How many launches there were.
    """
    with collect_launches() as launches:
        work()
    threads = min(MOST_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads, "compile") as pool, triton.AsyncCompileMode(pool):
        for one in launches:
            one.compile()
    return len(launches)
