"""The blind measures of real haze on what a user gets: a folder of videos in, as many rows out.

    PYTHONPATH=src python3 benchmarks/real_clips.py CLIPS [--model CHECKPOINT]

CLIPS is a folder of videos. Prints, per clip, contrast gain, flicker, jump and drift as `docs/evaluation.md` defines
them, those of the input in brackets, and on how many clips flicker is at most 1.1 and the jump at most twice the
input's plus one level.
"""

import argparse
import tempfile
from pathlib import Path

from libranet.evaluation.clips import open_dataset
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import PACKAGED_NAME, open_restorer
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import prepare_scores
from libranet.evaluation.summary import summarise_clip

CALM = 1.1


def main() -> None:
    """Dehaze and measure clip by clip."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clips", type=Path)
    parser.add_argument("--model", help="base, small or a checkpoint; the package's default without it")
    options = parser.parse_args()
    scores = prepare_scores(choose_metrics("contrast_gain,flicker,jump,jump_input,drift,drift_input"), paired=False)
    model = open_restorer(options.model or PACKAGED_NAME, device="auto")
    calm = still = 0
    clips = open_dataset(options.clips)
    print("| clip | contrast gain | flicker | jump (input's) | drift (input's) |\n|---|---|---|---|---|")
    for clip in clips:
        with tempfile.TemporaryDirectory() as folder:
            (result,) = evaluate([clip], [model], scores, ResultStore(Path(folder)), subject=model.name, panels=False)
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
