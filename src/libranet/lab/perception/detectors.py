"""Frozen object detectors, each behind one method: YOLOv8 in plain torch, FastestDet by ONNX, others by ultralytics."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from libranet.errors import InputError, MissingDependencyError
from libranet.thirdparty import explain_absence, find_model, find_weights

MIN_CONFIDENCE = 0.25
"""Detections below this do not count, unless a precision-recall curve needs them."""
DETECTOR_NAMES = ("yolov8n", "yolov8s", "fastestdet")

_YOLO_SIDE = 640
_YOLO_STRIDE = 32
_YOLO_BINS = 16
_YOLO_GREY = 114 / 255
_YOLO_IOU, _YOLO_MOST = 0.7, 300  # the published defaults of prediction
_FASTESTDET_SIDE = 352
_FASTESTDET_IOU = 0.45


class Detector(Protocol):
    """Finds objects in a frame."""

    name: str

    def detect(
        self,
        image: Tensor,  # [3, H, W] in [0, 1]
        *,
        least: float = MIN_CONFIDENCE,
    ) -> tuple[Tensor, Tensor, Tensor]:  # [N, 4] left, top, right, bottom in pixels; [N] confidences; [N] COCO classes
        """Detect all objects that have at least this confidence."""
        ...


def open_detector(place: Path, device: str = "cpu", *, cache: Path | None = None) -> Detector:
    """Open a detector by its file, or by a name of the table: .onnx is FastestDet, .pt belongs to ultralytics."""
    path = place
    if not path.is_file():
        if str(place) not in DETECTOR_NAMES:
            raise InputError(f"no detector at {place}: expected a file or one of {', '.join(DETECTOR_NAMES)}")
        found = find_weights(find_model(str(place)), cache)
        if found is None:
            raise InputError(explain_absence(find_model(str(place))))
        path = found
    if path.suffix == ".onnx":
        return FastestDet(path)
    if path.suffix == ".safetensors":
        return YoloV8(load_file(path), path.stem, device=device)
    return UltralyticsDetector(path, device)


class YoloV8:
    """YOLOv8 of any size in plain torch, for inference, without ultralytics and torchvision.

    The layout is the published one: a CSP backbone, a top-down and a bottom-up path, and a head that gives for every
    cell of three scales the distances to the four sides of a box (as distributions over 16 bins) and 80 class scores.
    The weights come converted: batch norms are folded into the convolutions. `model.N` counts layers as the files do.
    """

    def __init__(self, state: Mapping[str, Tensor], name: str, *, device: str | torch.device = "cpu") -> None:
        self._state = {key: tensor.float().to(device) for key, tensor in state.items()}
        self._device = device
        self.name = f"{name} (plain torch, long side {_YOLO_SIDE})"

    @torch.no_grad()
    def detect(self, image: Tensor, *, least: float = MIN_CONFIDENCE) -> tuple[Tensor, Tensor, Tensor]:
        height, width = image.shape[1:]
        x, scale, left, top = letterbox(image.to(self._device))
        boxes, scores = self.forward(x)
        best, labels = scores[0].max(dim=1)
        sure = best >= least
        boxes, best, labels = boxes[0][sure].cpu(), best[sure].cpu(), labels[sure].cpu()
        kept = nms(boxes, best, labels, _YOLO_IOU)[:_YOLO_MOST]
        boxes = (boxes[kept] - torch.tensor([left, top, left, top])) / scale
        limits = torch.tensor([width, height, width, height])
        return torch.minimum(boxes.clamp_min(0), limits), best[kept], labels[kept]

    @torch.no_grad()
    def forward(
        self,
        x: Tensor,  # [B, 3, h, w] in [0, 1], h and w multiples of 32
    ) -> tuple[Tensor, Tensor]:  # [B, N, 4] in pixels of x, [B, N, classes]
        """Compute boxes and class scores of every cell."""
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
        bins = torch.arange(_YOLO_BINS, device=maps.device, dtype=maps.dtype)
        distances = (sides.view(batch, 4, _YOLO_BINS, -1).softmax(dim=2) * bins[:, None]).sum(dim=2)  # [B, 4, cells]
        down, across = (torch.arange(count, device=maps.device) + 0.5 for count in (rows, columns))
        ys, xs = torch.meshgrid(down, across, indexing="ij")
        centres = torch.stack((xs, ys)).flatten(1)  # [2, cells]
        boxes = torch.cat((centres - distances[:, :2], centres + distances[:, 2:]), dim=1) * stride
        return boxes.transpose(1, 2), classes.flatten(2).sigmoid().transpose(1, 2)

    def _branch(self, maps: Tensor, name: str) -> Tensor:
        x = self._conv(self._conv(maps, f"{name}.0"), f"{name}.1")
        return F.conv2d(x, self._state[f"model.{name}.2.weight"], self._state[f"model.{name}.2.bias"])


class FastestDet:
    """FastestDet for COCO, an ONNX file, through onnxruntime."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = max(1, torch.get_num_threads())
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name
        shape = self._session.get_outputs()[0].shape
        if len(shape) != 4 or shape[1] != 85:
            raise InputError(f"expected FastestDet for COCO, an output of 85 maps, got {shape} from {path}")
        self.name = f"FastestDet ({path.name})"

    def detect(self, image: Tensor, *, least: float = MIN_CONFIDENCE) -> tuple[Tensor, Tensor, Tensor]:
        height, width = image.shape[1:]
        side = _FASTESTDET_SIDE
        small = F.interpolate(
            image[None].float().cpu(), size=(side, side), mode="bilinear", align_corners=False, antialias=True
        )
        maps = torch.from_numpy(self._session.run(None, {self._input: small.flip(1).numpy()})[0][0])  # [85, 22, 22]
        rows, columns = maps.shape[1:]
        best, _ = maps[5:].max(dim=0)
        scores = maps[0] ** 0.6 * best**0.4
        ys, xs = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        cx, cy = (maps[1].tanh() + xs) / columns, (maps[2].tanh() + ys) / rows
        w, h = maps[3].sigmoid(), maps[4].sigmoid()
        boxes = torch.stack((cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2), dim=-1).reshape(-1, 4).clamp(0, 1)
        boxes = boxes * torch.tensor([width, height, width, height])
        labels, scores = maps[5:].argmax(dim=0).flatten(), scores.flatten()
        likely = scores >= least
        boxes, scores, labels = boxes[likely], scores[likely], labels[likely]
        kept = nms(boxes, scores, labels, _FASTESTDET_IOU)
        return boxes[kept], scores[kept], labels[kept]


