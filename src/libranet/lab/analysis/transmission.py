"""Does the network know how dense the haze is? The transmission implied by its matrices against the true one."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from libranet.kernels.color_field.reference import estimate_transmission, transforms
from libranet.lab.analysis.observation import Observation
from libranet.lab.analysis.plotting import new_figure

_BINS = 100


def pearson(a: Tensor, b: Tensor) -> float:
    """Pearson r of two maps; NaN where one of them is constant."""
    a, b = a.double().flatten(), b.double().flatten()
    a, b = a - a.mean(), b - b.mean()
    scale = float(a.norm() * b.norm())
    return float(a @ b) / scale if scale > 0 else float("nan")


class TransmissionProbe:
    """Correlation in each frame and over all pixels, and the mean absolute error."""

    def __init__(self, *, cayley: bool = True) -> None:
        self._cayley = cayley
        self._frames: list[dict[str, Any]] = []
        self._counts = np.zeros((_BINS, _BINS))
        self._sums = np.zeros(6)  # n, x, y, xx, yy, xy
        self._shown: list[tuple[str, np.ndarray]] = []
        self._seen = 0

    def add(self, seen: Observation) -> None:
        implied = estimate_transmission(transforms(seen.fused, use_cayley=self._cayley)[0])
        self._seen += 1
        if not self._shown:
            self._shown = [("hazy frame", seen.low[0].movedim(0, -1).cpu().numpy()), ("implied", _plane(implied))]
            if seen.transmission is not None:
                self._shown.append(("true", _plane(seen.transmission)))
        if seen.transmission is None:
            return
        x, y = _plane(implied).ravel().astype(np.float64), _plane(seen.transmission).ravel().astype(np.float64)
        r = pearson(implied, seen.transmission)
        self._frames.append(
            {
                "clip": seen.clip,
                "frame": seen.frame,
                "pearson_r": r if np.isfinite(r) else None,
                "mean_absolute_error": float(np.abs(x - y).mean()),
            }
        )
        self._sums += [x.size, x.sum(), y.sum(), x @ x, y @ y, x @ y]
        self._counts += np.histogram2d(y, x, bins=_BINS, range=((0, 1), (0, 1)))[0]

    def result(self) -> dict[str, Any]:
        if not self._seen:
            return {"not_measured": "no frames"}
        if not self._frames:
            return {"not_measured": "the set has no true transmission; sets made by `libranet synth` have"}
        n, x, y, xx, yy, xy = self._sums
        spread = np.sqrt(max(n * xx - x * x, 0.0) * max(n * yy - y * y, 0.0))
        within = [frame["pearson_r"] for frame in self._frames if frame["pearson_r"] is not None]
        return {
            "pearson_r_over_all_pixels": float((n * xy - x * y) / spread) if spread > 0 else None,
            "pearson_r_within_frames": {
                "mean": float(np.mean(within)) if within else None,
                "std": float(np.std(within)) if within else None,
            },
            "mean_absolute_error": float(np.mean([frame["mean_absolute_error"] for frame in self._frames])),
            "mean_implied": x / n,
            "mean_true": y / n,
            "frames": self._frames,
        }

    def figure(self) -> Figure | None:
        if not self._shown:
            return None
        panels = len(self._shown) + bool(self._frames)
        figure = new_figure(2.6 * panels, 2.2)
        axes = np.atleast_1d(figure.subplots(1, panels))
        for place, (title, image) in zip(axes, self._shown, strict=False):
            drawn = place.imshow(image, cmap="viridis", vmin=0, vmax=1)
            place.set(title=title, xticks=[], yticks=[])
            if image.ndim == 2:
                figure.colorbar(drawn, ax=place, shrink=0.7)
        if self._frames:
            axes[-1].imshow(np.log1p(self._counts.T), origin="lower", extent=(0, 1, 0, 1), cmap="magma")
            axes[-1].plot([0, 1], [0, 1], ":", color="white", linewidth=1)
            axes[-1].set(xlabel="true", ylabel="implied", title="all pixels, log count")
        return figure


def _plane(values: Tensor) -> np.ndarray:  # [1, 1, h, w] -> [h, w]
    return torch.as_tensor(values[0, 0]).cpu().numpy()
