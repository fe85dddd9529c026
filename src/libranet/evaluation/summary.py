"""Means with 95 % confidence intervals, over frames, clips, regimes and the set, and the files that hold them."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from libranet.evaluation.metric_table import METRICS, Metric
from libranet.evaluation.results import ClipResult, write_csv, write_file
from libranet.metrics.blind import drift, gain, largest_jump
from libranet.metrics.temporal import sigma_psnr
from libranet.network import WeightsInfo

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
_T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True)
class Estimate:
    """A mean over clips, each clip counting the same."""

    mean: float
    half_width: float | None
    """Half of the 95 % confidence interval over clips (Student's t); None for a single clip."""
    clips: int


def format_estimate(value: Estimate | None, digits: int) -> str:
    """Format mean and interval, or say that there is none."""
    if value is None:
        return "not measured"
    interval = "" if value.half_width is None else f" ± {value.half_width:.{digits}f}"
    return f"{value.mean:.{digits}f}{interval}"


@dataclass(frozen=True)
class ClipSummary:
    """One model on one clip."""

    model: str
    clip: str
    regime: str
    frames: int
    seconds: float
    backend: str  # what computed it; empty where nothing was computed
    values: dict[str, float]  # mean over the frames by metric name, and the per-clip metrics
    worst_frame: int | None  # the frame of the lowest PSNR, where there is one


def summarise_clip(result: ClipResult) -> ClipSummary:
    """Average over the frames. A frame without a value (no detections, no frame before it) is left out of that mean."""
    values: dict[str, float] = {}
    for metric in METRICS:
        found = [f[metric.name] for f in result.frames if metric.name in f and not math.isnan(f[metric.name])]
        if found:
            values[metric.name] = math.fsum(found) / len(found)
    series = [frame["psnr"] for frame in result.frames if "psnr" in frame]
    if len(series) > 1:  # a photo has no spread over time
        values["sigma_psnr"] = sigma_psnr(series)
    values |= _blind_values(result)
    worst = min(range(len(series)), key=series.__getitem__) if series else None
    place = (result.model, result.clip, result.regime)
    return ClipSummary(*place, len(result.frames), result.seconds, result.backend, values, worst)


def _blind_values(result: ClipResult) -> dict[str, float]:
    """The blind metrics of a whole clip, from the series of its frames."""

    def series(name: str) -> list[float]:
        return [frame[name] for frame in result.frames if name in frame]

    if not series("mean"):
        return {}
    contrast = gain(series("contrast"), series("contrast_input"))
    found = {
        "contrast_gain": contrast,
        "flicker": gain(series("tof"), series("tof_input")) / contrast if contrast > 0.0 else math.nan,
        "jump": largest_jump(series("mean")),
        "jump_input": largest_jump(series("mean_input")),
        "drift": drift(series("mean")),
        "drift_input": drift(series("mean_input")),
    }
    return {name: value for name, value in found.items() if not math.isnan(value)}


def estimate(values: Sequence[float]) -> Estimate:
    """Compute mean and confidence interval of clip means. Two values say nothing about their spread: no interval."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < 3:
        return Estimate(mean, None, n)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    quantile = _T95[n - 2] if n - 1 <= len(_T95) else 1.96 + 2.4 / (n - 1)
    return Estimate(mean, quantile * deviation / math.sqrt(n), n)


def summarise_models(clips: list[ClipSummary], *, regime: str | None = None) -> dict[str, dict[str, Estimate]]:
    """Estimate every metric of every model, over all clips or over those of one regime."""
    found: dict[str, dict[str, Estimate]] = {}
    for model in dict.fromkeys(clip.model for clip in clips):
        mine = [c.values for c in clips if c.model == model and (regime is None or c.regime == regime)]
        series = {metric.name: [v[metric.name] for v in mine if metric.name in v] for metric in METRICS}
        found[model] = {name: estimate(values) for name, values in series.items() if values}
    return found


@dataclass(frozen=True)
class RunInfo:
    """What was evaluated, when and where."""

    dataset: str
    paired: bool
    created: str
    version: str
    weights: dict[str, WeightsInfo]
    """Name and version of each network's weights, by the model's name."""
    machine: str


@dataclass(frozen=True)
class ReportContent:
    """Everything that the report and its files show."""

    info: RunInfo
    subject: str  # the model whose worst frames are shown
    metrics: tuple[Metric, ...]
    not_measured: dict[str, str]  # reason by metric name
    estimators: dict[str, str]
    seconds: dict[str, float]
    results: list[ClipResult]

    @cached_property
    def clips(self) -> list[ClipSummary]:
        return [summarise_clip(result) for result in self.results]

    @property
    def models(self) -> list[str]:
        """The models' names, in the order of evaluation."""
        return list(dict.fromkeys(clip.model for clip in self.clips))

    @property
    def backends(self) -> dict[str, str]:
        """What computed each model's clips, by the model's name; no entry where nothing was computed."""
        found: dict[str, set[str]] = {}
        for clip in self.clips:
            if clip.backend:
                found.setdefault(clip.model, set()).add(clip.backend)
        return {model: ", ".join(sorted(names)) for model, names in found.items()}

    @property
    def missing(self) -> dict[str, str]:
        """The labels of what was not measured, by the reason."""
        reasons = dict.fromkeys(self.not_measured.values())
        return {
            why: ", ".join(m.label for m in self.metrics if self.not_measured.get(m.name) == why) for why in reasons
        }

    @property
    def regimes(self) -> list[str]:
        return sorted({clip.regime for clip in self.clips if clip.regime})

    @property
    def measured(self) -> list[Metric]:
        """The metrics that at least one clip has a value for."""
        return [m for m in self.metrics if any(m.name in clip.values for clip in self.clips)]


def write_summaries(content: ReportContent, folder: Path) -> None:
    """Write frames.csv, clips.csv, regimes.csv and summary.json."""
    found = sorted({name for result in content.results for frame in result.frames for name in frame})
    frames = [
        [result.model, result.clip, result.regime, index, *(_cell(frame.get(name, math.nan)) for name in found)]
        for result in content.results
        for index, frame in enumerate(result.frames)
    ]
    write_csv(folder / "frames.csv", [["model", "clip", "regime", "frame", *found], *frames])
    names = [metric.name for metric in content.measured]
    clips = [
        [c.model, c.clip, c.regime, c.frames, f"{c.seconds:.3f}", c.backend, c.worst_frame]
        + [c.values.get(name, "") for name in names]
        for c in content.clips
    ]
    head = ["model", "clip", "regime", "frames", "seconds", "backend", "worst_frame"]
    write_csv(folder / "clips.csv", [head + names, *clips])
    rows = [
        [model, regime, metric, e.mean, "" if e.half_width is None else e.half_width, e.clips]
        for regime in content.regimes
        for model, values in summarise_models(content.clips, regime=regime).items()
        for metric, e in values.items()
    ]
    if rows:
        head = ["model", "regime", "metric", "mean", "half_width_95", "clips"]
        write_csv(folder / "regimes.csv", [head, *rows])
    write_file(folder / "summary.json", json.dumps(_summary(content), indent=2) + "\n")


def _cell(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.8g}"


def _summary(content: ReportContent) -> dict[str, Any]:
    info = content.info
    return {
        "dataset": info.dataset,
        "paired": info.paired,
        "created": info.created,
        "libranet": info.version,
        "weights": {model: asdict(weights) for model, weights in info.weights.items()},
        "machine": info.machine,
        "backends": content.backends,
        "metrics": [m.name for m in content.metrics],
        "not_measured": content.not_measured,
        "estimators": content.estimators,
        "seconds": {name: round(value, 3) for name, value in content.seconds.items()},
        "models": {m: _estimates(values) for m, values in summarise_models(content.clips).items()},
        "regimes": {
            regime: {m: _estimates(v) for m, v in summarise_models(content.clips, regime=regime).items()}
            for regime in content.regimes
        },
        "clips": [asdict(clip) for clip in content.clips],
    }


def _estimates(values: dict[str, Estimate]) -> dict[str, Any]:
    return {name: {"mean": e.mean, "half_width_95": e.half_width, "clips": e.clips} for name, e in values.items()}
