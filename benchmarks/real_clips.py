"""The blind measures of real haze on what a user gets: a file in, a lossless file of 8 bits out.

    PYTHONPATH=src python3 benchmarks/real_clips.py CLIPS [--model CHECKPOINT]

CLIPS is a folder of videos. `libranet eval` measures what the network gives, in floating point; rounding to the samples
of a file adds to the flicker of calm clips. Prints, per clip, contrast gain, flicker, jump and drift as
`docs/evaluation.md` defines them, those of the input in brackets, and on how many clips flicker is at most 1.1 and the
jump at most twice the input's plus one level.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from libranet.data.frames import VideoFrames
from libranet.engine import DehazeOptions, dehaze_video
from libranet.evaluation.clips import open_dataset
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import TruthRestorer
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import prepare_scores
from libranet.evaluation.summary import summarise_clip

CALM = 1.1


class FileRestorer(TruthRestorer):
    """The frames of a file that was restored before."""

    name = fingerprint = "file"
    sees: Literal["hazy", "clear"] = "hazy"

    def __init__(self, path: Path) -> None:
        self._frames = VideoFrames(path).read_all()

    def push(self, frame: Tensor) -> list[Tensor]:
        """Return the file's next frame."""
        return [torch.from_numpy(next(self._frames)).permute(2, 0, 1).to(frame.device) / 255]


def main() -> None:
    """Dehaze and measure clip by clip."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clips", type=Path)
    parser.add_argument("--model", help="base, small or a checkpoint; the package's default without it")
    options = parser.parse_args()
    scores = prepare_scores(choose_metrics("contrast_gain,flicker,jump,jump_input,drift,drift_input"), paired=False)
    calm = still = 0
    clips = open_dataset(options.clips)
    print("| clip | contrast gain | flicker | jump (input's) | drift (input's) |\n|---|---|---|---|---|")
    for clip in clips:
        assert isinstance(clip.hazy, VideoFrames), f"{clip.name} is no video"
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "out.mkv"
            dehaze_video(clip.hazy.path, output, model=options.model, options=DehazeOptions(codec="ffv1"))
            store = ResultStore(Path(folder) / "results")
            (result,) = evaluate([clip], [FileRestorer(output)], scores, store, subject="file", panels=False)
        found = summarise_clip(result).values
        calm += found["flicker"] <= CALM
        still += found["jump"] <= 2 * found["jump_input"] + 1
        print(
            f"| {clip.name} | {found['contrast_gain']:.2f} | {found['flicker']:.3f} | "
            f"{found['jump']:.2f} ({found['jump_input']:.2f}) | {found['drift']:.1f} ({found['drift_input']:.1f}) |",
            flush=True,
        )
    print(f"\nflicker at most {CALM:g}: {calm} of {len(clips)}; jump within the limit: {still} of {len(clips)}")


if __name__ == "__main__":
    main()
