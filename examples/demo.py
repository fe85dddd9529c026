"""`make demo`: render a short foggy clip, dehaze it with `dehaze_video`, and show before and after as a picture.

    python examples/demo.py [--output demo] [--model weights.safetensors] [--size 640x360] [--frames 24]

Needs no download: the scene is rendered, and its fog is laid by the scattering model with the scene's exact depth.
"""

import argparse
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from libranet.cli.frame_size import parse_size
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.image_files import write_preview
from libranet.models import LiBrANet, load_model, packaged_weights
from libranet.scenes import render_clip
from libranet.synth.scattering import add_haze, transmission

SEED = 4
VISIBILITY = 150.0
"""Metres at which 5 % of the light arrives."""
AIRLIGHT = 0.82


def write_foggy_clip(path: Path, *, width: int, height: int, frames: int, fps: int = 25) -> None:
    """A walk through a rendered landscape in fog, as H.264."""
    beta = 3.0 / VISIBILITY
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"crf": "16"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = Fraction(1, fps)
        for index, view in enumerate(render_clip(SEED, frames=frames, width=width, height=height, fps=fps)):
            hazy = add_haze(view.image[None], transmission(view.depth[None], beta), AIRLIGHT)[0]
            picture = (hazy.permute(1, 2, 0) * 255).round().byte().numpy()
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts = index
            container.mux(stream.encode(frame))
            if sys.stderr.isatty():
                print(f"\rrendering the foggy clip: {index + 1}/{frames} frames", end="", file=sys.stderr)
        container.mux(stream.encode(None))
    if sys.stderr.isatty():
        print(file=sys.stderr)


def choose_network(path: str | None) -> tuple[LiBrANet, bool]:
    """The network to show, and whether it has been trained."""
    if path is not None or packaged_weights().is_file():
        return load_model(path), True
    print("The package has no trained weights yet: the demo runs the untrained network, which changes nothing.")
    return LiBrANet().eval(), False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="demo", help="folder for the results")
    parser.add_argument("--model", default=None, help="a checkpoint; without it, the weights of the package")
    parser.add_argument("--size", default="640x360")
    parser.add_argument("--frames", type=int, default=24)
    arguments = parser.parse_args()
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    width, height = parse_size(arguments.size)
    network, trained = choose_network(arguments.model)
    hazy, clear, split, sheet = (folder / name for name in ("foggy.mp4", "clear.mp4", "split.mp4", "before_after.png"))

    print("rendering a walk down a foggy street, then dehazing it")
    write_foggy_clip(hazy, width=width, height=height, frames=arguments.frames)
    report = dehaze_video(hazy, clear, model=network, overwrite=True)
    dehaze_video(hazy, split, model=network, options=DehazeOptions(compare="split"), overwrite=True)
    write_preview(hazy, sheet, network, count=2, overwrite=True)

    print(f"{report.frames} frames, {width}x{height}, {report.as_json()['fps']:.1f} fps from file to file")
    for path, what in ((hazy, "the foggy clip"), (clear, "dehazed"), (split, "both halves"), (sheet, "look at this")):
        print(f"  {path}: {what}")
    if not trained:
        print("Note: without trained weights, before and after are the same picture.")


if __name__ == "__main__":
    main()
