"""Run the probes over a dataset and write their numbers and figures."""

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import libranet
from libranet.atomic import write_atomically
from libranet.errors import InputError
from libranet.evaluation.clips import EvalClip
from libranet.lab.analysis.anatomy import AnatomyProbe
from libranet.lab.analysis.composition import CompositionProbe
from libranet.lab.analysis.heatmap import HeatmapProbe
from libranet.lab.analysis.invertibility import InvertibilityProbe
from libranet.lab.analysis.liveness import LivenessProbe
from libranet.lab.analysis.observation import Probe, observe
from libranet.lab.analysis.plotting import save_figure
from libranet.lab.analysis.resolution import EDGES, ResolutionProbe
from libranet.lab.analysis.transmission import TransmissionProbe
from libranet.network import LiBrANet

ProbeName = Literal["composition", "resolution", "anatomy", "invertibility", "liveness", "heatmap", "transmission"]
PROBES: tuple[ProbeName, ...] = get_args(ProbeName)
RESULT_FILE = "analysis.json"


def choose_probes(text: str) -> list[ProbeName]:
    """Read names of probes with commas between them, or `all`."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if names == ["all"]:
        return list(PROBES)
    if unknown := [name for name in names if name not in PROBES]:
        raise InputError(f"no probe is called {unknown[0]!r}: expected one of {', '.join(PROBES)}, or all")
    if not names:
        raise InputError(f"expected at least one probe, got none: choose from {', '.join(PROBES)}, or all")
    return [name for name in PROBES if name in names]


def analyze(
    model: LiBrANet,
    clips: Sequence[EvalClip],
    folder: Path,
    *,
    probes: Sequence[ProbeName] = PROBES,
    frames: int = 4,
    dataset: str = "",
    report: Callable[[str, int, int], None] = lambda step, done, total: None,
) -> dict[str, Any]:
    """Probe a network on a dataset. Memory is bounded by one frame, not by the dataset.

    Args:
        folder: Gets analysis.json and a figure per probe, as SVG and PNG; it exists.
        frames: Frames of each clip, evenly spaced.
        report: Called with the current step, and how many of all steps are done.
    """
    active: dict[ProbeName, Probe] = {name: _make(name, model) for name in probes if name != "heatmap"}
    heat = HeatmapProbe(model) if "heatmap" in probes else None
    counts = [min(frames, len(clip)) for clip in clips] if active else [0] * len(clips)
    total, done = sum(counts) + (len(clips) if heat else 0) + len(probes), 0
    for clip, count in zip(clips, counts, strict=True):
        if count:
            edges = EDGES if "resolution" in active else ()
            for seen in observe(model, clip, count=count, edges=edges):
                for probe in active.values():
                    probe.add(seen)
                done += 1
                report(clip.name, done, total)
        if heat is not None:
            heat.add_clip(clip)
            done += 1
            report(f"{clip.name}: heat map", done, total)
    content: dict[str, Any] = {
        "format": "libranet-analysis",
        "version": 1,
        "libranet": libranet.__version__,
        "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **model.weights.as_json(),
        "dataset": dataset,
        "clips": len(clips),
        "frames_per_clip": frames,
        "probes": {},
    }
    for name in probes:
        finished = heat if name == "heatmap" else active[name]
        assert finished is not None
        content["probes"][name] = _as_json(finished.result())
        if (figure := finished.figure()) is not None:
            save_figure(figure, folder, name)
        done += 1
        report(name, done, total)
    write_atomically(folder / RESULT_FILE, (json.dumps(content, indent=2) + "\n").encode())
    return content


def _make(name: ProbeName, model: LiBrANet) -> Probe:
    cayley = model.config.parts.cayley
    makers: dict[str, Callable[[], Probe]] = {
        "composition": CompositionProbe,
        "resolution": lambda: ResolutionProbe(model),
        "anatomy": AnatomyProbe,
        "invertibility": lambda: InvertibilityProbe(cayley=cayley),
        "liveness": lambda: LivenessProbe(model),
        "transmission": lambda: TransmissionProbe(cayley=cayley),
    }
    return makers[name]()


def _as_json(value: Any) -> Any:
    """Plain numbers; what is not finite becomes null, for JSON has no other word for it."""
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else None
