"""The network's last step on a CPU in one pass over the frame, by numba."""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor


def upsample_add(
    frame: Tensor,  # [1, 3, H, W] in [0, 1], float32
    correction: Tensor,  # [1, 3, H / scale, W / scale], float32
    residual: Tensor,  # [1, 3 * scale^2, H / scale, W / scale], float32
) -> Tensor:  # [1, 3, H, W] in [0, 1]
    """clamp(frame + upsample(correction) + pixel_shuffle(residual)), as `reference.upsample_add` does."""
    out = torch.empty_like(frame)
    _kernel()(frame[0].numpy(), correction[0].numpy(), residual[0].numpy(), out[0].numpy())
    return out


@cache
def _kernel() -> Any:
    """Compile on first use; numba keeps the result on disk."""
    from numba import prange

    from libranet.kernels.compiled import compiled  # needs numba

    zero, one = np.float32(0.0), np.float32(1.0)

    @compiled(fastmath={"contract", "nsz"}, parallel=True)
    def finish(frame, correction, residual, out):  # type: ignore[no-untyped-def]
        height, h, w = frame.shape[1], correction.shape[1], correction.shape[2]
        scale = height // h
        for row in prange(3 * height):
            colour, y = row // height, row % height
            at_y = min(max((y + 0.5) / scale - 0.5, 0.0), h - 1.0)
            y0 = int(at_y)
            y1, fy = min(y0 + 1, h - 1), np.float32(at_y - y0)
            blended = np.empty(w + 2, np.float32)  # the row of corrections, its ends repeated
            for x in range(w):
                below = correction[colour, y0, x]
                blended[x + 1] = below + fy * (correction[colour, y1, x] - below)
            blended[0], blended[w + 1] = blended[1], blended[w]
            cell, first = y // scale, colour * scale * scale + (y % scale) * scale
            for phase in range(scale):
                offset = (phase + 0.5) / scale - 0.5
                step = 0 if offset < 0 else 1
                fx = np.float32(offset + 1.0 if offset < 0 else offset)
                for x in range(w):
                    place = x * scale + phase
                    left = blended[x + step]
                    value = frame[colour, y, place] + left + fx * (blended[x + step + 1] - left)
                    value += residual[first + phase, cell, x]
                    out[colour, y, place] = min(max(value, zero), one)

    return finish
