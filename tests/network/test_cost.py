from dataclasses import replace

from libranet.network import LiBrANet, LiBrANetConfig
from libranet.network.cost import PAPER_GFLOPS, PAPER_PARAMETERS, measure_cost
from tiny_network import TINY, make_config


def test_the_default_network_has_the_papers_size():
    cost = measure_cost(LiBrANetConfig())
    assert abs(cost.parameters / PAPER_PARAMETERS - 1) < 0.01
    assert abs(cost.gflops / PAPER_GFLOPS - 1) < 0.03
    assert cost.stream_gflops < cost.gflops


def test_one_residual_block_a_stage_meets_the_papers_size_with_wider_heads():
    default = LiBrANetConfig()
    encoder, fields = replace(default.encoder, blocks=1), replace(default.fields, hidden=608)
    cost = measure_cost(replace(default, encoder=encoder, fields=fields))
    assert abs(cost.parameters / PAPER_PARAMETERS - 1) < 0.01
    assert abs(cost.gflops / PAPER_GFLOPS - 1) < 0.03


def test_parts_add_up_to_the_whole():
    cost = measure_cost(LiBrANetConfig())
    position = 5 * 192
    assert sum(part.parameters for part in cost.parts) + position == cost.parameters
    assert abs(sum(part.window_gflops for part in cost.parts) - cost.gflops) < 1e-6
    assert abs(sum(part.stream_gflops for part in cost.parts) - cost.stream_gflops) < 1e-6


def test_the_count_is_two_per_multiply_add():
    # The refiner's convolutions, counted by hand: every weight is used once per low-resolution pixel.
    model = LiBrANet(TINY)
    weights = sum(p.numel() for n, p in model.refiner.named_parameters() if p.dim() == 4)
    cost = measure_cost(TINY, width=64, height=32)
    refiner = next(part for part in cost.parts if part.name == "refiner")
    assert abs(refiner.window_gflops - 2 * weights * 16 * 8 / 1e9) < 1e-9


def test_grid_prediction_costs_the_same_at_every_size():
    small, large = (measure_cost(TINY, width=w, height=h) for w, h in ((1280, 720), (7680, 4320)))
    for a, b in zip(small.parts, large.parts, strict=True):
        if a.name != "refiner":
            assert a == b


def test_a_variant_counts_only_what_it_has():
    cost = measure_cost(make_config(TINY, temporal_field=False, refiner=False), width=64, height=64)
    assert {part.name for part in cost.parts} == {"chromatic.encoder", "chromatic.head"}
