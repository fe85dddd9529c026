"""Heads about a grey level: the same network, an ordinary checkpoint, and another direction of learning."""

import copy
import dataclasses

import pytest
import torch

from libranet.models import LiBrANet, load_model
from libranet.training.centred_heads import CentredHead, centre_heads, fold_heads
from libranet.training.config import LossConfig, OptimiserConfig, PhotoSourceConfig, TrainConfig
from libranet.training.dataloader import Batch
from libranet.training.trainer import Trainer
from tiny_network import TINY, perturb


def test_centring_changes_nothing_that_the_network_computes(tiny_model: LiBrANet) -> None:
    frames = torch.rand(1, 5, 3, 32, 40)
    centred = copy.deepcopy(tiny_model)
    centre_heads(centred, 0.8)
    plain = fold_heads(centred)
    assert isinstance(centred.chromatic.head, CentredHead)
    assert not any(isinstance(module, CentredHead) for module in plain.modules())
    assert not torch.equal(centred.chromatic.head.project.weight, tiny_model.chromatic.head.project.weight)
    for model in (centred, plain):
        assert torch.allclose(model(frames), tiny_model(frames), atol=1e-5)


def test_a_matrix_alone_leaves_the_pivot_where_it_is() -> None:
    model = LiBrANet(TINY).eval()
    centre_heads(model, 0.8)
    with torch.no_grad():
        bias = model.chromatic.head.project.bias.view(2, 12, -1)
        bias[:, [0, 4, 8]] = 0.1  # more contrast
    grids = model.predict_grids(torch.rand(1, 5, 3, 32, 32)).chromatic[0, 0, :, 0, 0, 0]
    moved = grids[:9].view(3, 3) @ torch.full((3,), 0.8) + grids[9:]
    assert float(grids[0].detach()) == pytest.approx(0.1)
    assert torch.allclose(moved, torch.zeros(3), atol=1e-6)


@pytest.mark.parametrize("missing", ["chromatic_field", "temporal_field"])
def test_variants_without_a_field(missing: str) -> None:
    model = perturb(LiBrANet(dataclasses.replace(TINY, **{missing: False})).eval())
    frames = torch.rand(1, 5, 3, 32, 40)
    centred = copy.deepcopy(model)
    centre_heads(centred, 0.7)
    assert torch.allclose(centred(frames), model(frames), atol=1e-5)


def test_a_run_with_a_pivot_leaves_an_ordinary_checkpoint(tmp_path) -> None:
    config = TrainConfig(
        batch=2, pivot=0.8, ema=0.0, precision="fp32", model=TINY, photos=PhotoSourceConfig(),
        loss=LossConfig(perceptual="none"), optimiser=OptimiserConfig(lr=1e-3),
    )  # fmt: skip
    trainer = Trainer(config, steps=10, device=torch.device("cpu"))
    frames = torch.rand(2, 5, 3, 32, 32)
    for _ in range(2):
        trainer.step(Batch(frames, frames[:, 2] * 0.5))
    trainer.save(tmp_path, {})
    loaded, averaged = load_model(tmp_path / "model.safetensors"), trainer.ema.model.eval()
    assert (averaged(frames) - frames[:, 2]).abs().max() > 1e-4
    assert torch.allclose(loaded(frames), averaged(frames), atol=1e-5)
