"""Does adding in the Lie algebra stand for composing the transforms? The paper's figure of the composition error."""

import math
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from libranet.kernels.color_field.reference import cayley
from libranet.lab.analysis.observation import Observation, sample_pixels
from libranet.lab.analysis.plotting import BLUE, GREY, ORANGE, new_figure

PAPER_ERROR, PAPER_SLOPE = 1e-3, 0.98
LEAST_ERROR = 1e-13  # relative errors below this are rounding of float64 and enter no fit
_KEPT = 200_000


def composition_error(
    chromatic: Tensor,  # [N, 3, 3] float64
    temporal: Tensor,  # [N, 3, 3] float64
) -> tuple[Tensor, Tensor]:  # [N], [N]
    """Relative error of Cay(X + T) against Cay(X) Cay(T), and its second-order part, half the commutator.

    Pixels where one of the three maps is singular give NaN.
    """
    (both, s0), (first, s1), (second, s2) = (cayley(m) for m in (chromatic + temporal, chromatic, temporal))
    product = first @ second
    size = torch.linalg.matrix_norm(product)
    error = torch.linalg.matrix_norm(both - product) / size
    commutator = chromatic @ temporal - temporal @ chromatic
    order2 = 0.5 * torch.linalg.matrix_norm(commutator) / size
    return error.masked_fill(s0 | s1 | s2, math.nan), order2


def fit_slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float] | None:
    """Least squares of log10 y over log10 x: slope, intercept and Pearson r; None without two different values."""
    usable = (x > 0) & (y > LEAST_ERROR)
    if usable.sum() < 3:
        return None
    a, b = np.log10(x[usable]), np.log10(y[usable])
    if a.std() < 1e-9 or b.std() < 1e-12:
        return None
    slope, intercept = np.polyfit(a, b, 1)
    return float(slope), float(intercept), float(np.corrcoef(a, b)[0, 1])


def slope_parts(values: np.ndarray) -> dict[str, float] | None:  # [6, N], rows as CompositionProbe collects them
    """Split the slope into five that add up to it, because the error is a product of five factors.

    The factors are |X|, |T|, the norm of the commutator over |X| |T| (0 where X and T commute), one over the norm of
    the product that the error is relative to, and the error over its second-order part. Where both norms grow as |M|
    does, and the others are constant, the parts are 0.5, 0.5, 0, 0, 0.
    """
    values = values[:, (values > 0).all(axis=0) & (values[1] > LEAST_ERROR)]
    if fit_slope(values[0], values[1]) is None:
        return None
    norm, whole, second, x, t, commutator = np.log10(values)
    factors = {
        "chromatic_norm": x,
        "temporal_norm": t,
        "commutator": commutator - x - t,
        "product_norm": second - commutator,
        "higher_orders": whole - second,
    }
    return {name: float(np.polyfit(norm, part, 1)[0]) for name, part in factors.items()}


class CompositionProbe:
    """Collects the error and |M|^2 of the fused matrix at sampled pixels."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []  # [N, 6]: |M|^2, error, second-order part, |X|, |T|, |XT - TX|
        self._missing = "no frames"
        self._frames = 0

    def add(self, seen: Observation) -> None:
        if seen.chromatic is None or seen.temporal is None:
            self._missing = "the network has only one of the two fields"
            return
        x, t = (
            sample_pixels(part[:, :9], seed=self._frames).unflatten(1, (3, 3))
            for part in (seen.chromatic, seen.temporal)
        )
        error, order2 = composition_error(x, t)
        norm = (x + t).flatten(1).square().sum(1)
        sizes = (torch.linalg.matrix_norm(part) for part in (x, t, x @ t - t @ x))
        self._rows.append(torch.stack([norm, error, order2, *sizes], dim=1).numpy())
        self._frames += 1
        if sum(map(len, self._rows)) > 2 * _KEPT:
            self._rows = [self._thin(np.concatenate(self._rows))]

    def result(self) -> dict[str, Any]:
        if not self._rows:
            return {"not_measured": self._missing}
        values = self._values()
        norm, error, order2, *_ = values
        fit = fit_slope(norm, error)
        low, median, high = np.percentile(error, (5, 50, 95))
        return {
            "frames": self._frames,
            "pixels": len(error),
            "relative_error": {"mean": float(error.mean()), "p5": low, "median": median, "p95": high},
            "second_order_part": {"mean": float(order2.mean()), "median": float(np.median(order2))},
            "matrix_norm_squared": {"mean": float(norm.mean()), "median": float(np.median(norm))},
            "log_log_slope": fit[0] if fit else None,
            "log_log_slope_parts": slope_parts(values),
            "log_log_intercept": fit[1] if fit else None,
            "log_log_r": fit[2] if fit else None,
            "paper": {"relative_error": PAPER_ERROR, "log_log_slope": PAPER_SLOPE},
        }

    def figure(self) -> Figure | None:
        if not self._rows:
            return None
        norm, error, *_ = self._values()
        usable = (error > LEAST_ERROR) & (norm > 0)
        figure = new_figure(7.2, 3.0)
        left, right = figure.subplots(1, 2)
        left.set(xlabel="relative composition error", ylabel="share of pixels", title="(a)")
        right.set(xlabel=r"$\|M\|_F^2$", ylabel="relative composition error", title="(b)")
        if not usable.any():
            for axes in (left, right):
                axes.text(0.5, 0.5, "no error above rounding", ha="center", va="center", transform=axes.transAxes)
            return figure
        norm, error = norm[usable], error[usable]
        bins = np.logspace(math.log10(error.min()), math.log10(error.max()) + 1e-9, 60)
        left.hist(error, bins=bins, weights=np.full(len(error), 1 / len(error)), color=BLUE)
        left.axvline(PAPER_ERROR, color=GREY, linestyle=":", label="the paper's order of size")
        left.axvline(float(np.median(error)), color=ORANGE, label=f"median {np.median(error):.1e}")
        left.set_xscale("log")
        left.legend(fontsize=7)
        shown = self._thin(np.stack([norm, error], axis=1), 5000).T
        right.scatter(*shown, s=2, alpha=0.25, linewidths=0, color=BLUE, rasterized=True)
        right.set_xscale("log")
        right.set_yscale("log")
        if fit := fit_slope(norm, error):
            ends = np.array([norm.min(), norm.max()])
            right.plot(ends, 10 ** fit[1] * ends ** fit[0], "--", color=ORANGE, label=f"slope {fit[0]:.2f}")
            right.legend(fontsize=7)
        return figure

    def _values(self) -> np.ndarray:  # [6, N]
        rows = np.concatenate(self._rows)
        return np.ascontiguousarray(rows[np.isfinite(rows).all(axis=1)].T)

    @staticmethod
    def _thin(rows: np.ndarray, most: int = _KEPT) -> np.ndarray:
        if len(rows) <= most:
            return rows
        return rows[np.random.default_rng(0).choice(len(rows), most, replace=False)]
