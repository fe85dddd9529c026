"""Norms in half precision: the same network, with and without autocast."""

import copy

import torch
from torch import nn

from libranet.models import LiBrANet
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