class UltralyticsDetector:
    """Any YOLO checkpoint that the ultralytics package reads, at its default settings."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        try:
            from ultralytics import YOLO
        except ImportError:
            raise MissingDependencyError(
                f"the detector {path.name} needs the ultralytics package (AGPL-3.0, brings torchvision): "
                "pip install ultralytics"
            ) from None
        self._model, self._device = YOLO(str(path)), device
        self.name = f"ultralytics ({path.name})"

    def detect(self, image: Tensor, *, least: float = MIN_CONFIDENCE) -> tuple[Tensor, Tensor, Tensor]:
        # The package expects BGR of 8 bits.
        bgr = (image.flip(0) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
        result = self._model.predict(np.ascontiguousarray(bgr), verbose=False, conf=least, device=self._device)[0].boxes
        return result.xyxy.cpu(), result.conf.cpu(), result.cls.cpu().long()


def nms(
    boxes: Tensor,  # [N, 4] left, top, right, bottom
    scores: Tensor,  # [N]
    labels: Tensor,  # [N]
    limit: float,
) -> Tensor:  # indices of the boxes to keep, best first
    """Apply non-maximum suppression within each class: drop a box that overlaps a better one by more than `limit`."""
    sizes = torch.cat((boxes[:, :2], boxes[:, 2:] - boxes[:, :2]), dim=1)
    kept = cv2.dnn.NMSBoxesBatched(sizes.tolist(), scores.tolist(), labels.tolist(), 0.0, limit)
    return torch.tensor(list(kept), dtype=torch.long)


def letterbox(
    image: Tensor,  # [3, H, W] in [0, 1]
) -> tuple[Tensor, float, int, int]:  # [1, 3, h, w], scale, left, top
    """Scale to a long side of 640 and pad with grey to multiples of 32, the same on both sides."""
    height, width = image.shape[1:]
    scale = _YOLO_SIDE / max(height, width)
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    x = F.interpolate(image[None].float(), size=size, mode="bilinear", align_corners=False)
    pad_y, pad_x = (-side % _YOLO_STRIDE for side in size)
    top, left = round(pad_y / 2 - 0.1), round(pad_x / 2 - 0.1)
    return F.pad(x, (left, pad_x - left, top, pad_y - top), value=_YOLO_GREY), scale, left, top
