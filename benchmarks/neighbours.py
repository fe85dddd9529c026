"""What the frames around a frame are worth: the same network with less and less of them.

    PYTHONPATH=src:benchmarks python3 benchmarks/neighbours.py DATASET [--model CHECKPOINT] [--frames 40] [--clips 4]

DATASET is anything that `libranet eval` reads; clips must move. Rows:

alone       every frame as a window of itself five times, no filter over time
wrong       the frame between neighbours of another scene (its own image upside down): what a network that looks at
            them must get wrong
window      the true neighbours, no filter
product     the true neighbours and the filter over time, as `libranet dehaze` and `libranet eval` do it
input       the hazy frames themselves
truth       the clear frames, where there are any: their tOF is the flow's errors, motion that it cannot follow, noise

Columns: PSNR where there is ground truth; tOF, the difference to the previous frame along the flow of the clear frames
(of the input, without them); how much less of it than `alone`; tOF above the truth's, which is below zero where the
result has so much less contrast than the truth that this hides its flicker.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from libranet.engine.frame_sources import FrameSource
from libranet.evaluation.clips import EvalFrame, open_dataset
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import NetworkRestorer, Restorer, TruthRestorer
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import prepare_scores
from libranet.evaluation.summary import summarise_clip, summarise_models
from libranet.network import LiBrANet, load_model


class WindowRestorer:
    """Frames restored one by one, each in a window made of itself."""

    fingerprint, backend = "", "plain"

    def __init__(self, network: LiBrANet, name: str, *, wrong: bool) -> None:
        self.network, self.name, self.wrong = network, name, wrong

    def restore(self, source: FrameSource, frames: Iterator[EvalFrame]) -> Iterator[Tensor]:
        """Restore the frames."""
        for frame in frames:
            yield (self._restore(frame.hazy) * 255).round() / 255

    @torch.no_grad()
    def _restore(self, frame: Tensor) -> Tensor:
        if not self.wrong:
            return self.network.predict(frame[None, None], still=True).image[0]
        window = frame.flip(1).repeat(self.network.config.window, 1, 1, 1)
        window[self.network.config.window // 2] = frame
        return self.network.predict(window[None]).image[0]


class InputRestorer:
    """The hazy frames as they are."""

    name = fingerprint = "input"
    backend = ""

    def restore(self, source: FrameSource, frames: Iterator[EvalFrame]) -> Iterator[Tensor]:
        """Return the hazy frames."""
        return (frame.hazy for frame in frames)


def rows(model: str | None) -> list[Restorer]:
    """The same network with all of its neighbours, and with fewer."""
    network = load_model(model)
    return [
        WindowRestorer(network, "alone", wrong=False),
        WindowRestorer(network, "wrong", wrong=True),
        NetworkRestorer(network, "window", "", steady=0.0),
        NetworkRestorer(network, "product", ""),
        InputRestorer(),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--model", help="base, small or a checkpoint; the package's default without it")
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--clips", type=int)
    options = parser.parse_args()
    clips = open_dataset(options.dataset, split="all")[: options.clips]
    paired = all(clip.clear is not None for clip in clips)
    restorers = rows(options.model) + ([TruthRestorer()] if paired else [])
    scores = prepare_scores(choose_metrics("psnr,tof" if paired else "tof"), paired=paired, flow="dis")
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder))
        results = evaluate(
            clips, restorers, scores, store, subject="product", limit_frames=options.frames, panels=False
        )
    found = summarise_models([summarise_clip(result) for result in results])
    tof = {name: metrics["tof"].mean for name, metrics in found.items()}
    print(f"{len(clips)} clips, up to {options.frames} frames, mean over clips; tOF in levels of 255, flow by DIS\n")
    print("| | PSNR | tOF | less than alone | above the truth |\n|---|---|---|---|---|")
    for name, metrics in found.items():
        psnr = f"{metrics['psnr'].mean:.2f}" if paired and name != "truth" else "-"
        above = f"{255 * (tof[name] - tof['truth']):+.3f}" if paired else "-"
        print(f"| {name} | {psnr} | {255 * tof[name]:.3f} | {1 - tof[name] / tof['alone']:.0%} | {above} |")


if __name__ == "__main__":
    main()
