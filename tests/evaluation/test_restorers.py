"""Models by name and by path."""

from pathlib import Path

import pytest
import torch
from tiny_set import write_checkpoint

from libranet.errors import CheckpointError, InputError
from libranet.evaluation.restorers import open_restorer, open_restorers
from libranet.network import GridFilter
from libranet.runtime import load_network, make_backend, rgb_frames, rgb_of


def test_names(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "tiny.safetensors")
    models = open_restorers(["identity", "dcp", str(checkpoint), f"again={checkpoint}"])
    assert [model.name for model in models] == ["identity", "dcp", "tiny", "again"]
    assert models[2].fingerprint == models[3].fingerprint
    assert len({model.fingerprint for model in models}) == 3


def test_every_frame_comes_back_once(tmp_path: Path) -> None:
    frames = [torch.rand(3, 32, 40, generator=torch.Generator().manual_seed(i)) for i in range(4)]
    for model in open_restorers(["identity", "dcp", str(write_checkpoint(tmp_path / "tiny.safetensors"))]):
        for _ in range(2):  # a second clip begins afresh
            found = [restored for frame in frames for restored in model.push(frame)] + model.flush()
            assert len(found) == 4, model.name
            assert all(frame.shape == (3, 32, 40) for frame in found)


def test_the_network_runs_through_the_product_s_backend(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "tiny.safetensors")
    frames = [torch.rand(3, 32, 40, generator=torch.Generator().manual_seed(i)) for i in range(6)]
    backend = make_backend(load_network(str(checkpoint), device="cpu"), grid_filter=GridFilter(1.0, 5.0))
    restored = [r for frame in frames for r in backend.push(rgb_frames(frame[None]))] + backend.flush()
    expected = [rgb_of(r) for r in restored]
    model = open_restorer(str(checkpoint))
    model.begin(5.0)
    found = [restored for frame in frames for restored in model.push(frame)] + model.flush()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_another_precision_is_another_model(tmp_path: Path) -> None:
    checkpoint = str(write_checkpoint(tmp_path / "tiny.safetensors"))
    full, half = open_restorer(checkpoint), open_restorer(checkpoint, precision="bf16")
    assert full.fingerprint != half.fingerprint, "results of one must not be taken for the other's"


def test_without_the_filter_it_is_another_model(tmp_path: Path) -> None:
    checkpoint = str(write_checkpoint(tmp_path / "tiny.safetensors"))
    on, off = open_restorer(checkpoint), open_restorer(checkpoint, steady=0.0)
    assert on.fingerprint != off.fingerprint
    frames = [torch.rand(3, 32, 40, generator=torch.Generator().manual_seed(i)) for i in range(6)]
    filtered, alone = ([r for f in frames for r in model.push(f)] + model.flush() for model in (on, off))
    assert not torch.equal(filtered[3], alone[3])


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a model: truth, libranet, base, small, identity"):
        open_restorer("dpc")
    (tmp_path / "model.safetensors").write_bytes(b"not a model at all")
    with pytest.raises(CheckpointError, match="damaged or not a safetensors file"):
        open_restorer(str(tmp_path / "model.safetensors"))
    with pytest.raises(InputError, match="two models are called 'identity'"):
        open_restorers(["identity", "identity"])
    checkpoint = write_checkpoint(tmp_path / "tiny.safetensors")
    with pytest.raises(InputError, match=r"letters, digits"):
        open_restorers([f"../up={checkpoint}"])


def test_the_weights_of_the_package_have_names() -> None:
    named, default = open_restorer("base"), open_restorer("libranet")
    assert (named.name, default.name) == ("base", "libranet")
    assert named.fingerprint == default.fingerprint
