"""What a dark dashboard in front does to the road behind it: the same clip, with one painted over its lower third.

    PYTHONPATH=src python3 benchmarks/dashboard.py road_drive.mp4 [--model CHECKPOINT ...] [--frames 48]

The clip at 360 lines, restored as video with the default options. Prints the dark channel (least colour within 7x7) of
a band of the road just above the dashboard, in levels of 255, mean over the frames: of the input, restored without the
dashboard, with it, and by how much the two differ.
"""

import argparse
from pathlib import Path

import cv2
import numpy as np

from libranet.engine import DehazeOptions, load_network
from libranet.engine.image_files import restore_images
from libranet.images import Image
from libranet.network import Network

LINES, RATE = 360, 25.0
ROAD = slice(162, 238)
"""Rows of the road that the dashboard leaves free."""
LEVEL = 15
"""Of the dashboard, nearly black."""


def read_clip(path: Path, count: int) -> np.ndarray:  # [N, H, W, 3] uint8, RGB
    """Read the first frames of a clip, made small."""
    capture, frames = cv2.VideoCapture(str(path)), []
    while len(frames) < count and (found := capture.read())[0]:
        width = round(found[1].shape[1] * LINES / found[1].shape[0] / 2) * 2
        frames.append(cv2.resize(found[1], (width, LINES), interpolation=cv2.INTER_AREA)[..., ::-1])
    return np.stack(frames)


def dashboard(width: int) -> np.ndarray:  # [H, W] bool
    """Where it is: a flat arch along the lower edge."""
    y, x = np.mgrid[0:LINES, 0:width]
    return ((y - LINES * 1.02) / (LINES * 0.34)) ** 4 + ((x - width / 2) / (width * 0.6)) ** 4 < 1


def dark_channel(frames: np.ndarray, free: np.ndarray) -> float:
    """Mean over frames and over the road's free pixels."""
    road = [cv2.erode(frame.min(2), np.ones((7, 7), np.uint8))[ROAD][free[ROAD]].mean() for frame in frames]
    return float(np.mean(road))


def restore(frames: np.ndarray, network: Network) -> np.ndarray:
    """Restore a clip as the product does."""
    given = [(Image(frame), index / RATE) for index, frame in enumerate(frames)]
    return np.stack([image.samples for image, _ in restore_images(given, network, DehazeOptions(), rate=RATE)])


def main() -> None:
    """Print a row for every checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("clip", type=Path)
    parser.add_argument("--model", action="append", help="checkpoint; the package's own by default")
    parser.add_argument("--frames", type=int, default=48)
    options = parser.parse_args()
    plain = read_clip(options.clip, options.frames)
    covered = dashboard(plain.shape[2])
    painted = np.where(covered[..., None], np.uint8(LEVEL), plain)
    print(f"{len(plain)} frames, road of the input {dark_channel(plain, ~covered):.1f}")
    for model in options.model or ["base"]:
        network = load_network(model, device="cpu")
        free, behind = (dark_channel(restore(clip, network), ~covered) for clip in (plain, painted))
        print(f"{model}: without {free:.1f}, with the dashboard {behind:.1f}, {behind / free - 1:+.0%}")


if __name__ == "__main__":
    main()
