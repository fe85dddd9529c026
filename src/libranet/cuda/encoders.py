"""Both encoders and heads in half precision: cuDNN's convolutions, our GroupNorm + GELU."""

import copy
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.models.encoder import GROUPS, Encoder, EncoderBlock
from libranet.models.fields import ChromaticField, TemporalField
from libranet.ops.frame_torch import resize_matrix
from libranet.ops.frame_triton import band, reduce_rows_out
from libranet.ops.group_norm_triton import group_norm_gelu

Field = TypeVar("Field", ChromaticField, TemporalField)

INPUT_CHANNELS = 8
"""Red, green, blue and five zeros: tensor cores take channels by eights."""


class EncoderInput:
    """Reduces frames of one size to the encoders' square: rows by a banded kernel, columns by a matrix product."""

    def __init__(self, batch: int, height: int, width: int, size: int, device: torch.device) -> None:
        self.start, self.weights = (part.to(device) for part in band(resize_matrix(height, size)))
        self.columns = resize_matrix(width, size).half().to(device)  # [W, size]
        self.rows = torch.empty(batch, 3, size, width, dtype=torch.float16, device=device)
        self.small = torch.zeros(batch, INPUT_CHANNELS, size, size, dtype=torch.float16, device=device)
        self.small = self.small.contiguous(memory_format=torch.channels_last)

    def read(
        self,
        frames: Tensor,  # [ring, H, W, 3] uint8
        first: int,
    ) -> Tensor:  # [B, 8, size, size] fp16 in [-1, 1], channels last
        reduce_rows_out(frames, self.start, self.weights, self.rows, first=first)
        square = torch.matmul(self.rows, self.columns)
        self.small[:, :3].copy_(square.mul_(2.0).sub_(1.0).clamp_(-1.0, 1.0))
        return self.small


class FusedChromatic:
    """`ChromaticField` in half precision."""

    def __init__(self, field: ChromaticField, device: torch.device) -> None:
        self.field = _half(field, device)

    def __call__(
        self,
        small: Tensor,  # [B, 8, size, size]
    ) -> Tensor:  # [B, 2, 12, bins, gh, gw] fp16
        grids = self.field.head(run_encoder(self.field.encoder, small)).contiguous()
        return grids.unflatten(1, (2, -1, self.field.bins))


class FusedTemporal:
    """`TemporalField` in half precision."""

    def __init__(self, field: TemporalField, device: torch.device) -> None:
        self.field = _half(field, device)

    def encode(
        self,
        small: Tensor,  # [B, 8, size, size]
    ) -> Tensor:  # [B, C, gh, gw]
        return run_encoder(self.field.encoder, small)

    def mix(
        self,
        features: Tensor,  # [B, T, C, gh, gw]
    ) -> Tensor:  # [B, 12, gh, gw] fp16
        return self.field.mix(features, centre_only=True)[:, :, 0].contiguous()


def run_encoder(encoder: Encoder, x: Tensor) -> Tensor:
    """The encoder's layers, each GroupNorm taking the GELU or the skip connection that follows it along."""
    norm: nn.GroupNorm | None = None
    for layer in encoder.layers:
        if isinstance(layer, nn.GroupNorm):
            norm = layer
        elif isinstance(layer, nn.GELU):
            assert norm is not None
            x = group_norm_gelu(x, norm.weight, norm.bias, GROUPS, eps=norm.eps)
        elif isinstance(layer, EncoderBlock):
            x = _run_block(layer, x)
        else:
            x = layer(x)
    return x


def _run_block(block: EncoderBlock, x: Tensor) -> Tensor:
    conv1, norm1, _, conv2, norm2 = block.branch
    assert isinstance(norm1, nn.GroupNorm)
    assert isinstance(norm2, nn.GroupNorm)
    y = group_norm_gelu(conv1(x), norm1.weight, norm1.bias, GROUPS, eps=norm1.eps)
    return group_norm_gelu(conv2(y), norm2.weight, norm2.bias, GROUPS, eps=norm2.eps, activate=False, residual=x)


def _half(field: Field, device: torch.device) -> Field:
    field = copy.deepcopy(field).to(device, torch.float16).eval().requires_grad_(False)
    stem = field.encoder.layers[0]
    assert isinstance(stem, nn.Conv2d)
    stem.weight = nn.Parameter(F.pad(stem.weight, (0, 0, 0, 0, 0, INPUT_CHANNELS - 3)), requires_grad=False)
    for module in field.modules():
        if isinstance(module, nn.Conv2d):
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return field
