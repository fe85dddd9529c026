"""Draw docs/images/controls.jpg: one frame of a hazy clip, or a photo, with each control of `libranet dehaze`.

python research/controls_sheet.py CLIP -o docs/images/controls.jpg [--frame 0] [--width 560]
"""

import argparse
import tempfile
from pathlib import Path

import cv2
import numpy as np

from libranet.engine import DehazeOptions, load_network
from libranet.engine.adjust import Adjustments
from libranet.engine.image_files import restore_images
from libranet.images import Image

TITLE = 28
"""Lines of the strip above each image."""


def read_frame(path: Path, number: int, width: int) -> np.ndarray:
    """Read one frame of a clip, RGB, made small."""
    capture = cv2.VideoCapture(str(path))
    capture.set(cv2.CAP_PROP_POS_FRAMES, number)
    found, frame = capture.read()
    if not found:
        raise SystemExit(f"{path} has no frame {number}")
    height = round(frame.shape[0] * width / frame.shape[1] / 2) * 2
    return cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA)[..., ::-1].copy()


def titled(image: np.ndarray, title: str) -> np.ndarray:
    """Put a strip with a title above an image."""
    strip = np.full((TITLE, image.shape[1], 3), 24, np.uint8)
    cv2.putText(strip, title, (6, TITLE - 9), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
    return np.concatenate([strip, image])


def main() -> None:
    """Restore the frame with each control and draw all results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("clip", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--frame", type=int, default=0)
    parser.add_argument("--width", type=int, default=560)
    arguments = parser.parse_args()
    network = load_network(device="cpu")
    frame = read_frame(arguments.clip, arguments.frame, arguments.width)
    with tempfile.TemporaryDirectory() as folder:
        ramp = str(Path(folder) / "ramp.png")
        cv2.imwrite(ramp, np.tile(np.linspace(0, 255, frame.shape[1]).astype(np.uint8), (frame.shape[0], 1)))
        ways = {
            "network": Adjustments(),
            "--exposure keep": Adjustments(exposure="keep"),
            "--protect-sky 1": Adjustments(protect_sky=1.0),
            "--protect-shadows 1": Adjustments(protect_shadows=1.0),
            "--color 0": Adjustments(color=0.0),
            "--color 1.5": Adjustments(color=1.5),
            "--mask ramp.png (black to white)": Adjustments(mask=ramp),
        }
        shown = [titled(frame, "input")]
        for title, way in ways.items():
            options = DehazeOptions(adjust=way, backend="plain")
            ((clear, _),) = restore_images([(Image(frame), 0.0)], network, options, rate=25.0)
            shown.append(titled(clear.samples, title))
    rows = [np.concatenate(shown[at : at + 2], axis=1) for at in range(0, len(shown), 2)]
    cv2.imwrite(str(arguments.output), np.concatenate(rows)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])


if __name__ == "__main__":
    main()
