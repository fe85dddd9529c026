"""The training pass on kernels: the same network, gradients included."""

import copy

import pytest
import torch

from libranet.losses import lie_regulariser
from libranet.network import LiBrANet
from tiny_network import SMALLEST, perturb


@pytest.mark.usefixtures("exact_convolutions")
@pytest.mark.parametrize(
    ("still", "count"),
    [
        pytest.param(False, 3, marks=pytest.mark.slow),
        pytest.param(True, 1, marks=pytest.mark.slow),
        pytest.param(False, 4, marks=pytest.mark.slow),  # two windows
        (True, 2),
    ],
)
def test_same_output_and_gradients(device: str, still: bool, count: int) -> None:
    from libranet.runtime.gpu.training import predict

    torch.manual_seed(0)
    plain = perturb(LiBrANet(SMALLEST)).to(device).train()
    fused = copy.deepcopy(plain)
    frames = torch.rand(2, count, 3, 18, 20, device=device)  # 18 is no multiple of the scale
    windows = count if still else count - SMALLEST.window + 1
    clear = torch.rand(2 * windows, 3, 18, 20, device=device)
    images, gradients = [], []
    for net, prediction in ((plain, plain.predict(frames, still=still)), (fused, predict(fused, frames, still=still))):
        images.append(prediction.image)
        loss = (prediction.image - clear).square().mean() + lie_regulariser(prediction.grids).total
        loss.backward()
        gradients.append({name: parameter.grad for name, parameter in net.named_parameters()})
    torch.testing.assert_close(images[1], images[0], atol=2e-4, rtol=1e-3)
    for name, ours in gradients[1].items():
        largest = float(gradients[0][name].abs().max())
        torch.testing.assert_close(ours, gradients[0][name], atol=2e-3 * largest, rtol=5e-3, msg=name)


def test_branches_are_dropped_for_whole_samples(device: str) -> None:
    from libranet.network.layers import StochasticDepth
    from libranet.runtime.gpu.training import _draw_keep

    drop = StochasticDepth(0.25)
    keep = _draw_keep(drop.train(), 400, torch.device(device))
    assert set(keep.tolist()) == {0.0, float(torch.tensor(1 / 0.75))}
    assert 0.6 < float((keep > 0).float().mean()) < 0.9
    assert torch.equal(_draw_keep(drop.eval(), 3, torch.device(device)), torch.ones(3, device=device))
