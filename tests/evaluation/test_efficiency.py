"""Speed, memory and work, on sizes that a test can afford."""

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_set import TINY, write_checkpoint

from libranet.evaluation.efficiency import SIZES, measure_efficiency
from libranet.evaluation.restorers import open_restorer
from libranet.evaluation.tables import choose_table, compare_efficiency
from libranet.models.cost import measure_cost

SMALL = ((64, 48), (256, 192))


def test_the_network(tmp_path: Path) -> None:
    model = open_restorer(str(write_checkpoint(tmp_path / "tiny.safetensors")))
    small, large = measure_efficiency(model, sizes=SMALL, frames=2)
    cost = measure_cost(TINY, width=64, height=48)
    assert small.parameters == cost.parameters
    assert small.gflops == pytest.approx(cost.gflops)
    assert large.gflops is not None
    assert large.gflops > cost.gflops
    assert small.fps > 0
    assert small.peak_bytes is None or small.peak_bytes >= 0
    table = compare_efficiency([small, large, replace(small, size=(3840, 2160))])
    assert [row.method for row in table.rows[:3]] == ["tiny, 64x48", "tiny, 256x192", "tiny, 4K (3840x2160)"]
    assert [row.source for row in table.rows[1:4]] == ["measured", "measured", "reported"]
    assert ("LiBrA-Net", "reported", ("25.27", "282", "6.12", "-")) in [
        (r.method, r.source, r.cells) for r in table.rows
    ]


def test_a_method_without_weights() -> None:
    (found,) = measure_efficiency(open_restorer("dcp"), sizes=SMALL[:1], frames=1)
    assert found.parameters == 0
    assert found.gflops is None


def test_the_sizes_are_those_people_ask_about() -> None:
    assert list(SIZES.values()) == ["720p", "1080p", "4K", "8K"]
    assert choose_table("Main") == "main"
