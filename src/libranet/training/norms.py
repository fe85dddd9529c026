"""How GroupNorm computes while training. Parameters and checkpoints are the same either way."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.models.libranet import LiBrANet

Norms = Literal["fp32", "amp"]


class AmpGroupNorm(nn.GroupNorm):
    """`nn.GroupNorm` in the precision of its input. Autocast would turn maps into float32 and back, which costs more
    time than the norm; mean and variance are accumulated in float32 anyway.
    """

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return F.group_norm(x, self.num_groups, self.weight.to(x.dtype), self.bias.to(x.dtype), self.eps)


def use_norms(model: LiBrANet, norms: Norms) -> LiBrANet:
    """Choose in place: `fp32` as autocast does it, or `amp` in half precision."""
    if norms == "amp":
        for module in model.modules():
            if type(module) is nn.GroupNorm:
                module.__class__ = AmpGroupNorm
    return model
