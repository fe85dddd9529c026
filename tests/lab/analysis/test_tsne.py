"""t-SNE: forces against the plain sum, and clusters that stay clusters."""

import numpy as np
import torch

from libranet.lab.analysis.tsne import embed, nearest, repulsion


def test_repulsion_by_fft_is_the_plain_sum():
    plane = np.random.default_rng(0).standard_normal((300, 2)) * 5
    apart = plane[:, None] - plane
    kernel = 1 / (1 + (apart**2).sum(-1))
    force, total = repulsion(plane)
    exact = (apart * kernel[..., None] ** 2).sum(1)
    assert np.abs(force - exact).max() < 0.05 * np.abs(exact).max()
    assert abs(total / (kernel.sum() - 300) - 1) < 0.05


def test_neighbours_are_those_of_the_plain_distance():
    points = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    distance = torch.cdist(points, points).fill_diagonal_(torch.inf)
    squared, index = nearest(points, 5)
    assert torch.equal(index, distance.topk(5, largest=False).indices)
    assert torch.allclose(squared.sqrt(), distance.topk(5, largest=False).values, atol=1e-4)


def test_clusters_stay_together_and_apart():
    random = torch.Generator().manual_seed(0)
    label = torch.arange(160) % 4
    points = torch.randn(4, 12, generator=random)[label] * 5 + 0.3 * torch.randn(160, 12, generator=random)
    plane = embed(points, steps=100)
    assert np.array_equal(plane, embed(points, steps=100))
    centres = np.stack([plane[label == k].mean(0) for k in range(4)])
    nearest_centre = ((plane[:, None] - centres) ** 2).sum(-1).argmin(1)
    assert (nearest_centre == label.numpy()).all()
