"""Values outside [0, 1] are named at the edges: where programs hand frames over."""

import numpy as np
import pytest
import torch

from libranet import Dehazer
from libranet.errors import InputError
from libranet.frames import check_values
from libranet.network import stream_step

BAD = {
    "barely": (1.0001, r"got 0\.5 to 1\.0001 \(1 outside\): clamp"),
    "one float above": (1.0000001, r"got 0\.5 to 1\.0000001 \(1 outside\)"),
    "bytes": (200.0, r"got 0\.5 to 200\.0 \(1 outside\): divide by 255"),
    "negative": (-0.25, r"got -0\.25 to 0\.5"),
    "NaN": (float("nan"), r"got NaN in 1 values"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_outside_is_named(name, tiny_model):
    value, message = BAD[name]
    frame = torch.full((3, 32, 48), 0.5)
    frame[1, 2, 3] = value
    with pytest.raises(InputError, match=message):
        check_values(frame)
    with pytest.raises(InputError, match=message):
        stream_step(tiny_model, frame[None])
    dehazer = Dehazer(tiny_model)
    for given in (frame, np.ascontiguousarray(frame.permute(1, 2, 0))):
        with pytest.raises(InputError, match=message):
            dehazer.push(given)


def test_what_is_inside_passes():
    check_values(torch.tensor([0.0, 1.0, 0.5]))
    check_values(torch.zeros(0))
    check_values(torch.zeros(3, device="meta"))
