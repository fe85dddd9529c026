"""How the spatial-colour grid is organised: the size of each bin, and whether cells of one bin resemble each other."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from libranet.errors import MissingDependencyError, install_command
from libranet.lab.analysis.observation import Observation
from libranet.lab.analysis.plotting import new_figure

CELLS = 20_000
CHANNELS = ("m11", "m12", "m13", "m21", "m22", "m23", "m31", "m32", "m33", "b1", "b2", "b3")
_NEIGHBOURS = 10
_PERPLEXITY = 15.0
_CHUNK = 2048


def bin_norms(grid: Tensor) -> Tensor:  # [B, 2, 12, bins, gh, gw] -> [12, bins]
    """Root mean square of every coefficient in every colour bin."""
    return grid.double().square().mean(dim=(0, 1, 4, 5)).sqrt()


def neighbour_purity(cells: Tensor, bins: Tensor) -> float:  # [N, 12], [N]
    """The mean share of a cell's nearest cells, by coefficients, that are of its own bin."""
    count, same = min(_NEIGHBOURS, len(cells) - 1), []
    for start in range(0, len(cells), _CHUNK):
        distance = torch.cdist(cells[start : start + _CHUNK], cells)
        distance.diagonal(start).fill_(torch.inf)  # a cell is no neighbour of itself
        found = distance.topk(count, dim=1, largest=False).indices
        same.append(bins[found] == bins[start : start + _CHUNK, None])
    return float(torch.cat(same).double().mean())


def embed(cells: Tensor) -> np.ndarray:  # [N, 12] -> [N, 2]
    """Place cells in the plane by t-SNE so that neighbours stay neighbours."""
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise MissingDependencyError(f"t-SNE needs scikit-learn: {install_command('lab')}") from None
    return TSNE(perplexity=min(_PERPLEXITY, len(cells) / 4), random_state=0).fit_transform(cells.numpy())


class AnatomyProbe:
    """Adds up norms over all frames and keeps cells for t-SNE."""

    def __init__(self, *, cells: int | None = None) -> None:
        self._most = cells or CELLS
        self._squares: Tensor | None = None
        self._frames = 0
        self._cells, self._bins = torch.empty(0, 12), torch.empty(0, dtype=torch.long)
        self._random = torch.Generator().manual_seed(0)

    def add(self, seen: Observation) -> None:
        grid = seen.grids.chromatic
        if grid is None:
            return
        grid = grid.cpu()
        squares = bin_norms(grid).square()
        self._squares = squares if self._squares is None else self._squares + squares
        self._frames += 1
        cells = grid.movedim(2, -1)  # [B, 2, bins, gh, gw, 12]
        bins = torch.arange(cells.shape[2])[:, None, None].expand(cells.shape[:-1])
        self._cells = torch.cat([self._cells, cells.reshape(-1, 12).float()])
        self._bins = torch.cat([self._bins, bins.reshape(-1)])
        if len(self._cells) > 8 * self._most:
            self._thin(4 * self._most)

    def result(self) -> dict[str, Any]:
        if self._squares is None:
            return {"not_measured": "the network has no chromatic field"}
        norms = (self._squares / self._frames).sqrt()
        by_bin = norms.square().sum(0).sqrt()
        self._thin(self._most)
        return {
            "frames": self._frames,
            "channels": list(CHANNELS),
            "norm_by_channel_and_bin": norms.tolist(),
            "norm_by_bin": by_bin.tolist(),
            "weakest_bin_to_strongest": float(by_bin.min() / by_bin.max()) if by_bin.max() > 0 else None,
            "cells": len(self._cells),
            "neighbours_of_the_same_bin": neighbour_purity(self._cells, self._bins),
            "expected_by_chance": 1.0 / norms.shape[1],
        }

    def figure(self) -> Figure | None:
        if self._squares is None:
            return None
        self._thin(self._most)
        norms = (self._squares / self._frames).sqrt().numpy()
        plane = embed(self._cells)
        figure = new_figure(7.6, 3.4)
        left, right = figure.subplots(1, 2)
        drawn = left.imshow(norms, aspect="auto", cmap="magma")
        left.set(xlabel="colour bin", ylabel="coefficient", title="(a) root mean square")
        left.set_yticks(range(12), CHANNELS, fontsize=6)
        left.set_xticks(range(norms.shape[1]))
        figure.colorbar(drawn, ax=left)
        order = np.random.default_rng(0).permutation(len(plane))
        points = right.scatter(
            *plane[order].T,
            c=self._bins.numpy()[order],
            s=1.5,
            linewidths=0,
            cmap="turbo",
            vmin=-0.5,
            vmax=norms.shape[1] - 0.5,
            rasterized=True,
        )
        right.set(xticks=[], yticks=[], title=f"(b) t-SNE of {len(plane):,} cells", aspect="equal")
        figure.colorbar(points, ax=right, label="colour bin", ticks=range(norms.shape[1]))
        return figure

    def _thin(self, most: int) -> None:
        if len(self._cells) > most:
            kept = torch.randperm(len(self._cells), generator=self._random)[:most]
            self._cells, self._bins = self._cells[kept], self._bins[kept]
