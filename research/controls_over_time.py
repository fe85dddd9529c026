"""Draw docs/images/controls-over-time.png: what key frames of the strength and --steady do to a clip.

python research/controls_over_time.py CLIP -o docs/images/controls-over-time.png [--frames 40] [--width 480]
"""

import argparse
from pathlib import Path

import cv2
import matplotlib.pyplot as plt
import numpy as np

from libranet.engine import DehazeOptions, load_network
from libranet.engine.adjust import Adjustments
from libranet.engine.image_files import restore_images
from libranet.images import Image

RATE = 25.0


def read_frames(path: Path, count: int, width: int) -> list[np.ndarray]:
    """Read the first frames of a clip, RGB, made small."""
    capture = cv2.VideoCapture(str(path))
    frames = []
    while len(frames) < count and (found := capture.read())[0]:
        height = round(found[1].shape[0] * width / found[1].shape[1] / 2) * 2
        frames.append(cv2.resize(found[1], (width, height), interpolation=cv2.INTER_AREA)[..., ::-1].copy())
    return frames


def main() -> None:
    """Restore the clip in three ways and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("clip", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--width", type=int, default=480)
    arguments = parser.parse_args()
    network = load_network(device="cpu")
    frames = read_frames(arguments.clip, arguments.frames, arguments.width)
    length = (len(frames) - 1) / RATE
    keys = ((0.0, 0.0), (length, 1.0))
    ways = {
        "keys": DehazeOptions(adjust=Adjustments(strength_keys=keys)),
        "--steady 0": DehazeOptions(steady=0.0),
        "--steady 1 (the default)": DehazeOptions(steady=1.0),
    }
    given = [(Image(frame), index / RATE) for index, frame in enumerate(frames)]
    done = {
        name: [image.samples for image, _ in restore_images(given, network, way, rate=RATE)]
        for name, way in ways.items()
    }
    shown = np.linspace(0, len(frames) - 1, 5).round().astype(int)
    figure = plt.figure(figsize=(10, 5.2), dpi=110)
    grid = figure.add_gridspec(2, len(shown), height_ratios=(1, 1.6))
    for place, index in enumerate(shown):
        axes = figure.add_subplot(grid[0, place])
        axes.imshow(done["keys"][index])
        axes.set_title(f"{index / RATE:.1f} s: strength {index / (len(frames) - 1):.2f}", fontsize=8)
        axes.axis("off")
    axes = figure.add_subplot(grid[1, :])
    for name in list(ways)[1:]:
        change = [float(after.mean()) - float(before.mean()) for after, before in zip(done[name], frames, strict=True)]
        axes.plot(np.arange(len(frames)) / RATE, change, label=name)
    axes.set_xlabel("seconds")
    axes.set_ylabel("change of mean, of 255")
    axes.legend(fontsize=8)
    figure.suptitle(f"--strength 0:0,{length:g}:1 above, --steady below", fontsize=9)
    figure.tight_layout()
    figure.savefig(arguments.output)


if __name__ == "__main__":
    main()
