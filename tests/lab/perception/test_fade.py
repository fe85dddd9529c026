"""FADE: the ratio of two distances, so parameters that change places give its inverse; haze makes it larger."""

import pytest
import torch

from libranet.lab.perception.no_reference import NoReference


def test_parameters_that_change_places_give_the_inverse() -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(3, 64, 96, generator=generator)
    sides = {
        side: (torch.rand(12, generator=generator).double(), torch.eye(12, dtype=torch.float64))
        for side in ("clear", "foggy")
    }
    one, other = (
        {f"{name}_{part}": sides[side][at] for name, side in names for at, part in enumerate(("mean", "covariance"))}
        for names in (
            (("clear", "clear"), ("foggy", "foggy")),
            (("clear", "foggy"), ("foggy", "clear")),
        )
    )
    values = [NoReference("fade", parameters).measure(image)["fade"] for parameters in (one, other)]
    assert values[0] > 0
    assert values[0] * values[1] == pytest.approx(1.0, rel=1e-9)
