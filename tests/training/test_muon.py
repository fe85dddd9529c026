"""Muon: orthogonal steps of AdamW's size for hidden matrices, AdamW's for the rest, and none where none may be."""

import copy

import pytest
import torch

from libranet.network import LiBrANet
from libranet.training.muon import Muon, orthogonalise, orthogonalise_all
from tiny_network import TINY


@pytest.mark.parametrize("shape", [(2, 6, 40), (3, 40, 6), (1, 16, 16)])
def test_singular_values_come_near_one_and_directions_stay(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    turned = u.transpose(1, 2) @ orthogonalise(matrices) @ v.transpose(1, 2)
    values = turned.diagonal(dim1=1, dim2=2)
    assert float(values.min()) > 0.3
    assert float(values.max()) < 1.4
    assert float((turned - torch.diag_embed(values)).abs().max()) < 0.02


def test_padding_to_few_sizes_changes_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(6, 40), (40, 6), (16, 16), (70, 300), (200, 80), (6, 40)]
    matrices = [torch.randn(shape, generator=generator) for shape in shapes]
    alone = orthogonalise_all(matrices, few_calls=False)
    padded = orthogonalise_all(matrices, few_calls=True)
    for matrix, one, other in zip(matrices, alone, padded, strict=True):
        assert one.shape == other.shape == matrix.shape
        torch.testing.assert_close(one, orthogonalise(matrix[None])[0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def model_with_gradients() -> LiBrANet:
    torch.manual_seed(0)
    model = LiBrANet(TINY)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    return model


def test_every_parameter_moves_by_about_as_much_as_with_adamw() -> None:
    model = model_with_gradients()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = Muon(model, lr=1e-3, weight_decay=0.0)
    orthogonal = {id(p) for p in optimiser.param_groups[0]["params"]}
    optimiser.step()
    names = [name for name, p in model.named_parameters() if id(p) in orthogonal]
    assert any("attention" in name for name in names)
    assert any("branch" in name for name in names)
    assert not any("project" in name or "position" in name or "norm" in name for name in names)
    for name, parameter in model.named_parameters():
        moved = float((parameter.detach() - before[name]).square().mean().sqrt())
        low, high = (0.5e-4, 3e-4) if id(parameter) in orthogonal else (0.9e-3, 1.1e-3)
        assert low < moved < high, name


def test_weights_decay_and_norms_do_not() -> None:
    model = model_with_gradients()
    for parameter in model.parameters():
        parameter.grad.zero_()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    Muon(model, lr=1e-2, weight_decay=0.1).step()
    for name, parameter in model.named_parameters():
        factor = 1.0 if parameter.dim() <= 1 or name.endswith("position") else 1 - 1e-3
        torch.testing.assert_close(parameter.detach(), before[name] * factor)


def test_a_step_that_must_change_nothing_changes_nothing() -> None:
    model = model_with_gradients()
    optimiser = Muon(model, lr=1e-3, weight_decay=0.1)
    optimiser.step()
    before = copy.deepcopy((model.state_dict(), optimiser.state_dict()["state"]))
    for parameter in model.parameters():
        parameter.grad.fill_(torch.nan)
    optimiser.found_inf = torch.ones(())
    optimiser.step()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[0][name]), name
    for index, slots in optimiser.state_dict()["state"].items():
        assert all(torch.equal(value, before[1][index][key]) for key, value in slots.items())
