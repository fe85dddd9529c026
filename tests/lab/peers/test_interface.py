"""The one interface of the peers: windows, padding, streams, checkpoints, and the commands that take a peer's name."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from libranet.errors import CheckpointError, InputError
from libranet.evaluation.restorers import open_restorer
from libranet.lab.peers import Peer, PeerConfig, RecurrentPeer, build_peer, load_peer, open_peer
from libranet.network import save_checkpoint
from libranet.network.checkpoint import load_model, read_header
from libranet.runtime import load_network, make_backend, rgb_frames, rgb_of


class Mean(Peer):
    """Stands for a peer that looks both ways: the mean of its window."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("mean", past=2, future=1, divisor=4))

    def restore(self, frames: Tensor) -> Tensor:
        assert frames.shape[1] == 4
        assert frames.shape[-1] % 4 == frames.shape[-2] % 4 == 0
        return frames.mean(dim=1)


class Sum(RecurrentPeer):
    """Stands for a peer with a memory: the sum of all frames so far, over eight."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("sum", past=1))

    def step(self, frame: Tensor, state: Any) -> tuple[Tensor, Any]:
        state = frame if state is None else state + frame
        return state / 8, state


def stream(peer: Peer, frames: list[Tensor], **options: Any) -> list[Tensor]:
    backend = make_backend(peer, **options)
    ready = [rgb_of(r) for frame in frames for r in backend.push(rgb_frames(frame))]
    return ready + [rgb_of(r) for r in backend.flush()]


def clip(count: int) -> list[Tensor]:
    return [torch.full((1, 3, 18, 21), 0.1 * (1 + index)) for index in range(count)]


def test_the_window_is_around_the_centre() -> None:
    frames = torch.stack([f[0] for f in clip(5)])[None]
    assert Mean().config.window == 5
    torch.testing.assert_close(Mean().eval()(frames), torch.full((1, 3, 18, 21), 0.25))  # frames 0, 1, 2, 3
    still = Mean().eval()(frames[:, 2:3], still=True)
    torch.testing.assert_close(still, frames[:, 2])


def test_a_stream_repeats_its_first_and_last_frame() -> None:
    found = [float(image.mean()) for image in stream(Mean().eval(), clip(3))]
    assert found == pytest.approx([(1 + 1 + 1 + 2) / 40, (1 + 1 + 2 + 3) / 40, (1 + 2 + 3 + 3) / 40])


def test_live_needs_no_future() -> None:
    backend = make_backend(Mean().eval(), live=True)
    found = [float(rgb_of(r).mean()) for frame in clip(3) for r in backend.push(rgb_frames(frame))]
    assert found == pytest.approx([0.1, (1 + 1 + 2 + 2) / 40, (1 + 2 + 3 + 3) / 40])


def test_a_memory_begins_anew_at_a_cut_and_after_the_end() -> None:
    peer, frames = Sum().eval(), clip(3)
    backend = make_backend(peer)
    found = [float(rgb_of(r).mean()) for i, f in enumerate(frames) for r in backend.push(rgb_frames(f), cuts=(i == 2,))]
    assert found == pytest.approx([0.1 / 8, 0.3 / 8, 0.3 / 8])
    backend.flush()
    assert float(rgb_of(backend.push(rgb_frames(frames[0]))[0]).mean()) == pytest.approx(0.1 / 8)


def test_strength_scales_the_change() -> None:
    frame = torch.full((1, 3, 16, 16), 0.8)
    half = stream(Sum().eval(), [frame], strength=0.5)[0]
    torch.testing.assert_close(half, torch.full_like(half, 0.45))


def test_a_caller_may_reuse_its_frame() -> None:
    backend, buffer, found = make_backend(Mean().eval(), live=True), torch.empty(1, 3, 16, 16), []
    for value in (0.1, 0.2, 0.3):
        buffer.fill_(value)
        found += [float(rgb_of(r).mean()) for r in backend.push(rgb_frames(buffer))]
    assert found == pytest.approx([0.1, 0.15, 0.225])


def test_methods_without_weights_work_as_models() -> None:
    hazy = torch.rand(1, 1, 3, 40, 52, generator=torch.Generator().manual_seed(0)) * 0.3 + 0.5
    results = {name: open_peer(name)(hazy) for name in ("identity", "clahe", "dcp")}
    assert torch.equal(results["identity"], hazy[:, 0])
    for name in ("clahe", "dcp"):
        assert results[name].shape == (1, 3, 40, 52)
        assert results[name].std() > hazy.std(), f"{name} gives more contrast"


def test_clahe_keeps_steps_finer_than_eight_bits() -> None:
    ramp = torch.linspace(0.4, 0.6, 640).expand(1, 1, 3, 64, 640)
    levels = open_peer("clahe")(ramp)[0, 0, 32].unique()
    assert len(levels) > 100, "8 bits have 51 levels from 0.4 to 0.6"


def test_weights_survive_a_round_trip(tmp_path: Path) -> None:
    peer, path = build_peer("ffa-net", seed=3), tmp_path / "ffa.safetensors"
    save_checkpoint(peer, path, provenance={"steps": 7}, version="0.1")
    assert read_header(path).architecture == "ffa-net"
    again = load_network(str(path), device="cpu")
    named = load_network("ffa-net", weights=str(path), device="cpu")
    assert again.weights.version == "0.1"
    ours, first, second = (network.state_dict() for network in (peer, again, named))
    for name, tensor in ours.items():
        assert torch.equal(tensor, first[name])
        assert torch.equal(tensor, second[name])
    restorer = open_restorer(f"ours={path}")
    assert restorer.name == "ours"


def test_mistakes_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "ffa.safetensors"
    save_checkpoint(build_peer("ffa-net"), path)
    with pytest.raises(InputError, match="train it"):
        open_peer("ffa-net")
    with pytest.raises(InputError, match="dcp has no weights"):
        open_peer("dcp", path)
    with pytest.raises(InputError, match="no peer is called 'ffanet'"):
        open_peer("ffanet")
    with pytest.raises(CheckpointError, match="holds the weights of ffa-net, not of LiBrA-Net"):
        load_model(path)
    with pytest.raises(CheckpointError, match="not a peer"):
        load_peer(Path(__file__).parents[3] / "src/libranet/weights/libranet-base.safetensors")
    with pytest.raises(InputError, match="goes with the name of a network"):
        load_network(str(path), weights=str(path), device="cpu")


def test_a_seed_is_all_that_fresh_weights_depend_on() -> None:
    torch.manual_seed(1)
    first, before = build_peer("ffa-net", seed=5), torch.get_rng_state()
    second = build_peer("ffa-net", seed=5)
    assert torch.equal(torch.get_rng_state(), before), "building must not disturb the caller's random numbers"
    assert torch.equal(first.embed.weight, second.embed.weight)  # type: ignore[union-attr]
