from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.models.libranet import Grids
from libranet.training.config import LossConfig
from libranet.training.objective import Objective


@dataclass(frozen=True)
class Guess:
    image: Tensor
    grids: Grids


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


def test_the_steady_term_forgives_an_error_that_stays_and_not_one_that_changes():
    clear = torch.rand(4, 3, 16, 16) * 0.5
    grids = Grids(torch.zeros(4, 2, 12, 8, 4, 4), torch.zeros(4, 12, 5, 4, 4))
    loss = Objective(LossConfig(perceptual="none", steady_weight=2.0), torch.device("cpu"))
    stays, changes = (
        loss(Guess(clear + torch.tensor(offsets).view(4, 1, 1, 1), grids), clear)
        for offsets in ([0.1, 0.1, -0.2, -0.2], [0.1, 0.0, 0.1, 0.0])
    )
    assert stays.steady < 0.002
    assert 0.09 < changes.steady < 0.11
    assert torch.isclose(changes.total, changes.pixel + 2 * changes.steady)
