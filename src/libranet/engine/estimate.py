"""How long a run will take on a CPU, said before it starts."""

import time

import torch

from libranet.engine.options import DehazeOptions
from libranet.network import LiBrANet, Network
from libranet.runtime import make_backend
from libranet.runtime.interface import rgb_frames

_SIZES = ((320, 184), (640, 368))
"""Frames that are restored to find out: the encoders cost the same at every size, the rest grows with the pixels."""
_TRIES = 2


def estimate_seconds(
    network: Network, options: DehazeOptions, *, frames: int | None, width: int, height: int
) -> float | None:
    """Restore a few small frames, and return how many seconds a run should take.

    Args:
        network: The network, on its device.
        options: How to restore.
        frames: Of the run.
        width: Of a frame.
        height: Of a frame.

    Returns:
        None where the number of frames is unknown, and on GPUs, where the encoder bounds a run and the first seconds of
        it say more.
    """
    if frames is None or network.device.type != "cpu" or not isinstance(network, LiBrANet):
        return None
    small, large = ((w * h, _seconds_per_frame(network, options, w, h)) for w, h in _SIZES)
    per_pixel = max(0.0, (large[1] - small[1]) / (large[0] - small[0]))
    return frames * (large[1] + per_pixel * (width * height - large[0]))


def _seconds_per_frame(network: LiBrANet, options: DehazeOptions, width: int, height: int) -> float:
    backend = make_backend(network, strength=options.strength, live=True, backend=options.backend)
    frame = rgb_frames(torch.rand(1, 3, height, width))
    backend.push(frame)  # prepares for the size
    best = float("inf")
    for _ in range(_TRIES):
        begin = time.perf_counter()
        backend.push(frame)
        best = min(best, time.perf_counter() - begin)
    return best


def format_duration(seconds: float) -> str:
    """Return a time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
