"""Runs models over clips, all models side by side, so that each frame is read and its motion estimated once."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import tee

from torch import Tensor

from libranet.errors import InputError
from libranet.evaluation.clips import EvalClip, EvalFrame, to_array
from libranet.evaluation.figures import PanelWriter
from libranet.evaluation.restorers import Restorer
from libranet.evaluation.results import ClipResult, ResultStore
from libranet.evaluation.scores import Scores

ClipProgress = Callable[[str, int], None]
"""Called with the clip and how many of its frames are done."""


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
        scores: The metrics.
        store: Where results go, and where earlier ones are.
        subject: The model whose worst frames are shown.
        limit_frames: Only so many frames of each clip.
        panels: Also write images of the worst frames.
    """
    results = []
    for clip in clips:
        known = {r.name: store.find(r.name, r.fingerprint, clip.name) for r in restorers}
        missing = [restorer for restorer in restorers if known[restorer.name] is None]
        if missing:
            images = PanelWriter(store.clip_folder(clip.name)) if panels else None
            run = _ClipRun(clip, missing, scores, images, subject=subject, limit=limit_frames, device=device)
            for done in run.score_frames():
                if report:
                    report(clip.name, done)
            for restorer, fresh in zip(missing, run.results(), strict=True):
                store.save(fresh, restorer.fingerprint)
                known[restorer.name] = fresh
        elif report:
            report(clip.name, min(len(clip), limit_frames or len(clip)))
        results += [result for restorer in restorers if (result := known[restorer.name]) is not None]
    return results


@dataclass
class _Lane:
    """One model on its way through a clip."""

    restorer: Restorer
    restored: Iterator[Tensor]
    previous: Tensor | None = None
    frames: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0


class _ClipRun:
    """All models on one clip, frame by frame."""

    def __init__(
        self,
        clip: EvalClip,
        restorers: list[Restorer],
        scores: Scores,
        panels: PanelWriter | None,
        *,
        subject: str,
        limit: int | None,
        device: str,
    ) -> None:
        self._clip, self._scores, self._panels = clip, scores, panels
        names = [restorer.name for restorer in restorers]
        self._subject = subject if subject in names else names[-1]
        source = clip.open()
        self._reading = 0.0
        self._source = clip.read(source, limit=limit, device=device)
        # A network looks ahead: `tee` keeps a frame until the slowest model has given it back.
        self._frames, *copies = tee(self._timed_frames(), 1 + len(restorers))
        self._lanes = [_Lane(r, r.restore(source, copy)) for r, copy in zip(restorers, copies, strict=True)]

    def score_frames(self) -> Iterator[int]:
        """Restore and score all frames; yield how many are done."""
        before: EvalFrame | None = None
        with closing(self._source):
            for index, frame in enumerate(self._frames):
                restored = {lane.restorer.name: self._next(lane) for lane in self._lanes}
                facts = self._scores.share(frame, before)
                for lane in self._lanes:
                    lane.frames.append(self._scores.measure(restored[lane.restorer.name], lane.previous, facts))
                if self._panels is not None:
                    self._take_images(self._panels, index, frame, before, restored)
                for lane in self._lanes:
                    lane.previous = restored[lane.restorer.name]
                before = frame
                yield index + 1
        if self._panels is not None:
            self._panels.save()

    def results(self) -> list[ClipResult]:
        clip = self._clip
        return [
            ClipResult(
                lane.restorer.name,
                clip.name,
                clip.regime,
                lane.frames,
                lane.seconds if lane.restorer.backend else 0.0,  # reading files is nobody's speed
                lane.restorer.backend,
            )
            for lane in self._lanes
        ]

    def _timed_frames(self) -> Iterator[EvalFrame]:
        while True:
            start = time.perf_counter()
            frame = next(self._source, None)
            self._reading += time.perf_counter() - start
            if frame is None:
                return
            yield frame

    def _next(self, lane: _Lane) -> Tensor:
        """The model's next frame. Reading that happens meanwhile does not count as its time."""
        start, reading = time.perf_counter(), self._reading
        image = next(lane.restored, None)
        lane.seconds += time.perf_counter() - start - (self._reading - reading)
        if image is None:
            raise InputError(f"a model returned fewer frames than it was given in clip {self._clip.name}")
        return image

    def _take_images(
        self,
        panels: PanelWriter,
        index: int,
        frame: EvalFrame,
        before: EvalFrame | None,
        restored: dict[str, Tensor],
    ) -> None:
        lane = next(lane for lane in self._lanes if lane.restorer.name == self._subject)
        value, metric = _badness(lane.frames[-1], index)
        if panels.fixed is None and index == 0 and len(self._clip) > 1:
            return  # a first frame has no change to show
        if not panels.wants(index, value):
            return
        previous = {lane.restorer.name: lane.previous for lane in self._lanes if lane.previous is not None}
        panels.take(
            index,
            value,
            metric,
            subject=self._subject,
            views={name: to_array(view) for name, view in (_views(frame) | restored).items()},
            previous={name: to_array(view) for name, view in (previous | _views(before)).items()},
        )


def _views(frame: EvalFrame | None) -> dict[str, Tensor]:
    if frame is None:
        return {}
    return {"hazy": frame.hazy} | ({} if frame.clear is None else {"clear": frame.clear})


def _badness(frame: dict[str, float], index: int) -> tuple[float, str]:
    """Return a value that is lowest for the worst frame, and its name: PSNR, else tOF, else the second frame."""
    if "psnr" in frame:
        return frame["psnr"], "lowest PSNR"
    if "tof" in frame:
        return -frame["tof"], "largest tOF"
    return float(index != 1), "second frame"
