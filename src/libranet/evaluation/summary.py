"""From frames to clips, from clips to regimes and to the set: means with 95 % confidence intervals."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from libranet.evaluation.metric_table import METRICS
from libranet.evaluation.results import ClipResult
from libranet.metrics.temporal import sigma_psnr

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


@dataclass(frozen=True)
class ClipSummary:
    """One model on one clip."""

    model: str
    clip: str
    regime: str
    frames: int
    seconds: float
    values: dict[str, float]
    """Mean over the frames by metric name, and the per-clip measures."""
    worst_frame: int | None
    """The frame of the lowest PSNR, where there is one."""


def summarise_clip(result: ClipResult) -> ClipSummary:
    """Average the frames. A frame without a value (no detections, no frame before it) is left out of that mean."""
    values: dict[str, float] = {}
    for metric in METRICS:
        found = [f[metric.name] for f in result.frames if metric.name in f and not math.isnan(f[metric.name])]
        if found:
            values[metric.name] = math.fsum(found) / len(found)
    series = [frame["psnr"] for frame in result.frames if "psnr" in frame]
    if series:
        values["sigma_psnr"] = sigma_psnr(series)
    worst = min(range(len(series)), key=series.__getitem__) if series else None
    return ClipSummary(
        result.model, result.clip, result.regime, len(result.frames), result.seconds, values, worst_frame=worst
    )


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and confidence interval of clip means."""
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, 1)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    quantile = _T95[n - 2] if n - 1 <= len(_T95) else 1.96 + 2.4 / (n - 1)
    return Estimate(mean, quantile * deviation / math.sqrt(n), n)


def summarise(clips: Iterable[ClipSummary]) -> dict[str, Estimate]:
    """Every metric over some clips of one model."""
    clips = list(clips)
    found: dict[str, Estimate] = {}
    for metric in METRICS:
        values = [clip.values[metric.name] for clip in clips if metric.name in clip.values]
        if values:
            found[metric.name] = estimate(values)
    return found


def summarise_models(clips: list[ClipSummary], *, regime: str | None = None) -> dict[str, dict[str, Estimate]]:
    """Every metric of every model, over all clips or over those of one regime."""
    models = dict.fromkeys(clip.model for clip in clips)
    return {
        model: summarise(c for c in clips if c.model == model and (regime is None or c.regime == regime))
        for model in models
    }
