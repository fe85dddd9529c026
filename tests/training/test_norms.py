"""Norms in half precision: the same network, with and without autocast."""

import copy

import pytest
import torch
from torch import nn

from libranet.models import LiBrANet, LiBrANetConfig
from libranet.training.batches import Batch
from libranet.training.config import LossConfig, PhotoSourceConfig, TrainConfig
from libranet.training.loop import Trainer
from libranet.training.norms import AmpGroupNorm, use_norms


def test_same_without_autocast(tiny_model: LiBrANet) -> None:
    ours = use_norms(copy.deepcopy(tiny_model), "amp")
    norms = [module for module in ours.modules() if isinstance(module, nn.GroupNorm)]
    assert norms
    assert all(isinstance(module, AmpGroupNorm) for module in norms)
    assert ours.state_dict().keys() == tiny_model.state_dict().keys()
    frames = torch.rand(1, 5, 3, 32, 40)
    assert torch.equal(ours(frames), tiny_model(frames))


def test_maps_stay_in_half_precision_under_autocast(tiny_model: LiBrANet) -> None:
    frames, seen = torch.rand(1, 5, 3, 32, 40), set()
    plain = tiny_model.predict(frames).image
    net = use_norms(tiny_model, "amp")
    for module in net.modules():
        if isinstance(module, nn.GroupNorm):
            module.register_forward_hook(lambda module, inputs, out: seen.add(out.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        image = net.predict(frames).image
    assert seen == {torch.bfloat16}
    assert (image - plain).abs().max() < 0.02
    image.float().mean().backward()
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    assert len(gradients) > 20
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_fp32_changes_nothing(tiny_model: LiBrANet) -> None:
    assert not any(isinstance(module, AmpGroupNorm) for module in use_norms(tiny_model, "fp32").modules())


def test_a_trainer_takes_both_switches(tiny_config: LiBrANetConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []

    def stand_in(function, *, dynamic):
        compiled.append(function)
        return function

    monkeypatch.setattr(torch, "compile", stand_in)
    config = TrainConfig(
        batch=2,
        crops=((32, 32),),
        norms="amp",
        compile=True,
        precision="bf16",
        model=tiny_config,
        loss=LossConfig(perceptual="none"),
        photos=PhotoSourceConfig(),
    )
    trainer = Trainer(config, steps=2, device=torch.device("cpu"))
    before = copy.deepcopy(trainer.model.state_dict())
    frames = torch.rand(2, 5, 3, 32, 32)
    terms, _ = trainer.step(Batch(frames, frames[:, 2].flip(0)))
    assert terms.total.isfinite()
    assert len(compiled) == 1
    assert any(isinstance(module, AmpGroupNorm) for module in trainer.ema.model.modules())
    assert any(not torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())
