"""The network's training pass on our kernels: same parameters, same checkpoint, fewer passes over memory.

Maps stay in channels last, where cuDNN's convolutions need no conversion; GroupNorm, GELU, stochastic depth and skip
connections happen together, and so does the colour field. Run it under autocast.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.kernels.attention.triton import attend
from libranet.kernels.color_field.triton import apply_field
from libranet.kernels.residual_norm.triton import add_bias, residual_norm
from libranet.kernels.upsample_add.triton import upsample_add
from libranet.network.forward import TorchOperations, restore, scaled
from libranet.network.layers import Encoder, EncoderBlock, Refiner, RefinerBlock, StochasticDepth, TemporalField
from libranet.network.libranet import Grids, LiBrANet


@dataclass(frozen=True)
class Prediction:
    """What the loss reads."""

    image: Tensor  # [B, 3, H, W] in [0, 1]
    small: Tensor  # [B, 3, h, w] in [0, 1], restored by the colour field alone
    grids: Grids


def predict(
    model: LiBrANet,
    frames: Tensor,  # [B, T + K - 1, 3, H, W] in [0, 1], or [B, K, 3, H, W] with `still`; data: they get no gradient
    *,
    still: bool = False,
) -> Prediction:
    """`LiBrANet.predict` for a network that the kernels cover (`support.why_not_network`)."""
    assert model.chromatic is not None
    assert model.temporal is not None
    assert model.refiner is not None
    small = _channels_last(model.encoder_input(frames.flatten(0, 1)))
    centre = model.centres(small.unflatten(0, frames.shape[:2]), still=still).flatten(0, 1)
    features = _encode(model.temporal.encoder, small).unflatten(0, frames.shape[:2])
    temporal = _mix(model.temporal, model.windows(features, still=still))
    chromatic = model.chromatic.head(_encode(model.chromatic.encoder, _channels_last(centre)))
    chromatic = chromatic.unflatten(1, (2, -1, model.config.fields.bins))

    grids = Grids(chromatic, temporal)
    image, small = restore(model.centres(frames, still=still).flatten(0, 1), grids, _TrainingOperations(model))
    return Prediction(image, small, grids)


class _TrainingOperations(TorchOperations):
    """The forward pass by kernels that have gradients. Frames are data: they get none."""

    def apply_field(self, low: Tensor, grids: Grids, strength: float) -> Tensor:
        assert grids.chromatic is not None
        assert grids.plane is not None
        small, self._delta = apply_field(low, scaled(grids.chromatic, strength), scaled(grids.plane, strength))
        return small

    def correction(self, small: Tensor, low: Tensor) -> Tensor:
        return self._delta

    def refine(self, carrier: Tensor, small: Tensor) -> Tensor:  # [B, 3 * scale^2, h, w]
        assert self.network.refiner is not None
        return _refine(self.network.refiner, carrier, small)

    def add_back(self, carrier: Tensor, correction: Tensor, residual: Tensor | None, strength: float) -> Tensor:
        assert residual is not None
        image = upsample_add(carrier, correction, scaled(residual, strength))
        return image[..., : self._shape[-2], : self._shape[-1]]


def _encode(encoder: Encoder, x: Tensor) -> Tensor:  # [N, 3, S, S] -> [N, C, s, s]
    for layer in encoder.layers:
        if isinstance(layer, EncoderBlock):
            first, norm, _, second, last = layer.branch
            assert isinstance(norm, nn.GroupNorm)
            assert isinstance(last, nn.GroupNorm)
            y = second(_norm(first(x), norm))
            x = _norm(y, last, activate=False, residual=x, keep=_draw_keep(layer.drop_path, len(x), x.device))
        elif isinstance(layer, nn.GroupNorm):
            x = _norm(x, layer)  # with the GELU that follows it
        elif isinstance(layer, nn.Conv2d):
            x = layer(x)
    return x


def _draw_keep(drop: StochasticDepth, n: int, device: torch.device) -> Tensor:  # [n] fp32
    """The factor of each sample's residual branch."""
    if not drop.training or drop.rate == 0.0:
        return torch.ones(n, device=device)
    return (torch.rand(n, device=device) >= drop.rate) / (1.0 - drop.rate)


def _mix(field: TemporalField, features: Tensor) -> Tensor:  # [B, T, C, gh, gw] -> [B, 12, T, gh, gw]
    b, (gh, gw) = len(features), features.shape[-2:]
    rows = features.permute(0, 1, 3, 4, 2) + field.position.permute(0, 1, 3, 4, 2)
    tokens = rows.permute(0, 2, 3, 1, 4).flatten(0, 2)  # [B * gh * gw, T, C]
    a = field.attention
    normed = a.norm1(tokens)
    tokens = tokens + a.out(attend(a.query(normed), a.key_value(normed), a.heads))
    tokens = tokens + a.ffn(a.norm2(tokens))
    planes = tokens.unflatten(0, (b, gh, gw)).permute(0, 3, 1, 2, 4).flatten(0, 1).permute(0, 3, 1, 2)
    return field.head(planes).unflatten(0, (b, -1)).transpose(1, 2)


def _refine(
    refiner: Refiner,
    frame: Tensor,  # [B, 3, H, W]
    restored: Tensor,  # [B, 3, H / scale, W / scale]
) -> Tensor:  # [B, 3 * scale^2, H / scale, W / scale]
    detail = _stream(refiner.detail, F.pixel_unshuffle(frame, refiner.scale))
    structure = _stream(refiner.structure, restored)
    x = _convolve(refiner.join, torch.cat([detail, structure], dim=1))
    x = _refiner_blocks(refiner.fusion, x)
    return _convolve(refiner.project, x)


def _stream(stream: nn.Sequential, x: Tensor) -> Tensor:
    conv, norm = stream[0], stream[1]
    assert isinstance(norm, nn.GroupNorm)
    return _refiner_blocks(stream, _norm(conv(_channels_last(x)), norm))


def _refiner_blocks(layers: nn.Sequential, x: Tensor) -> Tensor:
    for block in layers:
        if isinstance(block, RefinerBlock):
            x = _convolve(block.mix, _norm(block.conv(x), block.norm), residual=x)
    return x


def _convolve(conv: nn.Conv2d, x: Tensor, *, residual: Tensor | None = None) -> Tensor:
    """A convolution with bias, plus a residual."""
    assert conv.bias is not None
    return add_bias(F.conv2d(x, conv.weight, padding=conv.padding), conv.bias, residual)


def _norm(
    x: Tensor,
    norm: nn.GroupNorm,
    *,
    activate: bool = True,
    residual: Tensor | None = None,
    keep: Tensor | None = None,
) -> Tensor:
    return residual_norm(
        x, norm.weight, norm.bias, norm.num_groups, eps=norm.eps, activate=activate, residual=residual, keep=keep
    )


def _channels_last(x: Tensor) -> Tensor:
    """In the precision that convolutions will use, and in their layout."""
    dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
    return x.to(dtype, memory_format=torch.channels_last)
