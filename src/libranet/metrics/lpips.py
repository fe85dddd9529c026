"""LPIPS v0.1: the distance of two frames in the features of a classification network (Zhang et al. 2018).

Each layer's features are scaled to length one at every pixel; the squared differences are weighted per channel by the
published heads, summed over channels, averaged over pixels, and summed over five layers. Lower is closer.
"""

from collections.abc import Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError
from libranet.metrics.frame_pair import check_frame, check_pair

Backbone = Literal["alexnet", "vgg16"]

_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)
_SMALLEST: dict[Backbone, int] = {"alexnet": 35, "vgg16": 16}


class Lpips:
    """The distance with one set of weights.

    >>> distance = Lpips(load_weights(find_model("lpips-alexnet")))
    >>> distance(restored, clear)
    """

    def __init__(
        self,
        state: Mapping[str, Tensor],  # `features.N.weight`, `features.N.bias`, `heads.N` [C]
        *,
        device: str | torch.device = "cpu",
    ) -> None:
        self.backbone: Backbone = "alexnet" if state["features.0.weight"].shape[-1] == 11 else "vgg16"
        self._state = {name: tensor.to(device) for name, tensor in state.items()}
        self._mean = torch.tensor(_MEAN, device=device)[:, None, None]
        self._std = torch.tensor(_STD, device=device)[:, None, None]

    def __call__(
        self,
        image: Tensor,  # [3, H, W] in [0, 1]
        reference: Tensor,  # [3, H, W] in [0, 1]
    ) -> float:
        """Compute the distance of two frames: 0 for equal ones."""
        check_pair(image, reference)
        return self.distance(self.features(image), self.features(reference))

    @torch.no_grad()
    def features(
        self,
        image: Tensor,  # [3, H, W] in [0, 1]
    ) -> list[Tensor]:  # five maps [C, h, w] of unit length at every pixel
        """Compute one frame's features; keep them to compare several frames with one reference."""
        check_frame(image)
        if min(image.shape[1:]) < (least := _SMALLEST[self.backbone]):
            raise InputError(f"LPIPS needs frames of at least {least}x{least}, got {image.shape[2]}x{image.shape[1]}")
        x = ((image.float() - self._mean) / self._std)[None]
        maps = self._alexnet(x) if self.backbone == "alexnet" else self._vgg16(x)
        return [m[0] / (m[0].square().sum(dim=0, keepdim=True).sqrt() + 1e-10) for m in maps]

    @torch.no_grad()
    def distance(self, one: list[Tensor], other: list[Tensor]) -> float:
        """Compute the distance of two frames from their features."""
        total = one[0].new_zeros((), dtype=torch.float64)
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            per_channel = (a - b).square().flatten(1).mean(dim=1)  # the head is linear: average first, then weight
            total += (per_channel * self._state[f"heads.{index}"]).double().sum()
        return float(total)

    def _conv(self, x: Tensor, layer: int, *, stride: int = 1, padding: int = 1) -> Tensor:
        weight, bias = self._state[f"features.{layer}.weight"], self._state[f"features.{layer}.bias"]
        return F.relu(F.conv2d(x, weight, bias, stride=stride, padding=padding))

    def _alexnet(self, x: Tensor) -> list[Tensor]:
        one = self._conv(x, 0, stride=4, padding=2)
        two = self._conv(F.max_pool2d(one, 3, stride=2), 3, padding=2)
        three = self._conv(F.max_pool2d(two, 3, stride=2), 6)
        four = self._conv(three, 8)
        return [one, two, three, four, self._conv(four, 10)]

    def _vgg16(self, x: Tensor) -> list[Tensor]:
        maps: list[Tensor] = []
        for block in ((0, 2), (5, 7), (10, 12, 14), (17, 19, 21), (24, 26, 28)):
            if maps:
                x = F.max_pool2d(x, 2)
            for layer in block:
                x = self._conv(x, layer)
            maps.append(x)
        return maps
