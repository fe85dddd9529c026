"""How far are the transforms from having no inverse? det A, and the distance of M to both singular values."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from libranet.kernels.color_field.reference import SINGULAR_DET
from libranet.lab.analysis.observation import Observation, sample_pixels
from libranet.lab.analysis.plotting import BLUE, ORANGE, new_figure

_ROWS = 64  # rows of matrices in work at a time


def determinants(matrix: Tensor) -> tuple[Tensor, Tensor]:  # [1, 3, 3, h, w] -> [h, w] float64 each
    """det(I - M/2), whose zero is the pole at +2, and det(I + M/2), whose zero at -2 makes A singular."""
    m = matrix[0].double().permute(2, 3, 0, 1) / 2
    eye = torch.eye(3, dtype=m.dtype, device=m.device)
    return torch.linalg.det(eye - m), torch.linalg.det(eye + m)


def eigenvalue_distance(matrix: Tensor) -> tuple[Tensor, Tensor]:  # [N, 3, 3] float64 -> [N], [N]
    """The distance of the nearest eigenvalue of M to +2 and to -2 in the complex plane."""
    values = torch.linalg.eigvals(matrix)
    return (values - 2).abs().amin(dim=1), (values + 2).abs().amin(dim=1)


class InvertibilityProbe:
    """Counts both kinds of singular transform at every pixel and keeps the extremes."""

    def __init__(self, *, cayley: bool = True) -> None:
        """Give `cayley` False for a network without the Cayley map: A = I + M has a singular value of its own, -1."""
        self._cayley = cayley
        self._pixels = self._at_pole = self._at_zero = 0
        self._largest = 0.0
        self._nearest = [np.inf, np.inf]
        self._pole, self._zero, self._det, self._distance = np.inf, np.inf, [np.inf, -np.inf], [np.empty((0, 2))]
        self._dets: list[np.ndarray] = []

    def add(self, seen: Observation) -> None:
        if not self._cayley:
            return
        algebra = seen.fused[:, :9].unflatten(1, (3, 3))
        for rows in algebra.split(_ROWS, dim=3):
            pole, zero = determinants(rows)
            self._pixels += pole.numel()
            self._at_pole += int((pole.abs() < SINGULAR_DET).sum())
            self._at_zero += int((zero.abs() < SINGULAR_DET).sum())
            self._pole, self._zero = min(self._pole, float(pole.abs().min())), min(self._zero, float(zero.abs().min()))
            self._largest = max(self._largest, float(rows.flatten(1, 2).norm(dim=1).max()))
            usable = pole.abs() >= SINGULAR_DET
            if usable.any():
                det = (zero / pole)[usable]
                self._det = [min(self._det[0], float(det.min())), max(self._det[1], float(det.max()))]
        sampled = sample_pixels(seen.fused[:, :9], most=4000).unflatten(1, (3, 3))
        plus, minus = eigenvalue_distance(sampled)
        self._nearest = [min(self._nearest[0], float(plus.min())), min(self._nearest[1], float(minus.min()))]
        self._distance = [np.concatenate([*self._distance, torch.stack([plus, minus], 1).numpy()])[-200_000:]]
        pole, zero = determinants(sampled.permute(1, 2, 0)[None, ..., None])
        self._dets = [np.concatenate([*self._dets, (zero / pole)[pole.abs() >= SINGULAR_DET].numpy()])[-200_000:]]

    def result(self) -> dict[str, Any]:
        if not self._cayley:
            return {"not_measured": "the network has no Cayley map"}
        if not self._pixels:
            return {"not_measured": "no frames"}
        return {
            "pixels": self._pixels,
            "det_a": {"lowest": self._det[0], "highest": self._det[1], "median": float(np.median(self._dets[0]))},
            "negative_det_a": float((self._dets[0] < 0).mean()),
            "largest_matrix_norm": self._largest,
            "pole_at_plus_2": {
                "pixels_replaced_by_identity": self._at_pole,
                "least_determinant": self._pole,
                "least_eigenvalue_distance": self._nearest[0],
            },
            "zero_at_minus_2": {
                "pixels_without_inverse": self._at_zero,
                "least_determinant": self._zero,
                "least_eigenvalue_distance": self._nearest[1],
            },
        }

    def figure(self) -> Figure | None:
        if not self._pixels:
            return None
        figure = new_figure(7.2, 3.0)
        left, right = figure.subplots(1, 2)
        left.hist(self._dets[0], bins=80, color=BLUE)
        left.set(xlabel="det A", ylabel="sampled pixels", title="(a)", yscale="log")
        for column, (label, colour) in enumerate((("+2, the pole", BLUE), ("-2, no inverse", ORANGE))):
            right.hist(self._distance[0][:, column], bins=80, alpha=0.7, color=colour, label=label)
        right.set(xlabel="distance of the nearest eigenvalue of M", ylabel="sampled pixels", title="(b)")
        right.set_xlim(left=0.0)
        right.legend(fontsize=7)
        return figure
