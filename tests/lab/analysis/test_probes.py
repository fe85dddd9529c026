"""Every probe against an answer that is known without it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from libranet.data.frames import FrameFiles, write_png
from libranet.evaluation.clips import EvalClip
from libranet.kernels.color_field.reference import estimate_transmission, slice_plane, transforms
from libranet.kernels.resample.reference import downsample
from libranet.lab.analysis.anatomy import AnatomyProbe, bin_norms, embed, neighbour_purity
from libranet.lab.analysis.composition import CompositionProbe, composition_error, fit_slope
from libranet.lab.analysis.heatmap import HeatmapProbe
from libranet.lab.analysis.invertibility import InvertibilityProbe, eigenvalue_distance
from libranet.lab.analysis.liveness import LivenessProbe
from libranet.lab.analysis.observation import Observation, encoder_square, observe
from libranet.lab.analysis.resolution import ResolutionProbe, compare_grids
from libranet.lab.analysis.transmission import TransmissionProbe
from libranet.network import Grids, LiBrANet


def observation(
    chromatic: Tensor | None = None,  # [1, 12, h, w]
    temporal: Tensor | None = None,
    *,
    grids: Grids | None = None,
    transmission: Tensor | None = None,
    window: Tensor | None = None,
    reduced: dict[int, Tensor] | None = None,
) -> Observation:
    part = chromatic if chromatic is not None else temporal
    low = torch.zeros(1, 3, *part.shape[-2:]) if part is not None else torch.zeros(1, 3, 8, 8)
    return Observation(
        clip="clip",
        frame=0,
        window=torch.rand(1, 5, 3, 32, 32) if window is None else window,
        long_edge=3840,
        reduced=reduced or {},
        low=low,
        grids=grids or Grids(None, None),
        chromatic=chromatic,
        temporal=temporal,
        transmission=transmission,
    )


def coefficients(matrices: Tensor) -> Tensor:  # [N, 3, 3] -> [1, 12, N, 1]
    return torch.cat([matrices.flatten(1).T, torch.zeros(3, len(matrices))])[None, ..., None].float()


def write_clip(folder: Path, frames: list[np.ndarray]) -> EvalClip:
    folder.mkdir()
    paths = tuple(folder / f"{index:03d}.png" for index in range(len(frames)))
    for path, frame in zip(paths, frames, strict=True):
        write_png(path, frame)
    return EvalClip(folder.name, FrameFiles(paths))


def test_commuting_matrices_have_no_second_order_error() -> None:
    random = torch.Generator().manual_seed(0)
    diagonal = torch.diag_embed(torch.randn(200, 2, 3, generator=random, dtype=torch.float64)) * 0.1
    error, order2 = composition_error(diagonal[:, 0], diagonal[:, 1])
    tenth, _ = composition_error(diagonal[:, 0] / 10, diagonal[:, 1] / 10)
    assert order2.max() == 0.0
    # What is left is of third order: a tenth of the matrices gives a thousandth of the error.
    assert (tenth / error).median() == pytest.approx(1e-3, rel=0.02)


def test_the_error_of_other_matrices_is_half_their_commutator() -> None:
    random = torch.Generator().manual_seed(0)
    pair = torch.randn(200, 2, 3, 3, generator=random, dtype=torch.float64) * 1e-4
    error, order2 = composition_error(pair[:, 0], pair[:, 1])
    assert (error / order2).sub(1).abs().max() < 1e-2


def test_the_composition_probe_finds_slope_one_over_the_squared_norm() -> None:
    random = torch.Generator().manual_seed(0)
    pair = torch.randn(1, 2, 3, 3, generator=random) * torch.logspace(-4, -1, 500)[:, None, None, None]
    probe = CompositionProbe()
    probe.add(observation(coefficients(pair[:, 0]), coefficients(pair[:, 1])))
    result = probe.result()
    assert result["log_log_slope"] == pytest.approx(1.0, abs=0.02)
    assert result["pixels"] == 500
    assert probe.figure() is not None
    alone = CompositionProbe()
    alone.add(observation(coefficients(pair[:, 0])))
    assert alone.result() == {"not_measured": "the network has only one of the two fields"}


def test_the_slope_is_the_sum_of_its_parts() -> None:
    random = torch.Generator().manual_seed(0)
    x, t = torch.randn(2, 1, 3, 3, generator=random) * torch.tensor([0.02, 0.001])[:, None, None, None]
    probe = CompositionProbe()
    growing = torch.logspace(-2, 0, 500)[:, None, None]
    probe.add(observation(coefficients(x * growing), coefficients(t.expand(500, 3, 3))))
    result = probe.result()
    parts = result["log_log_slope_parts"]
    assert parts["temporal_norm"] == pytest.approx(0.0, abs=1e-6)  # it is constant
    assert parts["chromatic_norm"] > 0.45
    assert parts["commutator"] == pytest.approx(0.0, abs=0.02)  # the directions are always the same
    assert sum(parts.values()) == pytest.approx(result["log_log_slope"])


def test_a_power_law_has_its_exponent_as_slope() -> None:
    x = np.logspace(-3, 0, 50)
    assert fit_slope(x, 0.3 * x**1.7)[:2] == pytest.approx((1.7, np.log10(0.3)))
    assert fit_slope(x, np.zeros(50)) is None


def test_singular_transforms_of_both_kinds_are_counted_and_their_distance_known() -> None:
    values = torch.tensor([[2.0, 0, 0], [-2.0, 0, 0], [0.5, -1.0, 1.5], [0.0, 0.0, 0.0]])
    probe = InvertibilityProbe()
    probe.add(observation(coefficients(torch.diag_embed(values))))
    result = probe.result()
    assert result["pixels"] == 4
    assert result["pole_at_plus_2"]["pixels_replaced_by_identity"] == 1
    assert result["zero_at_minus_2"]["pixels_without_inverse"] == 1
    assert result["largest_matrix_norm"] == pytest.approx(2.0)
    # Cay is (1 + m/2) / (1 - m/2) on the diagonal: 5/3 * 1/3 * 7.
    assert result["det_a"]["highest"] == pytest.approx(5 / 3 * 1 / 3 * 7)
    assert result["det_a"]["lowest"] == 0.0
    plus, minus = eigenvalue_distance(torch.diag(torch.tensor([0.5, -1.0, 1.5], dtype=torch.float64))[None])
    assert (float(plus), float(minus)) == (0.5, 1.0)
    assert probe.figure() is not None


def test_a_constant_grid_is_invariant_and_shown_to_ignore_its_input(tiny_model: LiBrANet) -> None:
    with torch.no_grad():
        for field in (tiny_model.chromatic, tiny_model.temporal):
            field.head.project.weight.zero_()
            field.head.project.bias.normal_()
    probe = ResolutionProbe(tiny_model)
    for seed in range(2):
        window, other = torch.rand(2, 1, 5, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
        grids = tiny_model.predict_grids(window)
        probe.add(observation(grids=grids, window=window, reduced={360: other}))
    for field in probe.result().values():
        assert field["variation_between_frames"] == pytest.approx(0.0, abs=1e-7)
        row = field["native_long_edge"]["3840"]["360"]
        assert row["relative_distance"]["mean"] == pytest.approx(0.0, abs=1e-6)
        assert row["pearson_r"]["mean"] == pytest.approx(1.0)
        assert row["paper"]["pearson_r"] > 0.99
    assert probe.figure() is not None


def test_other_windows_give_other_grids_in_a_living_network(tiny_model: LiBrANet) -> None:
    window, other = torch.rand(2, 1, 5, 3, 32, 32)
    probe = ResolutionProbe(tiny_model)
    probe.add(observation(grids=tiny_model.predict_grids(window), reduced={360: other}))
    assert probe.result()["temporal"]["native_long_edge"]["3840"]["360"]["relative_distance"]["mean"] > 0


def test_grids_compare_by_size_and_by_shape() -> None:
    grid = torch.randn(12, 8, 16, 16)
    assert compare_grids(grid, grid) == (0.0, pytest.approx(1.0))
    assert compare_grids(1.5 * grid, grid) == (pytest.approx(0.5), pytest.approx(1.0))
    assert compare_grids(-grid, grid) == (pytest.approx(2.0), pytest.approx(-1.0))
    distance, r = compare_grids(torch.ones(4), 2 * torch.ones(4))
    assert distance == 0.5
    assert np.isnan(r)


def test_the_anatomy_knows_the_bin_that_carries_everything_and_cells_that_cluster() -> None:
    grid = torch.zeros(1, 2, 12, 8, 4, 4)
    grid[:, :, 3, 5] = 2.0
    norms = bin_norms(grid)
    assert norms[3, 5] == 2.0
    assert norms.count_nonzero() == 1
    clustered = torch.arange(8.0).view(1, 1, 1, 8, 1, 1) + 0.01 * torch.randn(1, 2, 12, 8, 4, 4)
    probe = AnatomyProbe(cells=200)
    probe.add(observation(grids=Grids(clustered, None)))
    result = probe.result()
    assert result["neighbours_of_the_same_bin"] == 1.0
    assert result["cells"] == 200
    bins = torch.arange(800) % 8
    assert neighbour_purity(torch.randn(800, 12), bins) == pytest.approx(1 / 8, abs=0.04)


def test_t_sne_keeps_clusters_together_and_apart() -> None:
    pytest.importorskip("sklearn.manifold")
    random = torch.Generator().manual_seed(0)
    label = torch.arange(160) % 4
    points = torch.randn(4, 12, generator=random)[label] * 5 + 0.3 * torch.randn(160, 12, generator=random)
    plane = embed(points)
    assert np.array_equal(plane, embed(points))
    centres = np.stack([plane[label == k].mean(0) for k in range(4)])
    nearest_centre = ((plane[:, None] - centres) ** 2).sum(-1).argmin(1)
    assert (nearest_centre == label.numpy()).all()


def test_a_grid_from_a_known_transmission_gives_correlation_one() -> None:
    truth = torch.rand(1, 1, 16, 16, generator=torch.Generator().manual_seed(0)) * 0.7 + 0.2
    gain = 1 / truth
    plane = torch.zeros(1, 12, 16, 16)
    plane[:, [0, 4, 8]] = 2 * (gain - 1) / (gain + 1)  # the inverse of the Cayley map of gain * I
    sliced = slice_plane(plane, (64, 96))
    implied = estimate_transmission(transforms(sliced)[0])
    probe = TransmissionProbe()
    probe.add(observation(temporal=plane, transmission=truth))
    probe.add(observation(temporal=sliced, transmission=implied))
    result = probe.result()
    assert result["pearson_r_over_all_pixels"] == pytest.approx(1.0)
    assert result["pearson_r_within_frames"]["mean"] == pytest.approx(1.0)
    assert result["mean_absolute_error"] == pytest.approx(0.0, abs=1e-6)
    assert probe.figure() is not None
    opposite = TransmissionProbe()
    opposite.add(observation(temporal=plane, transmission=1 - truth))
    assert opposite.result()["pearson_r_over_all_pixels"] == pytest.approx(-1.0)
    blind = TransmissionProbe()
    blind.add(observation(temporal=plane))
    assert "no true transmission" in blind.result()["not_measured"]


def test_a_dead_head_is_called_dead(tiny_model: LiBrANet) -> None:
    def verdict() -> list[str]:
        probe = LivenessProbe(tiny_model)
        for seed in range(3):
            window = torch.rand(1, 5, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
            probe.add(observation(window=window))
        assert probe.figure() is not None
        return probe.result()["dead"]

    with torch.no_grad():
        for field in (tiny_model.chromatic, tiny_model.temporal):
            field.head.expand.bias.fill_(1.0)
        assert verdict() == []
        tiny_model.temporal.head.expand.bias.fill_(-100.0)
    assert verdict()[0] == "the temporal field is dead"


def test_a_still_clip_has_no_change_and_a_jump_has_its_height(tmp_path: Path, tiny_config) -> None:
    identity = LiBrANet(tiny_config).eval()
    grey = [np.full((32, 48, 3), value, np.uint8) for value in (100, 100, 100, 151, 100)]
    probe = HeatmapProbe(identity)
    probe.add_clip(write_clip(tmp_path / "still", grey[:3]))
    probe.add_clip(write_clip(tmp_path / "jump", [grey[0], grey[3], grey[0], grey[0]]))
    clips = probe.result()["clips"]
    assert clips["still"] == {"hazy": 0.0, "restored": 0.0}
    assert clips["jump"]["restored"] == pytest.approx(0.2, abs=1e-6)
    assert probe.figure() is not None
    short = HeatmapProbe(identity)
    short.add_clip(write_clip(tmp_path / "short", grey[:2]))
    assert short.result() == {"not_measured": "no clip has three frames"}


def test_an_observation_agrees_with_the_network(tmp_path: Path, tiny_model: LiBrANet) -> None:
    random = np.random.default_rng(0)
    clip = write_clip(tmp_path / "clip", [random.integers(0, 256, (42, 61, 3), dtype=np.uint8) for _ in range(7)])
    seen = list(observe(tiny_model, clip, count=2, edges=(24, 60, 61)))
    assert [(s.clip, s.frame) for s in seen] == [("clip", 1), ("clip", 5)]
    assert seen[0].long_edge == 61
    assert list(seen[0].reduced) == [24, 60]
    frame = torch.from_numpy(clip.hazy.read(1)).movedim(-1, 0)[None] / 255
    small = encoder_square(tiny_model, downsample(frame, (17, 24)))  # 42 x 24 / 61 lines
    torch.testing.assert_close(seen[0].reduced[24][:, 2], small)
    window = torch.stack([torch.from_numpy(clip.hazy.read(i)).movedim(-1, 0) / 255 for i in (0, 0, 1, 2, 3)])[None]
    with torch.no_grad():
        whole = tiny_model.predict(window)
    torch.testing.assert_close(seen[0].grids.chromatic, whole.grids.chromatic, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(transforms(seen[0].fused)[0], whole.matrix, atol=1e-5, rtol=1e-4)
