"""Synthesis as a workload: one clip is one task. Clips appear in the dataset's folder when they are whole."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from libranet.cluster.tasks import Done, Failed, Outcome, Step, Task
from libranet.data.dataset import CLIP_FILE, CLIPS_FOLDER
from libranet.flow import FlowEstimator
from libranet.synth.depth_estimators import DepthEstimator
from libranet.synth.make_clip import ClipTask
from libranet.synth.synthesize import make_task


class SynthWorkload:
    """Holds the estimators for all clips of a worker."""

    def __init__(
        self,
        folder: Path,
        *,
        depth: Callable[[], Callable[[int], DepthEstimator]],
        flow: Callable[[], FlowEstimator],
        threads: int,
    ) -> None:
        """Load the estimators: `depth` makes what returns one for a clip's seed. All nodes share the folder."""
        torch.set_num_threads(threads)
        self._folder, self._depth, self._flow = folder, depth(), flow()

    def run(self, task: Task, report: Callable[[Step], None]) -> Outcome:
        clip: ClipTask = task.work
        before = (self._folder / CLIPS_FOLDER / clip.name / CLIP_FILE).is_file()
        clip = replace(clip, flow=self._flow, request=replace(clip.request, depth=self._depth(clip.request.seed)))
        made = make_task(clip, self._folder, lambda _, stage, done, total: report(Step(done, total)))
        if made.error:
            return Failed("input", made.error)
        return Done({"skipped": before})


def without_estimators(task: ClipTask) -> ClipTask:
    """Return the task as it travels: workers have estimators of their own."""
    return replace(task, flow=None, request=replace(task.request, depth=None))  # type: ignore[arg-type]
