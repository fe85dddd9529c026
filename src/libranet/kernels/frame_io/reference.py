"""What the fused path reads from and writes to 8-bit frames, in plain torch."""

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.kernels.resample.reference import downsample, pick_frames, upsample

CELL = 4  # side of the square of pixels that becomes one pixel of the refiner's maps


def read_cells_out(
    frames: Tensor,  # [ring, H, W, 3] uint8, H and W multiples of 4
    low: Tensor,  # [B, 3, h, w] fp32, written, in [0, 1]
    cells: Tensor,  # [B, h, w, 64] fp16, written, in [0, 1)
    *,
    first: int = 0,
) -> None:
    """Reduce B frames of a ring to a quarter, and lay each 4x4 cell out along channels: (row, column, colour) over 256.

    The three colours of a pixel are padded to four channels with a zero, so that convolutions fetch whole blocks. Over
    256 and not 255, because bytes over 256 are exact in half precision; `pack_cell_weight` makes up for it.
    """
    b, _, h, w = low.shape
    picked = pick_frames(frames, first, b)
    low.copy_(downsample(picked.permute(0, 3, 1, 2) / 255.0, (h, w)))
    write_cells(picked / 256.0, cells)


def write_cells(
    pixels: Tensor,  # [B, H, W, 3]
    cells: Tensor,  # [B, h, w, 64], written
) -> None:
    """Lay 4x4 cells out along channels."""
    b, h, w, _ = cells.shape
    padded = F.pad(pixels, (0, 1)).view(b, h, CELL, w, CELL * 4)
    cells.copy_(padded.transpose(2, 3).flatten(3))


def pack_cell_weight(
    weight: Tensor,  # [Cout, 48, 3, 3] for PixelUnshuffle's channels (colour, row, column) over 255
) -> Tensor:  # [Cout, 64, 3, 3] for the channels of `read_cells_out`
    """Reorder the detail stream's first convolution, with zeros where the cells are padded."""
    pixels = weight.unflatten(1, (3, CELL, CELL)).permute(0, 2, 3, 1, 4, 5)  # [Cout, 4, 4, 3, 3, 3]
    return F.pad(pixels, (0, 0, 0, 0, 0, 1)).flatten(1, 3) * (256.0 / 255.0)


def pack_project(
    weight: Tensor,  # [48, Cin, 3, 3] giving PixelShuffle's channels
    bias: Tensor,  # [48]
) -> tuple[Tensor, Tensor]:  # [64, Cin, 3, 3], [64]
    """Reorder the last convolution to (row, column, colour), the colours padded to four with zeros."""
    both = torch.cat([weight.flatten(1), bias[:, None]], dim=1)
    pixels = both.unflatten(0, (3, CELL, CELL)).permute(1, 2, 0, 3)  # [4, 4, 3, ...]
    padded = F.pad(pixels, (0, 0, 0, 1)).flatten(0, 2)
    return padded[:, :-1].reshape(64, *weight.shape[1:]), padded[:, -1].contiguous()


def pixels_of_cells(cells: Tensor) -> Tensor:  # [B, h, w, 64] -> [B, H, W, 3]
    """The pixels of 4x4 cells that lie along channels."""
    b, h, w, _ = cells.shape
    pixels = cells.unflatten(3, (CELL, CELL, 4))[..., :3]  # [B, h, w, 4, 4, 3]
    return pixels.permute(0, 1, 3, 2, 4, 5).reshape(b, CELL * h, CELL * w, 3)


def finish_frame_out(
    frames: Tensor,  # [ring, H, W, 3] uint8
    residual: Tensor,  # [B, h, w, 64] fp16, the channels of `pack_project`
    delta: Tensor,  # [B, 3, h, w] fp32
    strength: Tensor,  # [B] fp32
    out: Tensor,  # [B, H, W, 3] uint8, written
    *,
    first: int = 0,
) -> None:
    """Frame + upsampled correction + residual, clamped and rounded to bytes.

    Args:
        frames: A ring of hazy frames.
        strength: Factor of the residual; the correction has its own already.
        first: Slot of the first frame to read.
    """
    b, height, width, _ = out.shape
    full = pixels_of_cells(residual.float())
    enlarged = upsample(delta, (height, width)).permute(0, 2, 3, 1)
    image = pick_frames(frames, first, b) / 255.0 + enlarged + strength.view(-1, 1, 1, 1) * full
    out.copy_(image.clamp(0.0, 1.0) * 255.0 + 0.5)
