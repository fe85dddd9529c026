"""summary.json and the CSV tables: the numbers of a report for machines."""

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from libranet.evaluation.report import ReportContent
from libranet.evaluation.results import write_frames_csv, write_text
from libranet.evaluation.summary import Estimate, summarise_models

SUMMARY_FILE = "summary.json"


def write_summaries(content: ReportContent, folder: Path) -> None:
    """frames.csv, clips.csv, regimes.csv and summary.json."""
    write_frames_csv(folder / "frames.csv", content.results)
    names = [metric.name for metric in content.measured]
    clips = [
        [c.model, c.clip, c.regime, c.frames, f"{c.seconds:.3f}", c.worst_frame, *(c.values.get(n, "") for n in names)]
        for c in content.clips
    ]
    _write_csv(folder / "clips.csv", ["model", "clip", "regime", "frames", "seconds", "worst_frame", *names], clips)
    regimes = sorted({clip.regime for clip in content.clips if clip.regime})
    rows = [
        [model, regime, metric, e.mean, "" if e.half_width is None else e.half_width, e.clips]
        for regime in regimes
        for model, values in summarise_models(content.clips, regime=regime).items()
        for metric, e in values.items()
    ]
    if rows:
        _write_csv(folder / "regimes.csv", ["model", "regime", "metric", "mean", "half_width_95", "clips"], rows)
    write_text(folder / SUMMARY_FILE, json.dumps(_summary(content, regimes), indent=2) + "\n")


def _summary(content: ReportContent, regimes: list[str]) -> dict[str, Any]:
    return {
        "dataset": content.dataset,
        "paired": content.paired,
        "created": content.created,
        "libranet": content.version,
        "weights": {model: asdict(weights) for model, weights in content.weights.items()},
        "machine": content.machine,
        "metrics": [m.name for m in content.metrics],
        "not_measured": content.not_measured,
        "estimators": content.estimators,
        "seconds": {name: round(value, 3) for name, value in content.seconds.items()},
        "models": {m: _estimates(values) for m, values in summarise_models(content.clips).items()},
        "regimes": {
            regime: {m: _estimates(v) for m, v in summarise_models(content.clips, regime=regime).items()}
            for regime in regimes
        },
        "clips": [asdict(clip) for clip in content.clips],
    }


def _estimates(values: dict[str, Estimate]) -> dict[str, Any]:
    return {name: {"mean": e.mean, "half_width_95": e.half_width, "clips": e.clips} for name, e in values.items()}


def _write_csv(path: Path, header: list[str], rows: list[list[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())
