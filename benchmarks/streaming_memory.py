"""Peak memory of a streaming step on the CPU, in float32.

    python benchmarks/streaming_memory.py [--width 3840 --height 2160 --frames 7 --limit-gb 3]

Exits with 1 when the peak is above the limit. The peak is the process's own high-water mark, Python and torch included.
"""

import argparse
import resource
import sys
import time

import torch

from libranet.network import LiBrANet, start_stream, stream_step
from machine import describe_machine


def peak_gb() -> float:
    """High-water mark of this process's resident memory, in 10^9 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=3840)
    parser.add_argument("--height", type=int, default=2160)
    parser.add_argument("--frames", type=int, default=7, help="enough to fill the window and go on")
    parser.add_argument("--limit-gb", type=float, default=3.0)
    options = parser.parse_args()

    for key, value in describe_machine().items():
        print(f"{key:>8}: {value}")
    model = LiBrANet().eval()
    print(f"before the first frame: {peak_gb():.2f} GB")
    state = start_stream(model)
    for index in range(options.frames):
        frame = torch.rand(1, 3, options.height, options.width)
        begin = time.perf_counter()
        _, state = stream_step(model, frame, state)
        print(f"frame {index}: {time.perf_counter() - begin:.2f} s, peak so far {peak_gb():.2f} GB", flush=True)
    peak = peak_gb()
    verdict = "within" if peak <= options.limit_gb else "ABOVE"
    print(f"peak {peak:.2f} GB at {options.width}x{options.height}: {verdict} the limit of {options.limit_gb:.1f} GB")
    return 0 if peak <= options.limit_gb else 1


if __name__ == "__main__":
    sys.exit(main())
