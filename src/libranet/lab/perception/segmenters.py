"""Frozen semantic segmentation networks behind one method."""

import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError, MissingDependencyError, install_command

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class TransformersSegmenter:
    """Any semantic segmentation network that transformers reads from a folder, SegFormer-B5 for one."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        if not (path / "config.json").is_file():
            raise InputError(f"expected a folder with config.json and weights, as transformers writes it, got {path}")
        try:
            from transformers import AutoModelForSemanticSegmentation
        except ImportError:
            raise MissingDependencyError(
                f"the segmenter {path.name} needs transformers: {install_command('hf')}"
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
    def segment(self, image: Tensor) -> np.ndarray:  # [3, H, W] in [0, 1] -> [H, W] int16
        """Resize as the checkpoint was trained, classify, enlarge the scores, take the best class."""
        height, width = image.shape[1:]
        x = F.interpolate(
            image[None].float().to(self._device), size=self._size, mode="bilinear", align_corners=False, antialias=True
        )
        mean, std = (x.new_tensor(v)[None, :, None, None] for v in (self._mean, self._std))
        logits = self._model(pixel_values=(x - mean) / std).logits[0].float()  # [C, h, w]
        return enlarge_classes(logits, height, width)


def enlarge_classes(logits: Tensor, height: int, width: int) -> np.ndarray:  # [C, h, w] -> [H, W] int16
    """Enlarge the scores and take the best class, strip by strip: the enlarged scores of a 4K frame are 5 GB."""
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
    """Read size, mean and deviation from preprocessor_config.json; ImageNet's and 512x512 without it."""
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
