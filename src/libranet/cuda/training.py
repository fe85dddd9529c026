"""Training on the GPU with the fused GroupNorm + GELU: same parameters, same checkpoint, fewer passes over memory."""

import torch
from torch import Tensor, nn

from libranet.models.encoder import EncoderBlock
from libranet.models.libranet import LiBrANet
from libranet.models.refiner import RefinerBlock
from libranet.ops.group_norm_triton import group_norm_gelu


class FusedGroupNorm(nn.GroupNorm):
    """`nn.GroupNorm`, with the GELU that follows it or without, in two passes over channels-last memory."""

    activate = False

    def forward(self, x: Tensor) -> Tensor:
        return group_norm_gelu(x, self.weight, self.bias, self.num_groups, eps=self.eps, activate=self.activate)


class FusedRefinerBlock(RefinerBlock):
    """`RefinerBlock`, whose norm activates as well."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mix(self.norm(self.conv(x)))


def accelerate_training(model: LiBrANet) -> LiBrANet:
    """Turn every GroupNorm of the network into the fused one and convolutions to channels last, in place.

    Parameters keep their names and values, so optimisers, averages and checkpoints do not notice.
    """
    for module in list(model.modules()):
        if isinstance(module, nn.Sequential):
            _fuse_pairs(module)
        elif isinstance(module, RefinerBlock):
            _fuse(module.norm, activate=True)
            module.__class__ = FusedRefinerBlock
        if isinstance(module, EncoderBlock):
            _fuse_pairs(module.branch)
        if isinstance(module, nn.Conv2d):
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def _fuse_pairs(layers: nn.Sequential) -> None:
    """GroupNorm, GELU -> fused, identity; a GroupNorm without GELU is fused alone."""
    for index, layer in enumerate(layers):
        if isinstance(layer, nn.GroupNorm):
            followed = index + 1 < len(layers) and isinstance(layers[index + 1], nn.GELU)
            _fuse(layer, activate=followed or getattr(layer, "activate", False))
            if followed:
                layers[index + 1] = nn.Identity()


def _fuse(norm: nn.GroupNorm, *, activate: bool) -> None:
    norm.__class__ = FusedGroupNorm
    norm.activate = activate  # type: ignore[assignment]
