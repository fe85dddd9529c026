"""`make demo`: dehaze a short clip of real mist and show before and after in one image.

    python examples/demo.py [--output demo] [--model weights.safetensors]

The clip is a camera move over a photograph of a forest in mist: "Solitude" by Gavin Ash,
CC BY-SA 3.0 (src/libranet/page/NOTICE.md).
"""

import argparse
import os
import sys
import webbrowser
from pathlib import Path

import av
import cv2
import numpy as np

from libranet import dehaze_video
from libranet.engine import Progress
from libranet.page import example_path
from libranet.video.visualize import contact_sheet

CLIP = example_path()
MOMENTS = (0.2, 0.8)
"""The moments of the clip that the image shows, from 0 (start) to 1 (end)."""


def show(step: Progress) -> None:
    if sys.stderr.isatty():
        print(f"\rdehazing: {step.frames}/{step.total or '?'} frames", end="", file=sys.stderr)


def read_frames(path: Path) -> list[np.ndarray]:  # each [H, W, 3], uint8, RGB
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def has_screen() -> bool:
    return sys.platform in ("darwin", "win32") or any(os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for the results")
    parser.add_argument("--model", help="a checkpoint; by default the weights of the package")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    clear, image = arguments.output / "clear.mp4", arguments.output / "before_after.png"

    report = dehaze_video(CLIP, clear, model=arguments.model, overwrite=True, progress=show)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    hazy_frames, clear_frames = read_frames(CLIP), read_frames(clear)
    chosen = [round(moment * (len(hazy_frames) - 1)) for moment in MOMENTS]
    pairs = [(hazy_frames[index], clear_frames[index], f"frame {index}") for index in chosen]
    sheet = contact_sheet(
        pairs, title="Real mist, dehazed by LiBrA-Net. Photo: Gavin Ash, CC BY-SA 3.0", cell_width=960
    )
    cv2.imwrite(str(image), cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR))

    print(f"{report.frames} frames of {report.width}x{report.height} in {report.seconds:.1f} s")
    print(f"  {CLIP}: the clip with mist\n  {clear}: dehazed\nLook at {image.resolve()}")
    if sys.stdout.isatty() and has_screen():
        webbrowser.open(image.resolve().as_uri())


if __name__ == "__main__":
    main()
