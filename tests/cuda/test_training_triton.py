"""Training with fused norms: the same network, gradients included."""

import copy

import torch

from libranet.models import LiBrANet, LiBrANetConfig

CONFIG = LiBrANetConfig(
    window=1,
    encoder_size=16,
    encoder_widths=(8, 16),
    encoder_blocks=1,
    head_hidden=8,
    attention_heads=2,
    refiner_width=16,
    drop_path=0.0,
    dropout=0.0,
)


def test_same_output_and_gradients(device: str) -> None:
    from libranet.cuda.training import accelerate_training

    torch.manual_seed(0)
    plain = LiBrANet(CONFIG).to(device)
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            if "project" in name:
                parameter.normal_(0.0, 0.05)
    fused = accelerate_training(copy.deepcopy(plain))
    assert fused.state_dict().keys() == plain.state_dict().keys()

    frames = torch.rand(1, 1, 3, 16, 20, device=device)
    images = [net.predict(frames).image for net in (plain, copy.deepcopy(fused))]
    torch.testing.assert_close(images[1], images[0], atol=2e-4, rtol=1e-3)
    gradients = []
    for net in (plain, fused):
        net.predict(frames).image.square().mean().backward()
        gradients.append({name: parameter.grad for name, parameter in net.named_parameters()})
    for name, ours in gradients[1].items():
        torch.testing.assert_close(ours, gradients[0][name], atol=2e-4, rtol=5e-3, msg=name)
