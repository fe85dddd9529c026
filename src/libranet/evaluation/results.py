"""The results of a run: one CSV per model and clip, written whole, so that a stopped run can resume."""

import csv
import io
import json
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from libranet.atomic import write_atomically
from libranet.errors import InputError

RUN_FILE = "run.json"
CLIPS_FOLDER = "clips"


@dataclass(frozen=True)
class ClipResult:
    """The measurements of one model on one clip."""

    model: str
    clip: str
    regime: str
    frames: list[dict[str, float]]  # metric name to value, one per frame
    seconds: float  # time that the model took for the clip
    backend: str = ""
    """What computed it: `plain`, `cpu-fp32`, `fused`; empty where nothing was computed."""


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, and its folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.encode() if isinstance(content, str) else content)


def write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_file(path, text.getvalue())


class ResultStore:
    """The folder of one evaluation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, settings: dict[str, Any], *, fresh: bool = False) -> None:
        """Record what is measured, or check that the folder's earlier results were measured the same way.

        Raises:
            InputError: The folder has results of other settings, is no folder, or is not ours to delete.
        """
        path = self.folder / RUN_FILE
        if fresh and self.folder.is_dir():
            if any(self.folder.iterdir()) and not path.is_file():
                raise InputError(f"{self.folder} is not the folder of an evaluation, so --fresh will not delete it")
            shutil.rmtree(self.folder)
        if path.is_file():
            try:
                earlier = json.loads(path.read_text())
            except ValueError:
                raise InputError(f"{path} is damaged: use another folder for this evaluation") from None
            for key, value in settings.items():
                if earlier.get(key) != json.loads(json.dumps(value)):
                    raise InputError(
                        f"{self.folder} has results of other settings ({key}): use another folder or add --fresh"
                    )
            return
        if self.folder.is_file():
            raise InputError(f"expected a folder for the report, got the file {self.folder}")
        write_file(path, json.dumps(settings, indent=2) + "\n")

    def clip_folder(self, clip: str) -> Path:
        return self.folder / CLIPS_FOLDER / re.sub(r"[^\w.-]", "_", clip)

    def find(self, model: str, fingerprint: str, clip: str) -> ClipResult | None:
        """Return an earlier result of this very model, or None."""
        path = self.clip_folder(clip) / f"{model}.csv"
        if not path.is_file():
            return None
        try:
            rows = list(csv.reader(io.StringIO(path.read_text())))
            note = json.loads(rows[0][1])
            if note["fingerprint"] != fingerprint or note["clip"] != clip:
                return None
            names = rows[1][1:]
            frames = [{n: float(v) for n, v in zip(names, row[1:], strict=True) if v != ""} for row in rows[2:]]
            return ClipResult(model, clip, note["regime"], frames, note["seconds"], note["backend"])
        except (ValueError, IndexError, KeyError, TypeError):
            return None

    def save(self, result: ClipResult, fingerprint: str) -> None:
        names = sorted({name for frame in result.frames for name in frame})
        note = {
            "fingerprint": fingerprint,
            "clip": result.clip,
            "regime": result.regime,
            "seconds": round(result.seconds, 4),
            "backend": result.backend,
        }
        rows = [
            [index, *(repr(frame[name]) if name in frame else "" for name in names)]
            for index, frame in enumerate(result.frames)
        ]
        path = self.clip_folder(result.clip) / f"{result.model}.csv"
        write_csv(path, [["#", json.dumps(note)], ["frame", *names], *rows])
