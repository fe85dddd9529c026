"""The terms of the objective: each sees its own fault and no other, and the total is their weighted sum."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.losses.objective import LieWeights, LossConfig, Objective, charbonnier, lie_regulariser
from libranet.network import Grids, LiBrANet
from tiny_network import TINY


def test_charbonnier_is_epsilon_at_the_target_and_l1_far_from_it():
    target = torch.zeros(2, 3, 8, 8)
    assert abs(float(charbonnier(target, target)) - 1e-3) < 1e-9
    assert abs(float(charbonnier(target + 0.5, target)) - 0.5) < 1e-5
    assert torch.autograd.gradcheck(charbonnier, torch.rand(2, 4, dtype=torch.float64).requires_grad_().unbind(0))


def flat_grids(value: float = 0.0) -> Grids:
    return Grids(torch.full((1, 2, 12, 8, 4, 4), value), torch.full((1, 12, 5, 4, 4), value))


def test_zero_grids_cost_nothing():
    terms = lie_regulariser(flat_grids())
    assert all(float(term) == 0 for term in vars(terms).values())


def test_each_penalty_sees_its_own_fault_and_no_other():
    constant = lie_regulariser(flat_grids(0.5))
    assert float(constant.identity) == pytest.approx(0.25)
    assert float(constant.spatial) == float(constant.temporal) == float(constant.guide) == 0

    translation = flat_grids()
    translation.chromatic[:, :, 9:] = 1.0
    translation.temporal[:, 9:] = 1.0
    assert float(lie_regulariser(translation).identity) == 0  # the prior is on M, not on b

    flicker = flat_grids()
    flicker.temporal[:, :, ::2] = 1.0
    terms = lie_regulariser(flicker)
    assert float(terms.temporal) == pytest.approx(1.0)
    assert float(terms.spatial) == float(terms.guide) == 0

    hue = flat_grids()
    hue.chromatic[:, 0] = 0.3
    assert float(lie_regulariser(hue).guide) == pytest.approx(0.3)

    stripes = flat_grids()
    stripes.chromatic[..., ::2] = 1.0
    assert float(lie_regulariser(stripes).spatial) == pytest.approx(0.5)  # mean of 1 and of the flat temporal grid


def test_the_total_is_the_weighted_sum():
    grids = Grids(torch.randn(2, 2, 12, 8, 4, 4), torch.randn(2, 12, 5, 4, 4))
    weights = LieWeights(identity=1.0, spatial=2.0, temporal=3.0, guide=4.0)
    t = lie_regulariser(grids, weights)
    torch.testing.assert_close(t.total, t.identity + 2 * t.spatial + 3 * t.temporal + 4 * t.guide)


def test_variants_without_a_field_have_a_regulariser_too():
    only_chromatic = lie_regulariser(Grids(torch.randn(1, 2, 12, 8, 4, 4), None))
    assert float(only_chromatic.temporal) == 0
    assert float(only_chromatic.total) > 0
    only_temporal = lie_regulariser(Grids(None, torch.randn(1, 12, 1, 4, 4)))
    assert float(only_temporal.guide) == float(only_temporal.temporal) == 0
    assert float(only_temporal.total) > 0


def test_the_regulariser_trains_the_heads():
    model = LiBrANet(TINY)
    torch.nn.init.normal_(model.chromatic.head.project.weight)
    lie_regulariser(model.predict_grids(torch.rand(1, 5, 3, 32, 32))).total.backward()
    assert model.chromatic.head.project.weight.grad.abs().sum() > 0


@dataclass(frozen=True)
class Guess:
    image: Tensor
    grids: Grids
    small: Tensor | None = None


def test_the_colour_term_sees_a_wrong_colour_and_no_texture():
    clear = torch.full((1, 3, 32, 32), 0.5)
    texture = 0.1 * (1 - 2 * ((torch.arange(32)[:, None] + torch.arange(32)) % 2))  # no colour over 16x16 pixels
    grids = Grids(torch.zeros(1, 2, 12, 8, 4, 4), torch.zeros(1, 12, 5, 4, 4))
    loss = Objective(LossConfig(perceptual="none", colour_weight=0.5), torch.device("cpu"))
    grainy, tinted = (loss(Guess(clear + change, grids), clear) for change in (texture, torch.tensor(0.1)))
    assert torch.isclose(grainy.pixel, tinted.pixel, atol=1e-5)
    assert grainy.colour < 0.002
    assert 0.09 < tinted.colour < 0.11
    assert torch.isclose(tinted.total, tinted.pixel + 0.5 * tinted.colour)


def test_without_weight_there_is_no_colour_term():
    clear, image = torch.zeros(1, 3, 8, 8), torch.ones(1, 3, 8, 8)  # smaller than a colour cell
    grids = Grids(torch.zeros(1, 2, 12, 8, 4, 4), torch.zeros(1, 12, 5, 4, 4))
    terms = Objective(LossConfig(perceptual="none"), torch.device("cpu"))(Guess(image, grids), clear)
    assert terms.colour == 0
    assert torch.equal(terms.total, terms.pixel)


def test_the_field_term_sees_what_the_colour_field_alone_restores():
    clear = torch.rand(2, 3, 32, 48)
    small = F.avg_pool2d(clear, 4)
    grids = Grids(torch.zeros(2, 2, 12, 8, 4, 4), None)
    loss = Objective(LossConfig(perceptual="none", field_weight=0.5), torch.device("cpu"))
    right, wrong = (loss(Guess(clear, grids, small + offset), clear) for offset in (0.0, 0.1))
    assert right.field < 0.002
    assert 0.09 < wrong.field < 0.11
    assert torch.isclose(wrong.total, wrong.pixel + 0.5 * wrong.field)
    assert loss(Guess(clear, grids), clear).field == 0  # a peer has no such field


def test_the_consistency_term_forgives_an_error_that_stays_and_not_one_that_changes():
    clear = torch.rand(4, 3, 16, 16) * 0.5
    grids = Grids(torch.zeros(4, 2, 12, 8, 4, 4), torch.zeros(4, 12, 5, 4, 4))
    loss = Objective(LossConfig(perceptual="none", consistency_weight=2.0), torch.device("cpu"))
    stays, changes = (
        loss(Guess(clear + torch.tensor(offsets).view(4, 1, 1, 1), grids), clear)
        for offsets in ([0.1, 0.1, -0.2, -0.2], [0.1, 0.0, 0.1, 0.0])
    )
    assert stays.consistency < 0.002
    assert 0.09 < changes.consistency < 0.11
    assert torch.isclose(changes.total, changes.pixel + 2 * changes.consistency)
