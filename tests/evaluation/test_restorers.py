"""Models by name and by path."""

from pathlib import Path

import pytest
import torch
from tiny_set import write_checkpoint

from libranet.errors import CheckpointError, InputError
from libranet.evaluation.restorers import open_restorer, open_restorers


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
            model.begin()
            out = [model.step(frame) for frame in frames]
            while (rest := model.step(None)) is not None:
                out.append(rest)
            found = [frame for frame in out if frame is not None]
            assert len(found) == 4, model.name
            assert all(frame.shape == (3, 32, 40) for frame in found)


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="identity, dcp, truth, libranet or the path"):
        open_restorer("dpc")
    (tmp_path / "model.safetensors").write_bytes(b"not a model at all")
    with pytest.raises(CheckpointError, match="damaged or not a safetensors file"):
        open_restorer(str(tmp_path / "model.safetensors"))
    with pytest.raises(InputError, match="two models are called 'identity'"):
        open_restorers(["identity", "identity"])
    checkpoint = write_checkpoint(tmp_path / "tiny.safetensors")
    with pytest.raises(InputError, match=r"letters, digits"):
        open_restorers([f"../up={checkpoint}"])
