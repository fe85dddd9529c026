"""Kernels compiled ahead, side by side: compiling takes half a minute one by one, and leaves Python free meanwhile."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from libranet.kernels.launch import collect_launches

MOST_THREADS = 16


def compile_ahead(work: Callable[[], None], device: torch.device) -> int:
    """Compile every kernel that some work launches, without launching any. Triton keeps them on disk for later runs.

    Args:
        work: Launches kernels through `libranet.kernels.launch`.
        device: The GPU to compile for.

    Returns:
        How many launches there were.
    """
    with collect_launches() as launches:
        work()

    def choose_device() -> None:
        torch.cuda.set_device(device)  # a thread begins on the first GPU

    threads = min(MOST_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads, "compile", initializer=choose_device) as pool:
        for _ in pool.map(lambda launch: launch.compile(), launches):
            pass
    return len(launches)
