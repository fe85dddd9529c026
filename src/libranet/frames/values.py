"""The values of frames that programs hand over: outside [0, 1] they are a mistake that would show as wrong colours."""

import torch
from torch import Tensor

from libranet.errors import InputError

MAX_PIXELS = 1 << 27  # larger frames and images need more memory than the network can be given


def check_values(frames: Tensor) -> None:  # floating point
    """Refuse values outside [0, 1]. Frames on a GPU are not read: waiting for it costs more than a frame."""
    if frames.device.type != "cpu" or frames.numel() == 0:
        return
    low, high = frames.detach().aminmax()
    if low >= 0.0 and high <= 1.0:  # not so with NaN
        return
    outside = int(((frames < 0) | (frames > 1)).sum())
    if not outside:
        raise InputError(f"expected values in [0, 1], got NaN in {int(torch.isnan(frames).sum())} values")
    remedy = "divide by 255 first" if high > 2.0 else "clamp them first"
    raise InputError(
        f"expected values in [0, 1], got {_shortest(low)} to {_shortest(high)} ({outside} outside): {remedy}"
    )


def _shortest(value: Tensor) -> str:  # []
    """The shortest number that is this value: 1.0001, where rounding would say 1."""
    return str((value.float() if value.dtype == torch.bfloat16 else value).numpy()[()])
