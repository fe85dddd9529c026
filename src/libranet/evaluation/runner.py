"""Runs models over clips, all models side by side, so that each frame is read and its motion estimated once."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.evaluation.clips import EvalClip
from libranet.evaluation.figures import PanelWriter
from libranet.evaluation.restorers import Restorer
from libranet.evaluation.results import ClipResult, ResultStore
from libranet.evaluation.scores import FrameToScore, Scores

ClipProgress = Callable[[str, int], None]
"""Called with the clip and how many of its frames are done."""


@dataclass
class _Lane:
    """One model on its way through a clip."""

    restorer: Restorer
    ready: deque[Tensor] = field(default_factory=deque)
    previous: Tensor | None = None
    frames: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    def feed(self, frame: Tensor | None) -> None:
        """Give the model a frame, or ask for its last ones."""
        start = time.perf_counter()
        restored = self.restorer.flush() if frame is None else self.restorer.push(frame)
        if restored and restored[0].is_cuda:
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - start
        self.ready.extend(round_to_8_bit(image) for image in restored)


@dataclass(frozen=True)
class _Source:
    """One frame of the dataset, kept until every model has restored it."""

    views: dict[str, Tensor]
    """`hazy` and, where there is ground truth, `clear`."""
    guide: np.ndarray
    """The clear frame where there is one, else the hazy one, [H, W, 3] uint8: its motion is that of the clip."""


def round_to_8_bit(
    image: Tensor,  # [3, H, W] in [0, 1]
) -> Tensor:  # [3, H, W], multiples of 1/255
    """Round as an 8-bit file does: every metric is computed on this."""
    return (image.float().clamp(0.0, 1.0) * 255.0).round() / 255.0


def evaluate(
    clips: list[EvalClip],
    restorers: list[Restorer],
    scores: Scores,
    store: ResultStore,
    *,
    subject: str,
    limit_frames: int | None = None,
    device: str = "cpu",
    panels: bool = True,
    report: ClipProgress | None = None,
) -> list[ClipResult]:
    """Evaluate every model on every clip, except for results that the store already has.

    Args:
        clips: The dataset.
        restorers: The models.
        scores: The metrics.
        store: Where results go, and where earlier ones are.
        subject: The model whose worst frames are shown.
        limit_frames: Only so many frames of each clip.
        device: Where metrics are computed.
        panels: Also write images of the worst frames.
        report: Told of every frame.
    """
    results = []
    for clip in clips:
        known = {r.name: store.find(r.name, r.fingerprint, clip.name) for r in restorers}
        missing = [restorer for restorer in restorers if known[restorer.name] is None]
        if missing:
            images = PanelWriter(store.clip_folder(clip.name)) if panels else None
            fresh = _run_clip(
                clip, missing, scores, images, subject=subject, limit_frames=limit_frames, device=device, report=report
            )
            for restorer in missing:
                store.save(fresh[restorer.name], restorer.fingerprint)
            known |= fresh
        elif report:
            report(clip.name, min(len(clip), limit_frames or len(clip)))
        results += [result for restorer in restorers if (result := known[restorer.name]) is not None]
    return results


def _run_clip(
    clip: EvalClip,
    restorers: list[Restorer],
    scores: Scores,
    panels: PanelWriter | None,
    *,
    subject: str,
    limit_frames: int | None,
    device: str,
    report: ClipProgress | None,
) -> dict[str, ClipResult]:
    lanes = [_Lane(restorer) for restorer in restorers]
    chosen = subject if any(lane.restorer.name == subject for lane in lanes) else lanes[-1].restorer.name
    scoring = _Scoring(clip, lanes, scores, panels, chosen)
    waiting: deque[_Source] = deque()
    for restorer in restorers:
        restorer.begin(clip.rate)
    for hazy, clear in clip.frames(limit_frames):
        images = {"hazy": hazy} if clear is None else {"hazy": hazy, "clear": clear}
        views = {name: _to_tensor(image, device) for name, image in images.items()}
        waiting.append(_Source(views, hazy if clear is None else clear))
        for lane in lanes:
            if lane.restorer.sees not in views:
                raise InputError(f"the model {lane.restorer.name} needs ground truth, and clip {clip.name} has none")
            lane.feed(views[lane.restorer.sees])
        _score_ready(waiting, lanes, scoring, report)
    for lane in lanes:
        lane.feed(None)
    _score_ready(waiting, lanes, scoring, report)
    if waiting:
        raise InputError(f"a model returned fewer frames than it was given in clip {clip.name}")
    if panels is not None:
        panels.save()
    return {
        lane.restorer.name: ClipResult(lane.restorer.name, clip.name, clip.regime, lane.frames, lane.seconds)
        for lane in lanes
    }


def _score_ready(waiting: deque[_Source], lanes: list[_Lane], scoring: "_Scoring", report: ClipProgress | None) -> None:
    while waiting and all(lane.ready for lane in lanes):
        scoring.score(waiting.popleft())
        if report:
            report(scoring.clip.name, scoring.index)


@dataclass
class _Scoring:
    """Scores the frames of one clip in order."""

    clip: EvalClip
    lanes: list[_Lane]
    scores: Scores
    panels: PanelWriter | None
    subject: str
    index: int = 0
    before: _Source | None = None

    def score(self, source: _Source) -> None:
        flow = self.scores.find_flow(source.guide, None if self.before is None else self.before.guide)
        clear = source.views.get("clear")
        features = self.scores.clear_features(clear)
        restored = {lane.restorer.name: lane.ready.popleft() for lane in self.lanes}
        hazy = source.views["hazy"]
        facts = self.scores.describe_input(hazy)
        hazy_tof = self.scores.input_tof(hazy, None if self.before is None else self.before.views["hazy"], flow)
        for lane in self.lanes:
            image = restored[lane.restorer.name]
            frame = FrameToScore(image, clear, lane.previous, flow, features, facts, hazy_tof)
            lane.frames.append(self.scores.measure(frame))
        if self.panels is not None:
            self._take_images(self.panels, source, restored)
        for lane in self.lanes:
            lane.previous = restored[lane.restorer.name]
        self.before = source
        self.index += 1

    def _take_images(self, panels: PanelWriter, source: _Source, restored: dict[str, Tensor]) -> None:
        lane = next(lane for lane in self.lanes if lane.restorer.name == self.subject)
        value, metric = _badness(lane.frames[-1], self.index)
        if panels.fixed is None and self.index == 0 and len(self.clip) > 1:
            return  # a first frame has no change to show
        if not panels.wants(self.index, value):
            return
        previous = {lane.restorer.name: lane.previous for lane in self.lanes if lane.previous is not None}
        previous |= {} if self.before is None else self.before.views
        panels.take(
            self.index,
            value,
            metric,
            subject=self.subject,
            views={name: _to_array(view) for name, view in (source.views | restored).items()},
            previous={name: _to_array(view) for name, view in previous.items()},
        )


def _badness(frame: dict[str, float], index: int) -> tuple[float, str]:
    """Return a value that is lowest for the worst frame, and its name: PSNR, else tOF, else the second frame."""
    if "psnr" in frame:
        return frame["psnr"], "lowest PSNR"
    if "tof" in frame:
        return -frame["tof"], "largest tOF"
    return float(index != 1), "second frame"


def _to_tensor(image: np.ndarray, device: str) -> Tensor:  # [H, W, 3] 8 bit -> [3, H, W] in [0, 1]
    return torch.from_numpy(image).to(device).permute(2, 0, 1).float().div_(255.0).contiguous()


def _to_array(image: Tensor) -> np.ndarray:  # [3, H, W] in [0, 1] -> [H, W, 3] 8 bit
    return (image * 255.0).round().to(torch.uint8).permute(1, 2, 0).contiguous().cpu().numpy()


def smallest_size(clips: list[EvalClip]) -> tuple[int, int]:
    """Return (width, height) of the smallest clip, which decides what can be measured."""
    return min((clip.hazy.size for clip in clips), key=lambda size: (min(size), size))


def default_report_folder(dataset: Path) -> Path:
    """Return the folder of a report unless the user names one."""
    return Path(f"eval-{dataset.resolve().name}")
