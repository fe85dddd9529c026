"""Frozen detectors and segmenters by path, each behind one method."""

import json
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from libranet.errors import InputError, MissingDependencyError
from libranet.evaluation.suppression import suppress_doubles
from libranet.evaluation.yolov8 import YoloV8
from libranet.thirdparty import find_model, find_weights
from libranet.thirdparty.cache import explain_absence

DETECTOR_NAMES = ("yolov8n", "yolov8s", "fastestdet")

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_FASTESTDET_SIDE = 352
_NMS_IOU = 0.45


class Detector(Protocol):
    """Finds objects in a frame."""

    name: str

    def detect(
        self,
        image: Tensor,  # [3, H, W] in [0, 1]
    ) -> tuple[Tensor, Tensor]:  # [N, 4] left, top, right, bottom in pixels; [N] confidences
        """All objects with their confidences."""
        ...


class Segmenter(Protocol):
    """Gives every pixel a class."""

    name: str
    classes: int

    def segment(
        self,
        image: Tensor,  # [3, H, W] in [0, 1]
    ) -> np.ndarray:  # [H, W] int16
        """The class of every pixel of the frame."""
        ...


class FastestDet:
    """FastestDet for COCO, an ONNX file, through onnxruntime."""

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingDependencyError(
                f"the detector {path.name} needs onnxruntime: pip install 'libranet[onnx]'"
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = max(1, torch.get_num_threads())
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name
        shape = self._session.get_outputs()[0].shape
        if len(shape) != 4 or shape[1] != 85:
            raise InputError(f"expected FastestDet for COCO, an output of 85 maps, got {shape} from {path}")
        self.name = f"FastestDet ({path.name})"

    def detect(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Decode objectness, box and class of every cell, then drop doubles."""
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
        likely = scores > 0.05
        boxes, scores, labels = boxes[likely], scores[likely], labels[likely]
        kept = suppress_doubles(boxes, scores, labels, _NMS_IOU)
        return boxes[kept], scores[kept]


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

    def detect(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Run the detector on the frame as the package expects it: BGR, 8 bit."""
        bgr = (image.flip(0) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
        result = self._model.predict(np.ascontiguousarray(bgr), verbose=False, device=self._device)[0].boxes
        return result.xyxy.cpu(), result.conf.cpu()


class TransformersSegmenter:
    """Any semantic segmentation network that transformers reads from a folder, SegFormer-B5 for one."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        try:
            from transformers import AutoModelForSemanticSegmentation
        except ImportError:
            raise MissingDependencyError(
                f"the segmenter {path.name} needs transformers: pip install 'libranet[hf]'"
            ) from None
        try:
            self._model = AutoModelForSemanticSegmentation.from_pretrained(
                str(path), local_files_only=True, use_safetensors=True
            )
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} holds no segmentation network that transformers reads: {reason}") from None
        self._model = self._model.to(device).eval()
        self._device = device
        self.classes = int(self._model.config.num_labels)
        self.name = f"{self._model.config.model_type} ({path.name})"
        self._size, self._mean, self._std = _read_preprocessing(path)

    @torch.no_grad()
    def segment(self, image: Tensor) -> np.ndarray:
        """Resize as the checkpoint was trained, classify, enlarge the scores, take the best class."""
        height, width = image.shape[1:]
        x = F.interpolate(
            image[None].float().to(self._device), size=self._size, mode="bilinear", align_corners=False, antialias=True
        )
        mean, std = (x.new_tensor(v)[None, :, None, None] for v in (self._mean, self._std))
        logits = self._model(pixel_values=(x - mean) / std).logits[0].float()  # [C, h, w]
        return enlarge_classes(logits, height, width)


def open_detector(place: Path, device: str = "cpu", *, cache: Path | None = None) -> Detector:
    """The detector for a file, or for a name of the table: .onnx is FastestDet, .pt belongs to ultralytics."""
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


def open_segmenter(path: Path, device: str = "cpu") -> Segmenter:
    """The segmenter in a folder that transformers wrote."""
    if not (path / "config.json").is_file():
        raise InputError(f"expected a folder with config.json and weights, as transformers writes it, got {path}")
    return TransformersSegmenter(path, device)


def enlarge_classes(
    logits: Tensor,  # [C, h, w]
    height: int,
    width: int,
) -> np.ndarray:  # [H, W] int16
    """Bilinear enlargement and the best class, row strip by row strip: the enlarged scores of a 4K frame are 5 GB."""
    wide = F.interpolate(logits[None], size=(logits.shape[1], width), mode="bilinear", align_corners=False)[0]
    rows = ((torch.arange(height, device=logits.device) + 0.5) * logits.shape[1] / height - 0.5).clamp(
        0, logits.shape[1] - 1
    )
    low, share = rows.floor().long(), rows.frac()
    high = (low + 1).clamp(max=logits.shape[1] - 1)
    out = np.empty((height, width), dtype=np.int16)
    for top in range(0, height, 32):
        s = slice(top, top + 32)
        strip = torch.lerp(wide[:, low[s]], wide[:, high[s]], share[s][None, :, None])
        out[s] = strip.argmax(dim=0).to(torch.int16).cpu().numpy()
    return out


def _read_preprocessing(path: Path) -> tuple[tuple[int, int], tuple[float, ...], tuple[float, ...]]:
    """Size, mean and deviation from preprocessor_config.json; ImageNet's and 512x512 without it."""
    file = path / "preprocessor_config.json"
    content = json.loads(file.read_text()) if file.is_file() else {}
    size = content.get("size", {"height": 512, "width": 512})
    if isinstance(size, int):
        size = {"height": size, "width": size}
    side = size.get("shortest_edge", 512)
    return (
        (int(size.get("height", side)), int(size.get("width", side))),
        tuple(content.get("image_mean", _MEAN)),
        tuple(content.get("image_std", _STD)),
    )
