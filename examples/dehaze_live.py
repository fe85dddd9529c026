"""Dehaze a live source: every frame comes back at once, and a cut starts afresh."""

import time
from collections.abc import Iterator

import av
import numpy as np

from libranet import Dehazer
from libranet.page import example_path


def camera() -> Iterator[np.ndarray]:  # [H, W, 3], uint8, RGB
    """Stands in for a camera, a game or a network stream."""
    with av.open(str(example_path())) as video:
        for frame in video.decode(video=0):
            yield frame.to_ndarray(format="rgb24")


dehazer = Dehazer(live=True)
for index, hazy in enumerate(camera()):
    if index == 6:
        break
    start = time.perf_counter()
    (clear,) = dehazer.push(hazy, cut=index == 3)  # pretend that a new shot begins with frame 3
    latency = (time.perf_counter() - start) * 1000
    print(f"frame {index}: {latency:.0f} ms, mean {hazy.mean():.1f} -> {clear.mean():.1f}")
