"""What makes the package's weights refuses a network with a dead part; wrong neighbours are noticed."""

from types import ModuleType

import pytest
import torch

from libranet.lab.analysis.liveness import gradient_share, neighbour_effect
from libranet.network import LiBrANet, load_model
from libranet.network.liveness import MIN_LIVE, live_units

TOOL = "alive"


def test_neighbours_matter_only_to_a_living_temporal_field(tiny_model: LiBrANet) -> None:
    frames = torch.rand(4, 5, 3, 32, 32)
    assert neighbour_effect(tiny_model, frames) > 0
    with torch.no_grad():
        tiny_model.temporal.head.expand.bias.fill_(-100.0)
    assert neighbour_effect(tiny_model, frames) == 0.0


def test_a_dead_part_has_no_gradient_and_is_named(tool: ModuleType, tiny_model: LiBrANet) -> None:
    windows = tool.probe_windows(tiny_model)
    assert windows.shape == (4, 5, 3, 96, 128)
    assert 0.0 <= windows.min() < windows.max() <= 1.0
    assert tool.why_dead(tiny_model) is None
    alive = gradient_share(tiny_model, windows[:1])
    with torch.no_grad():
        tiny_model.temporal.head.expand.bias.fill_(-100.0)
    assert gradient_share(tiny_model, windows[:1]) < alive - 0.2
    assert tool.why_dead(tiny_model) == (
        "the temporal field is dead: 0% of its head's hidden units are live, expected 90%"
    )


def test_a_field_that_is_cut_off_is_named(tool: ModuleType, tiny_model: LiBrANet) -> None:
    with torch.no_grad():
        tiny_model.temporal.head.project.weight.zero_()
    assert tool.why_dead(tiny_model) == "the temporal field is dead: other neighbours change not one bit of the output"
    torch.manual_seed(0)
    untrained = LiBrANet(tiny_model.config).eval()
    untrained.temporal.head.project.weight.data.normal_(std=0.1)
    assert "of the parameters have a gradient" in (tool.why_dead(untrained) or "")


@pytest.mark.parametrize("name", ["base", "small"])
def test_the_packaged_weights_are_alive_and_look_at_all_frames(tool: ModuleType, name: str) -> None:
    network = load_model(name)
    windows = tool.probe_windows(network)
    shares = live_units(network, windows)
    assert min(shares.values()) > MIN_LIVE, shares
    with torch.no_grad():
        plane = network.predict_grids(windows[:2], centre_only=True).temporal
    assert plane.std(dim=0).mean() > 1e-4, "the temporal grid varies with its input"
    assert neighbour_effect(network, windows[:2]) > 0.05, "in levels of 255"
