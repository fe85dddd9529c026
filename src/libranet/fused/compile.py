"""Kernels compiled ahead, side by side: compiling takes half a minute one by one, and leaves Python free meanwhile."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import triton

from libranet.kernels.launch import collect_launches

MOST_THREADS = 16


def compile_ahead(work: Callable[[], None]) -> int:
    """Compile every kernel that some work launches, without launching any. Triton keeps them on disk for later runs.

    Args:
        work: Launches kernels through `libranet.kernels.launch`, on the current CUDA device.

    Returns:
        How many launches there were.
    """
    with collect_launches() as launches:
        work()
    device = torch.cuda.current_device()  # of this thread; the others begin with device 0

    def load(kernel: Any) -> None:
        with torch.cuda.device(device):
            kernel.run  # noqa: B018  # compiles what launches it, with the C compiler, and loads both

    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "compile") as pool:
        with triton.AsyncCompileMode(pool):
            # The refiner's kernels come last in a step and take longest.
            promised = [one.compile() for one in reversed(launches)]
        kernels = [one.result() if hasattr(one, "result") else one for one in promised]
        list(pool.map(load, {id(kernel): kernel for kernel in kernels}.values()))
    return len(launches)
