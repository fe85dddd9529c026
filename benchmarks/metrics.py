"""Time and memory of the metrics on a 4K clip.

    PYTHONPATH=src python benchmarks/metrics.py --size 3840x2160 --frames 25 --metrics psnr,ssim,lpips,tof

Prints seconds per metric and frame, and the peak of the process's memory. The clip is made as it is read: a textured
image that the camera pans over, with haze on top, so no file and no data set are needed.
"""

import argparse
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from libranet.cli.units import parse_size
from libranet.evaluation.clips import EvalClip
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import open_restorers
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import prepare_scores
from libranet.evaluation.summary import summarise_clip
from machine import describe_machine

STEP = 6
"""Pixels that the camera moves per frame."""


@dataclass(frozen=True)
class PannedFrames:
    """Frames cut out of one large image, further to the right each time."""

    image: np.ndarray  # [H, W + STEP * count, 3] RGB 8 bit
    count: int
    hazy: bool

    def __len__(self) -> int:
        return self.count

    @property
    def size(self) -> tuple[int, int]:
        return self.image.shape[1] - STEP * self.count, self.image.shape[0]

    def read(self, index: int, box: None = None) -> np.ndarray:
        left = STEP * index
        frame = self.image[:, left : left + self.size[0]]
        return cv2.addWeighted(frame, 0.6, np.full_like(frame, 225), 0.4, 0) if self.hazy else frame.copy()


def make_image(width: int, height: int) -> np.ndarray:
    """Texture at every scale, like a photograph's: noise of halving strength at doubling size."""
    random = np.random.default_rng(0)
    image = np.zeros((height, width, 3), np.float32)
    for octave in range(8):
        h, w = max(2, height >> octave), max(2, width >> octave)
        noise = random.standard_normal((h, w, 3)).astype(np.float32)
        image += cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC) * 2.0 ** (octave - 7)
    return np.clip(110 + 55 * image, 0, 255).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="3840x2160")
    parser.add_argument("--frames", type=int, default=25)
    parser.add_argument("--metrics", default="psnr,ssim,lpips,tof")
    parser.add_argument("--flow", choices=("auto", "raft", "dis"), default="auto")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    width, height = parse_size(options.size)
    image = make_image(width + STEP * options.frames, height)
    clip = EvalClip("pan", PannedFrames(image, options.frames, True), PannedFrames(image, options.frames, False))
    scores = prepare_scores(choose_metrics(options.metrics), paired=True, flow=options.flow, device=options.device)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder))
        restorers = open_restorers(["identity"])
        results = evaluate([clip], restorers, scores, store, subject="identity", device=options.device)
    total = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(", ".join(f"{name} {value}" for name, value in describe_machine().items()), f"on {options.device}")
    print(f"{options.frames} frames of {width}x{height}: {total:.1f} s in all, peak memory {peak:.2f} GiB")
    for name, seconds in scores.seconds.items():
        print(f"  {name:12s} {seconds:8.1f} s  {seconds / options.frames:7.3f} s per frame  {seconds / total:6.1%}")
    for name, reason in scores.not_measured.items():
        print(f"  {name:12s} not measured: {reason}")
    for name, estimator in scores.estimators.items():
        print(f"  {name:12s} by {estimator}")
    for name, value in summarise_clip(results[0]).values.items():
        print(f"  {name:12s} {value:.6f}")


if __name__ == "__main__":
    main()
