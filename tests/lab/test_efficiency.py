"""Speed, memory and work, on sizes that a test can afford."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from libranet.lab.bench.efficiency import SIZES, Subject, measure_efficiency
from libranet.lab.paper.tables import choose_table, compare_efficiency
from libranet.lab.peers import Peer, PeerConfig, open_peer
from libranet.network.cost import measure_cost
from libranet.runtime import load_network
from tiny_set import TINY, write_checkpoint

SMALL = ((64, 48), (256, 192))


def test_the_network(tmp_path: Path) -> None:
    network = load_network(str(write_checkpoint(tmp_path / "tiny.safetensors")), device="cpu")
    small, large = measure_efficiency([Subject("tiny", network)], sizes=SMALL, seconds=0.05)
    cost = measure_cost(TINY, width=64, height=48)
    assert small.parameters == cost.parameters
    assert small.gflops == pytest.approx(cost.gflops)
    assert large.gflops is not None
    assert large.gflops > cost.gflops
    assert small.fps is not None
    assert small.fps > 0
    assert small.peak_bytes is None or small.peak_bytes >= 0
    sets = compare_efficiency([small, replace(small, model="truth"), large, replace(small, size=(3840, 2160))])
    assert [t.title for t in sets] == [f"Efficiency at {size}" for size in ("64x48", "256x192", "3840x2160 (4K)")]
    assert [[row.method for row in t.rows][:1] for t in sets] == [["tiny"]] * 3
    assert [len(t.rows) for t in sets[:2]] == [1, 1], "the paper's rows are of 4K, and the truth computes nothing"
    assert ("LiBrA-Net", "reported", ("25.27", "282", "6.12", "-")) in [
        (r.method, r.source, r.cells) for r in sets[2].rows
    ]


def test_a_method_without_weights() -> None:
    (found,) = measure_efficiency([Subject("dcp", open_peer("dcp"))], sizes=SMALL[:1], seconds=0.01)
    assert found.parameters == 0
    assert found.gflops is None


class Greedy(Peer):
    """Restores small frames, asks for more memory than there is for larger ones, and fails on the largest."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("greedy"))

    def restore(self, frames: Tensor) -> Tensor:
        if frames.shape[-1] > 256:
            raise RuntimeError("canUse32BitIndexMath is false\nand more")
        return frames[:, 0] if frames.shape[-1] < 100 else torch.zeros(1 << 42)


def test_out_of_memory_is_reported_and_the_others_go_on() -> None:
    subjects = [Subject("greedy", Greedy().eval()), Subject("clahe", open_peer("clahe"))]
    rows = measure_efficiency(subjects, sizes=(*SMALL, (320, 64)), seconds=0.01)
    assert [row.failure for row in rows if row.model == "greedy"] == [
        "",
        "out of memory",
        "failed: canUse32BitIndexMath is false",
    ]
    assert all(row.fps is not None for row in rows if row.model == "clahe")
    assert rows[2].fps is None


def test_models_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order = []

    class Noted(Greedy):
        def restore(self, frames: Tensor) -> Tensor:
            order.append(self.label)
            time.sleep(0.06)  # longer than a block, so that a turn is one frame
            return frames[:, 0]

    peers = [Noted().eval(), Noted().eval()]
    for label, peer in zip("ab", peers, strict=True):
        peer.label = label  # type: ignore[assignment]
    measure_efficiency([Subject(p.label, p) for p in peers], sizes=SMALL[:1], seconds=0.15)
    assert "".join(order).endswith("ababab")


def test_the_sizes_are_those_people_ask_about() -> None:
    assert list(SIZES.values()) == ["720p", "1080p", "4K", "8K"]
    assert choose_table("Main") == "main"
