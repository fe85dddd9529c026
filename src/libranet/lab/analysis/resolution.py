"""Do smaller frames give the same grids? The paper's table of resolution invariance, by the long edge of the input."""

from itertools import cycle
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from libranet.lab.analysis.observation import Observation
from libranet.lab.analysis.plotting import BLUE, ORANGE, new_figure
from libranet.network import LiBrANet

EDGES = (360, 540, 1080, 1440)
PAPER = {  # by native and reduced long edge: relative distance and r of each field
    3840: {  # UHV-4K
        360: {"chromatic": (0.078, 0.997), "temporal": (0.086, 0.995)},
        540: {"chromatic": (0.061, 0.998), "temporal": (0.062, 0.997)},
        1080: {"chromatic": (0.032, 0.999), "temporal": (0.031, 0.999)},
        1440: {"chromatic": (0.025, 1.000), "temporal": (0.023, 1.000)},
    },
    2708: {  # REVIDE
        360: {"chromatic": (0.028, 0.999), "temporal": (0.048, 0.998)},
        540: {"chromatic": (0.019, 1.000), "temporal": (0.032, 0.999)},
        1080: {"chromatic": (0.009, 1.000), "temporal": (0.013, 1.000)},
    },
}


def compare_grids(grid: Tensor, native: Tensor) -> tuple[float, float]:
    """Relative Frobenius distance to the native grid, and Pearson r of their values.

    Two equal grids without any variation have r = 1, two different ones NaN.
    """
    a, b = grid.double().flatten(), native.double().flatten()
    distance = float((a - b).norm())
    size = float(b.norm())
    relative = 0.0 if distance == 0.0 else distance / size if size else float("inf")
    a, b = a - a.mean(), b - b.mean()
    scale = float(a.norm() * b.norm())
    if scale <= 1e-12 * max(size * size, 1e-300):
        return relative, 1.0 if distance <= 1e-6 * size else float("nan")
    return relative, float(a @ b) / scale


class ResolutionProbe:
    """Compares the grids of reduced frames with those of native ones. Sources of different size are kept apart."""

    def __init__(self, model: LiBrANet) -> None:
        self._model = model
        self._values: dict[str, dict[int, dict[int, list[tuple[float, float]]]]] = {}
        self._native: dict[str, list[Tensor]] = {}

    @torch.no_grad()
    def add(self, seen: Observation) -> None:
        for name in ("chromatic", "temporal"):
            native = getattr(seen.grids, name)
            if native is not None:
                kept = self._native.setdefault(name, [])
                if len(kept) < 64:
                    kept.append(native.detach().cpu())
        for edge, window in seen.reduced.items():
            grids = self._model.predict_grids(window)
            for name in ("chromatic", "temporal"):
                grid, native = getattr(grids, name), getattr(seen.grids, name)
                if grid is not None:
                    by_edge = self._values.setdefault(name, {}).setdefault(seen.long_edge, {})
                    by_edge.setdefault(edge, []).append(compare_grids(grid, native))

    def result(self) -> dict[str, Any]:
        if not self._values:
            return {"not_measured": f"no frame's long edge has more than {EDGES[0]} pixels"}
        return {
            name: {
                "variation_between_frames": self._variation(name),
                "native_long_edge": {
                    str(native): {
                        str(edge): _row(values, PAPER.get(native, {}).get(edge, {}).get(name))
                        for edge, values in sorted(by_edge.items())
                    }
                    for native, by_edge in sorted(sources.items())
                },
            }
            for name, sources in self._values.items()
        }

    def figure(self) -> Figure | None:
        if not self._values:
            return None
        figure = new_figure(7.2, 3.0)
        styles = ("o-", "s--", "^-.", "v:")
        for axes, column, label in zip(
            figure.subplots(1, 2), (0, 1), ("relative Frobenius distance", "Pearson r"), strict=True
        ):
            for (name, sources), colour in zip(self._values.items(), (BLUE, ORANGE), strict=False):
                for (native, by_edge), style in zip(sorted(sources.items()), cycle(styles), strict=False):
                    edges = sorted(by_edge)
                    values = [np.array(by_edge[edge])[:, column] for edge in edges]
                    means, deviations = [v.mean() for v in values], [v.std() for v in values]
                    what = f"{name}, {native}"
                    axes.errorbar(edges, means, deviations, fmt=style, capsize=3, color=colour, label=what)
                    if paper := [(e, row[name][column]) for e, row in PAPER.get(native, {}).items() if e in by_edge]:
                        axes.plot(*zip(*paper, strict=True), "x:", color=colour, alpha=0.6, label=f"{what}, paper")
            axes.set(xlabel="long edge of the input", ylabel=label)
            axes.legend(fontsize=7)
        return figure

    def _variation(self, name: str) -> float:
        """How much native grids differ between frames, relative to their size. Zero: the field ignores its input."""
        grids = torch.cat(self._native[name]).double()
        size = float(grids.norm())
        return float((grids - grids.mean(dim=0)).norm()) / size if size else 0.0


def _row(values: list[tuple[float, float]], paper: tuple[float, float] | None) -> dict[str, Any]:
    distance, r = np.array(values).T
    return {
        "relative_distance": {"mean": float(distance.mean()), "std": float(distance.std())},
        "pearson_r": {"mean": float(r.mean()), "std": float(r.std())},
        "frames": len(values),
        "paper": dict(zip(("relative_distance", "pearson_r"), paper, strict=True)) if paper else None,
    }
