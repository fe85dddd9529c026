"""The graphs for other runtimes compute what the network computes."""

import pytest
import torch

from libranet.errors import InputError
from libranet.export.check import compare
from libranet.export.graphs import Graph, make_graph
from libranet.kernels.color_field import reference, tents
from libranet.kernels.resample import reference as resample
from libranet.kernels.resample import tents as resample_tents
from libranet.network import GridFilter, LiBrANet
from tiny_network import TINY, make_config, perturb


def run_in_torch(graph: Graph):
    def run(inputs):
        with torch.no_grad():
            outputs = graph(*(torch.from_numpy(inputs[port.name]) for port in graph.inputs()))
        return [t.numpy() for t in (outputs if isinstance(outputs, tuple) else (outputs,))]

    return run


@pytest.mark.parametrize("bins", [1, 2, 8])
def test_slicing_by_tents_equals_trilinear_sampling(bins):
    generator = torch.Generator().manual_seed(bins)
    grid = torch.randn(2, 12, bins, 16, 16, generator=generator)
    guide = torch.rand(2, 45, 61, generator=generator) * 2.4 - 1.2  # beyond both ends, where the border is clamped
    guide[0, 0, :3] = torch.tensor([-1.0, 0.0, 1.0])
    assert (tents.slice_grid(grid, guide) - reference.slice_grid(grid, guide)).abs().max() <= 1e-5


def test_fused_grids_by_tents_equal_the_reference():
    generator = torch.Generator().manual_seed(1)
    low, plane = torch.rand(1, 3, 27, 33, generator=generator), torch.randn(1, 12, 16, 16, generator=generator)
    grids = torch.randn(1, 2, 12, 8, 16, 16, generator=generator)
    for chromatic, temporal in ((grids, plane), (grids, None), (None, plane)):
        expected = reference.fuse_grids(low, chromatic, temporal)
        found = tents.fuse_grids(low, None if chromatic is None else chromatic.flatten(1, 3), temporal)
        assert (found - expected).abs().max() <= 1e-5


@pytest.mark.parametrize("size", [(64, 96), (17, 300), (333, 512)])
def test_resampling_by_tents_equals_antialiased_resizing(size):
    image = torch.rand(1, 3, *size, generator=torch.Generator().manual_seed(0))
    padded = resample.pad_to_multiple(image, 4)
    assert torch.equal(resample_tents.continue_to_multiple(image, 4), padded)
    assert (resample_tents.downsample(image, (32, 32)) - resample.downsample(image, (32, 32))).abs().max() <= 1e-6
    reduced = (padded.shape[2] // 4, padded.shape[3] // 4)
    assert (resample_tents.reduce_by(padded, 4) - resample.downsample(padded, reduced)).abs().max() <= 1e-6


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_reducing_by_any_whole_step_equals_antialiased_resizing(step):
    image = torch.rand(2, 3, 7 * step, 9 * step, generator=torch.Generator().manual_seed(step))
    assert (resample_tents.reduce_by(image, step) - resample.downsample(image, (7, 9))).abs().max() <= 1e-6


@pytest.mark.parametrize("size", [(47, 33), None])
@pytest.mark.parametrize("form", ["still", "window"])
def test_forms_without_state_equal_the_network(tiny_model, form, size):
    graph = make_graph(tiny_model, form, size)
    assert compare(graph, tiny_model, run_in_torch(graph), "torch", frames=3).largest < 0.01


@pytest.mark.parametrize("lookahead", [0, 1, 2])
@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_the_streaming_form_equals_the_stream_first_and_last_frames_included(tiny_model, lookahead, seconds):
    graph = make_graph(tiny_model, "streaming", (47, 33), lookahead=lookahead, grid_filter=GridFilter(seconds))
    assert compare(graph, tiny_model, run_in_torch(graph), "torch", frames=12).largest < 0.01


def test_reset_forgets_the_shot_before(tiny_model):
    graph = make_graph(tiny_model, "streaming", (47, 33), lookahead=0, grid_filter=GridFilter(0.2))
    frames = torch.rand(4, 1, 3, 33, 47, generator=torch.Generator().manual_seed(3))
    fresh = [torch.zeros(port.shape) for port in graph.state()]
    with torch.no_grad():
        expected, *_ = graph(frames[3], torch.ones(1), *fresh)
        state = fresh
        for index, frame in enumerate(frames[:3]):
            _, *state = graph(frame, torch.tensor([float(index == 0)]), *state)
        carried, *_ = graph(frames[3], torch.zeros(1), *state)
        found, *_ = graph(frames[3], torch.ones(1), *state)
    assert torch.equal(found, expected)
    assert not torch.equal(carried, expected)


@pytest.mark.parametrize("missing", ["chromatic_field", "temporal_field", "refiner", "cayley"])
def test_ablated_networks_have_graphs_too(missing):
    torch.manual_seed(0)
    network = perturb(LiBrANet(make_config(TINY, **{missing: False})))
    graph = make_graph(network, "streaming", None, lookahead=1, grid_filter=GridFilter(0.2))
    assert compare(graph, network, run_in_torch(graph), "torch", frames=4).largest < 0.01


def test_a_network_that_slices_at_a_fixed_size_is_refused():
    with pytest.raises(InputError, match="adaptive_slicing"):
        make_graph(LiBrANet(make_config(TINY, adaptive_slicing=False)), "still", None)


def test_a_look_ahead_beyond_the_window_is_refused(tiny_model):
    with pytest.raises(InputError, match="look-ahead of 0 to 2 frames for T=5, got 3"):
        make_graph(tiny_model, "streaming", None, lookahead=3)
