"""YOLOv8 (any size) in plain torch, for inference: detection measures without ultralytics and torchvision.

The layout is the published one: a CSP backbone, a top-down and a bottom-up path, and a head that gives for every cell
of three scales the distances to the four sides of a box (as distributions over 16 bins) and 80 class scores. The
weights come converted: batch norms are folded into the convolutions. `model.N` counts layers as the files do.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.evaluation.suppression import suppress_doubles

SIDE = 640
_STRIDE = 32
_BINS = 16
_GREY = 114 / 255
_CONFIDENCE, _IOU, _MOST = 0.25, 0.7, 300
"""The published defaults of prediction."""


class YoloV8:
    """A detector with one set of converted weights."""

    def __init__(self, state: Mapping[str, Tensor], name: str, *, device: str | torch.device = "cpu") -> None:
        self._state = {key: tensor.float().to(device) for key, tensor in state.items()}
        self._device = device
        self.name = f"{name} (plain torch, long side {SIDE})"

    @torch.no_grad()
    def detect(
        self,
        image: Tensor,  # [3, H, W] in [0, 1]
    ) -> tuple[Tensor, Tensor]:  # [N, 4] left, top, right, bottom in pixels; [N]
        """Objects with a confidence of at least 0.25."""
        height, width = image.shape[1:]
        x, scale, left, top = letterbox(image.to(self._device))
        boxes, scores = self.forward(x)
        best, labels = scores[0].max(dim=1)
        sure = best >= _CONFIDENCE
        boxes, best, labels = boxes[0][sure].cpu(), best[sure].cpu(), labels[sure].cpu()
        kept = suppress_doubles(boxes, best, labels, _IOU)[:_MOST]
        boxes = (boxes[kept] - torch.tensor([left, top, left, top])) / scale
        limits = torch.tensor([width, height, width, height])
        return torch.minimum(boxes.clamp_min(0), limits), best[kept]

    @torch.no_grad()
    def forward(
        self,
        x: Tensor,  # [B, 3, h, w] in [0, 1], h and w multiples of 32
    ) -> tuple[Tensor, Tensor]:  # [B, N, 4] in pixels of x, [B, N, classes]
        """Boxes and class scores of every cell."""
        x = self._csp(self._conv(self._conv(x, 0, stride=2), 1, stride=2), 2, shortcut=True)
        p3 = self._csp(self._conv(x, 3, stride=2), 4, shortcut=True)
        p4 = self._csp(self._conv(p3, 5, stride=2), 6, shortcut=True)
        p5 = self._pyramid_pool(self._csp(self._conv(p4, 7, stride=2), 8, shortcut=True), 9)
        n4 = self._csp(torch.cat((F.interpolate(p5, scale_factor=2.0), p4), dim=1), 12)
        n3 = self._csp(torch.cat((F.interpolate(n4, scale_factor=2.0), p3), dim=1), 15)
        m4 = self._csp(torch.cat((self._conv(n3, 16, stride=2), n4), dim=1), 18)
        m5 = self._csp(torch.cat((self._conv(m4, 19, stride=2), p5), dim=1), 21)
        found = [self._head(level, maps, 8 * 2**level) for level, maps in enumerate((n3, m4, m5))]
        return torch.cat([boxes for boxes, _ in found], dim=1), torch.cat([scores for _, scores in found], dim=1)

    def _conv(self, x: Tensor, name: int | str, *, stride: int = 1) -> Tensor:
        weight = self._state[f"model.{name}.weight"]
        return F.silu(
            F.conv2d(x, weight, self._state[f"model.{name}.bias"], stride=stride, padding=weight.shape[-1] // 2)
        )

    def _csp(self, x: Tensor, layer: int, *, shortcut: bool = False) -> Tensor:
        parts = list(self._conv(x, f"{layer}.cv1").chunk(2, dim=1))
        index = 0
        while f"model.{layer}.m.{index}.cv1.weight" in self._state:
            y = self._conv(self._conv(parts[-1], f"{layer}.m.{index}.cv1"), f"{layer}.m.{index}.cv2")
            parts.append(parts[-1] + y if shortcut else y)
            index += 1
        return self._conv(torch.cat(parts, dim=1), f"{layer}.cv2")

    def _pyramid_pool(self, x: Tensor, layer: int) -> Tensor:
        parts = [self._conv(x, f"{layer}.cv1")]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, stride=1, padding=2))
        return self._conv(torch.cat(parts, dim=1), f"{layer}.cv2")

    def _head(self, level: int, maps: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        sides, classes = (self._branch(maps, f"22.{branch}.{level}") for branch in ("cv2", "cv3"))
        batch, _, rows, columns = sides.shape
        bins = torch.arange(_BINS, device=maps.device, dtype=maps.dtype)
        distances = (sides.view(batch, 4, _BINS, -1).softmax(dim=2) * bins[:, None]).sum(dim=2)  # [B, 4, cells]
        ys, xs = torch.meshgrid(
            torch.arange(rows, device=maps.device) + 0.5, torch.arange(columns, device=maps.device) + 0.5, indexing="ij"
        )
        centres = torch.stack((xs, ys)).flatten(1)  # [2, cells]
        boxes = torch.cat((centres - distances[:, :2], centres + distances[:, 2:]), dim=1) * stride
        return boxes.transpose(1, 2), classes.flatten(2).sigmoid().transpose(1, 2)

    def _branch(self, maps: Tensor, name: str) -> Tensor:
        x = self._conv(self._conv(maps, f"{name}.0"), f"{name}.1")
        return F.conv2d(x, self._state[f"model.{name}.2.weight"], self._state[f"model.{name}.2.bias"])


def letterbox(
    image: Tensor,  # [3, H, W] in [0, 1]
) -> tuple[Tensor, float, int, int]:  # [1, 3, h, w], scale, left, top
    """Scale to a long side of 640 and pad with grey to multiples of 32, the same on both sides."""
    height, width = image.shape[1:]
    scale = SIDE / max(height, width)
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    x = F.interpolate(image[None].float(), size=size, mode="bilinear", align_corners=False)
    pad_y, pad_x = (-side % _STRIDE for side in size)
    top, left = round(pad_y / 2 - 0.1), round(pad_x / 2 - 0.1)
    return F.pad(x, (left, pad_x - left, top, pad_y - top), value=_GREY), scale, left, top
