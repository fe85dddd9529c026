"""Evaluation as a workload: one clip with all models is one task. Results go to the folder of the report."""

from collections.abc import Callable
from pathlib import Path

import torch

from libranet.cluster.tasks import Done, Outcome, Step, Task
from libranet.evaluation.clips import EvalClip
from libranet.evaluation.restorers import Restorer
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import Scores


class EvalWorkload:
    """Holds models and metrics for all clips of a worker."""

    def __init__(
        self,
        folder: Path,
        *,
        restorers: Callable[[], list[Restorer]],
        scores: Callable[[], Scores],
        subject: str,
        frames: int | None,
        device: str,
        threads: int,
    ) -> None:
        """Load models and metrics. The folder of the report is on a file system that all nodes share.

        Only the first `frames` of a clip are measured; `subject` is the model whose worst frames are shown.
        """
        torch.set_num_threads(threads)
        self._store = ResultStore(folder)
        self._restorers, self._scores = restorers(), scores()
        self._subject, self._frames, self._device = subject, frames, device

    def run(self, task: Task, report: Callable[[Step], None]) -> Outcome:
        clip: EvalClip = task.work
        total = min(len(clip), self._frames or len(clip))
        evaluate(
            [clip],
            self._restorers,
            self._scores,
            self._store,
            subject=self._subject,
            limit_frames=self._frames,
            device=self._device,
            report=lambda _, index: report(Step(index, total, index)),
        )
        return Done({"frames": total, "new_frames": total})
