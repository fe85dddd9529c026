"""`libranet eval FOLDER --table real`: what methods do to real haze, on any photos; detection where there are boxes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from libranet.errors import InputError
from libranet.evaluation.clips import EvalClip
from libranet.evaluation.metric_table import find_metric
from libranet.evaluation.results import ClipResult
from libranet.evaluation.summary import ReportContent, format_estimate, summarise_models
from libranet.lab.paper.printed import PrintedTable, TableRow
from libranet.lab.perception.detectors import DETECTOR_NAMES, open_detector
from libranet.lab.perception.objects import KnownObjects, average_precision, read_boxes, resample
from libranet.thirdparty import find_model, find_weights

BOXES_FILE = "boxes.json"
COLUMNS = ("fade", "brightness", "local_gain", "structure", "smooth_structure", "edges", "saturated", "cast")


@dataclass(frozen=True)
class Objects:
    """The detector and the boxes of a set, or why there are none."""

    measure: Callable[[str, Tensor], dict[str, float]] | None = None
    why_missing: str = ""
    estimators: dict[str, str] = field(default_factory=dict)


def find_objects(
    place: Path, clips: Sequence[EvalClip], detector: Path | None, *, device: str, cache: Path | None
) -> Objects:
    """Find boxes.json beside the photos, or beside their folder, and a detector."""
    path = next((p for p in (place / BOXES_FILE, place.parent / BOXES_FILE) if p.is_file()), None)
    if path is None:
        return Objects(why_missing=f"detection is not measured: {place} has no {BOXES_FILE}")
    ready = (name for name in DETECTOR_NAMES[::-1] if find_weights(find_model(name), cache))
    chosen = detector or next(map(Path, ready), None)
    if chosen is None:
        return Objects(why_missing="detection is not measured: run `libranet weights pull yolov8s`, or name a detector")
    boxes, mine = read_boxes(path), {}
    for clip in clips:
        stem = Path(getattr(clip.hazy, "paths", (clip.name,))[0]).stem
        if stem not in boxes:
            raise InputError(f"{path} has no boxes for {stem}: add the photo, with an empty list if nothing is on it")
        mine[clip.name] = boxes[stem]
    opened = open_detector(chosen, device, cache=cache)
    return Objects(KnownObjects(opened, mine).measure, estimators={"objects": opened.name})


def make_real_table(content: ReportContent, results: Sequence[ClipResult], why_missing: str) -> PrintedTable:
    """One row per model, the hazy input first; detection has bootstrap intervals, and is compared photo by photo."""
    models = summarise_models(content.clips)
    metrics = [metric for metric in map(find_metric, COLUMNS) if metric in content.measured]
    frames = {name: [frame for r in results if r.model == name for frame in r.frames] for name in models}
    rows = []
    for name, values in models.items():
        cells = [format_estimate(values.get(metric.name), metric.digits) for metric in metrics]
        if not why_missing:
            cells += _detection(frames[name], frames["identity"], same=name == "identity")
        rows.append(TableRow("hazy" if name == "identity" else name, "measured", tuple(cells)))
    headings = tuple(f"{metric.label} {metric.arrow}" for metric in metrics)
    if not why_missing:
        headings += ("AP50 ↑", "AP50 / hazy ↑")
    parts = [f"mean over {len(frames['identity'])} photos ± 95 % interval"]
    if why_missing:
        parts.append(why_missing)
    else:
        parts.append(f"AP50 by {content.estimators['objects']}, in brackets its 95 % interval (bootstrap over photos)")
    parts += [f"{name}: backend {backend}" for name, backend in content.backends.items()]
    return PrintedTable(f"Real haze: {content.info.dataset}", "; ".join(parts), headings, tuple(rows))


def _detection(mine: list[dict[str, float]], hazy: list[dict[str, float]], *, same: bool) -> list[str]:
    value, before = average_precision(mine), average_precision(hazy)
    low, high = resample([mine], lambda precisions: precisions[0])
    cells = [f"{value:.3f} ({low:.3f} to {high:.3f})"]
    if same or not before:
        return [*cells, "1" if same else "-"]
    low, high = resample([mine, hazy], lambda precisions: precisions[0] / max(precisions[1], 1e-9))
    return [*cells, f"{value / before:.2f} ({low:.2f} to {high:.2f})"]
