"""t-SNE in the plane (van der Maaten and Hinton, 2008), fast enough for twenty thousand points without a GPU.

Attraction is summed over the nearest neighbours. Repulsion is a convolution with 1 / (1 + d^2)^2: the points are spread
on a regular grid, convolved by FFT and read back (Linderman et al., 2019).
"""

import numpy as np
import torch
from torch import Tensor

PERPLEXITY = 15.0
NEIGHBOURS = 45
"""Neighbours that attract a point: three times the perplexity."""
_CELL = 0.25
"""Width of a cell of the grid, in units of the kernel's width, unless the plane would need too many of them."""
_MOST_CELLS = 384
_CHUNK = 2048


def nearest(
    points: Tensor,  # [N, D]
    count: int,
) -> tuple[Tensor, Tensor]:  # [N, count] squared distances, [N, count] indices
    """The nearest neighbours of every point except itself, nearest first."""
    points = points.float()
    squares = points.square().sum(1)
    found = []
    for start in range(0, len(points), _CHUNK):
        part = points[start : start + _CHUNK]
        distance = squares[start : start + _CHUNK, None] + squares - 2 * part @ points.T
        rows = torch.arange(len(part))
        distance[rows, start + rows] = torch.inf
        found.append(distance.topk(count, dim=1, largest=False))
    return torch.cat([f.values for f in found]).clamp_min(0.0), torch.cat([f.indices for f in found])


def embed(
    points: Tensor,  # [N, D]
    *,
    steps: int = 400,
    seed: int = 0,
) -> np.ndarray:  # [N, 2]
    """Place points in the plane so that neighbours stay neighbours. The same seed gives the same plane."""
    count = min(NEIGHBOURS, len(points) - 1)
    squared, index = nearest(points, count)
    weights = _neighbour_weights(squared, min(PERPLEXITY, count / 3)).double().numpy()
    n = len(points)
    rows, columns = np.repeat(np.arange(n), count), index.flatten().numpy()
    rows, columns = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    shares = np.tile(weights.flatten(), 2) / (2 * n)

    rng = np.random.default_rng(seed)
    plane = 1e-2 * rng.standard_normal((n, 2))
    speed, gain = np.zeros_like(plane), np.ones_like(plane)
    rate, early = max(n / 12, 20.0), steps // 4
    for step in range(steps):
        push, total = repulsion(plane)
        gradient = (12.0 if step < early else 1.0) * _attraction(plane, rows, columns, shares) - push / total
        gain = np.maximum(np.where(speed * gradient > 0, gain * 0.8, gain + 0.2), 0.01)
        speed = (0.5 if step < early else 0.8) * speed - rate * gain * gradient
        plane = plane + speed
        plane -= plane.mean(axis=0)
    return plane


def repulsion(plane: np.ndarray) -> tuple[np.ndarray, float]:  # [N, 2] -> [N, 2], the sum of all 1 / (1 + d^2)
    """Sum (y_i - y_j) / (1 + d^2)^2 over all j, and 1 / (1 + d^2) over all pairs."""
    low = plane.min(axis=0)
    span = float((plane.max(axis=0) - low).max()) + 1e-9
    cells = int(np.clip(np.ceil(span / _CELL), 8, min(_MOST_CELLS, 8 * np.sqrt(len(plane)))))
    width = span / cells
    place = (plane - low) / width
    first = np.minimum(place.astype(np.int64), cells - 1)
    share = place - first
    side = cells + 1
    corners = [
        (
            (first[:, 1] + dy) * side + first[:, 0] + dx,
            (share[:, 1] if dy else 1 - share[:, 1]) * (share[:, 0] if dx else 1 - share[:, 0]),
        )
        for dy in (0, 1)
        for dx in (0, 1)
    ]

    def spread(charge: np.ndarray) -> np.ndarray:
        parts = np.stack([np.bincount(at, w * charge, side * side) for at, w in corners])
        return parts.sum(axis=0).reshape(side, side)

    charges = np.stack([spread(np.ones(len(plane))), spread(plane[:, 0]), spread(plane[:, 1])])
    # The distance wraps around in a grid twice as wide, so that the cyclic convolution is a plain one.
    offset = np.minimum(np.arange(2 * side), 2 * side - np.arange(2 * side)) * width
    kernel = 1.0 / (1.0 + offset[:, None] ** 2 + offset**2)
    size = (2 * side, 2 * side)
    spectra = torch.fft.rfft2(torch.from_numpy(charges), s=size)
    k1, k2 = torch.fft.rfft2(torch.from_numpy(np.stack([kernel, kernel**2])))
    fields = torch.fft.irfft2(torch.cat([spectra * k2, (spectra[0] * k1)[None]]), s=size)[:, :side, :side]
    flat = fields.reshape(4, -1).numpy()
    ones, x, y, pairs = (sum(w * field[at] for at, w in corners) for field in flat)
    force = np.stack([plane[:, 0] * ones - x, plane[:, 1] * ones - y], axis=1)
    return force, max(float(pairs.sum()) - len(plane), 1e-12)


def _attraction(plane: np.ndarray, rows: np.ndarray, columns: np.ndarray, shares: np.ndarray) -> np.ndarray:
    apart = plane[rows] - plane[columns]
    pull = shares / (1.0 + np.einsum("ij,ij->i", apart, apart))
    return np.stack([np.bincount(rows, pull * apart[:, axis], len(plane)) for axis in (0, 1)], axis=1)


def _neighbour_weights(squared: Tensor, perplexity: float) -> Tensor:  # [N, k] -> [N, k], rows sum to 1
    """Gaussian weights with the width at which every point has the same perplexity, found by bisection."""
    squared = squared - squared[:, :1]
    low, high = torch.full((len(squared), 1), -30.0), torch.full((len(squared), 1), 60.0)
    target = float(np.log(perplexity))
    for _ in range(50):
        middle = (low + high) / 2
        weights = torch.softmax(-squared * middle.exp(), dim=1)
        entropy = -(weights * weights.clamp_min(1e-12).log()).sum(dim=1, keepdim=True)
        low, high = torch.where(entropy > target, middle, low), torch.where(entropy > target, high, middle)
    return torch.softmax(-squared * ((low + high) / 2).exp(), dim=1)
