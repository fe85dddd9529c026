"""What a run writes while it goes: a progress line, a JSON line per record, TensorBoard scalars and pictures."""

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import cv2
import numpy as np
from torch import Tensor


class RunLog:
    """The log of one run. Only the first process of a group writes; the others get one with `folder=None`."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.board: Any = None
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.lines = (folder / "log.jsonl").open("a")
        try:
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(folder / "tensorboard"))
        except ImportError:
            self.say("tensorboard is not installed: scalars go to log.jsonl only (pip install 'libranet[train]')")

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.folder is not None:
            self.lines.close()
        if self.board is not None:
            self.board.close()

    def say(self, text: str) -> None:
        """Print one line, from the first process only."""
        if self.folder is not None:
            print(text, flush=True)

    def scalars(self, step: int, values: dict[str, float], *, group: str) -> None:
        """Record numbers of one step."""
        if self.folder is None:
            return
        self.lines.write(json.dumps({"step": step, "group": group, **values}) + "\n")
        self.lines.flush()
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(f"{group}/{name}", value, step)

    def pictures(self, step: int, rows: list[Tensor]) -> None:
        """Record before / after / truth strips, [3, H, W] in [0, 1] each, as PNG and in TensorBoard."""
        if self.folder is None or not rows:
            return
        folder = self.folder / "pictures"
        folder.mkdir(exist_ok=True)
        for index, row in enumerate(rows):
            image = (row.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
            cv2.imwrite(str(folder / f"{step:07d}-{index}.png"), np.ascontiguousarray(image[..., ::-1]))
            if self.board is not None:
                self.board.add_image(f"hazy | restored | clear/{index}", row.clamp(0, 1), step)


class Pace:
    """Samples per second and the time left, over the steps since the last report, and the share spent on data."""

    def __init__(self, step: int, steps: int) -> None:
        self.step, self.steps = step, steps
        self.begin = time.perf_counter()
        self.waiting = 0.0

    def report(self, step: int, batch: int) -> tuple[float, float, str]:
        """Samples per second, share of the time spent waiting for data, and the time left; then start anew."""
        elapsed = max(time.perf_counter() - self.begin, 1e-9)
        done = max(step - self.step, 1)
        left = int((self.steps - step) * elapsed / done)
        clock = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
        share = self.waiting / elapsed
        self.step, self.begin, self.waiting = step, time.perf_counter(), 0.0
        return done * batch / elapsed, share, clock
