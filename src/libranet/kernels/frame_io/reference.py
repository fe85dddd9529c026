"""What the fused path reads from and writes to 8-bit frames, in plain torch."""

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.kernels.resample.reference import downsample, upsample

CELL = 4
"""Side of the square of pixels that becomes one pixel of the refiner's maps."""


def read_cells(
    frame: Tensor,  # [B, H, W, 3] uint8, H and W multiples of 4
) -> tuple[Tensor, Tensor]:  # [B, 3, h, w] fp32 in [0, 1]; [B, h, w, 64] fp16 in [0, 1)
    """Reduce to a quarter, and lay each 4x4 cell out along channels in the order (row, column, colour), over 256.

    Each pixel row of 12 channels is padded to 16 with zeros, so that convolutions fetch whole blocks. Over 256 and not
    255, because bytes over 256 are exact in half precision; `pack_cell_weight` makes up for it.
    """
    b, height, width, _ = frame.shape
    low = downsample(frame.permute(0, 3, 1, 2) / 255.0, (height // CELL, width // CELL))
    cells = frame.view(b, height // CELL, CELL, width // CELL, CELL * 3).transpose(2, 3)
    return low, (F.pad(cells, (0, 4)).flatten(3) / 256.0).half()


def pack_cell_weight(
    weight: Tensor,  # [Cout, 48, 3, 3] for PixelUnshuffle's channels (colour, row, column) over 255
) -> Tensor:  # [Cout, 64, 3, 3] for the channels of `read_cells`
    """Reorder the detail stream's first convolution, with zeros where the cells are padded."""
    rows = weight.unflatten(1, (3, CELL, CELL)).permute(0, 2, 3, 1, 4, 5).flatten(2, 3)  # [Cout, 4, 12, 3, 3]
    return F.pad(rows, (0, 0, 0, 0, 0, 4)).flatten(1, 2) * (256.0 / 255.0)


def pack_project(
    weight: Tensor,  # [48, Cin, 3, 3] giving PixelShuffle's channels
    bias: Tensor,  # [48]
) -> tuple[Tensor, Tensor]:  # [64, Cin, 3, 3], [64]
    """Reorder the last convolution to (row, column, colour), each row of 12 padded to 16 with zeros."""
    both = torch.cat([weight.flatten(1), bias[:, None]], dim=1)
    rows = both.unflatten(0, (3, CELL, CELL)).permute(1, 2, 0, 3).flatten(1, 2)  # [4, 12, ...]
    padded = F.pad(rows, (0, 0, 0, 4)).flatten(0, 1)
    return padded[:, :-1].reshape(64, *weight.shape[1:]), padded[:, -1].contiguous()


def finish_frame(
    frame: Tensor,  # [B, H, W, 3] uint8
    residual: Tensor,  # [B, h, w, 64], the channels of `pack_project`
    delta: Tensor,  # [B, 3, h, w], the colour correction
    strength: float,
) -> Tensor:  # [B, H, W, 3] uint8
    """Carrier + enlarged correction + residual, clamped and rounded."""
    b, height, width, _ = frame.shape
    cells = residual.float().unflatten(3, (CELL, 16))[..., :12]  # [B, h, w, 4, 12]
    full = cells.transpose(2, 3).reshape(b, height, width, 3)
    image = frame / 255.0 + upsample(delta, (height, width)).permute(0, 2, 3, 1) + strength * full
    return (image.clamp(0.0, 1.0) * 255.0 + 0.5).to(torch.uint8)


def resize_matrix(size: int, target: int, device: torch.device | str = "cpu") -> Tensor:  # [size, target] fp32
    """The antialiased reduction of one axis as a matrix, read off `downsample` itself."""
    eye = torch.eye(size, device=device)[None, None]
    return F.interpolate(eye, size=(size, target), mode="bilinear", align_corners=False, antialias=True)[0, 0]
