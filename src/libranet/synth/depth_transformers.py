"""Depth Anything V2, or any depth model that `transformers` loads, by folder or hub id."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from libranet.data.frames import Image
from libranet.data.maps import Plane
from libranet.errors import InputError, MissingDependencyError
from libranet.synth.depth import Meaning

DEPTH_ANYTHING_V2 = "depth-anything/Depth-Anything-V2-Large-hf"
SHORT_SIDE = 518
PATCH = 14


class TransformersDepth:
    """Estimates disparity with a model that stays loaded."""

    def __init__(
        self,
        model: str = DEPTH_ANYTHING_V2,
        *,
        device: str | torch.device = "cpu",
        meaning: Meaning = "disparity",
        short_side: int = SHORT_SIDE,
    ) -> None:
        """`model` is a folder with config.json and weights in safetensors, or a hub id."""
        try:
            import transformers
        except ImportError as error:
            raise MissingDependencyError(
                "depth models need the transformers package; install it with: pip install 'libranet[hf]'"
            ) from error
        try:
            # Typed Any: the stubs of transformers change from release to release.
            loaded: Any = transformers.AutoModelForDepthEstimation.from_pretrained(model, use_safetensors=True)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"expected a depth model as folder or hub id, could not load {model!r}: {reason}"
            ) from error
        self._model = loaded.to(device).eval()
        self._device = torch.device(device)
        self._short_side = short_side
        self.meaning: Meaning = meaning
        self.name = (
            f"{loaded.config.model_type} {model.rstrip('/').rsplit('/', 1)[-1]} transformers {transformers.__version__}"
        )

    @torch.inference_mode()
    def estimate(self, image: Image) -> Plane:
        height, width = image.shape[:2]
        scale = self._short_side / min(height, width)
        inner = tuple(max(round(side * scale / PATCH), 1) * PATCH for side in (height, width))
        pixels = torch.from_numpy(np.ascontiguousarray(image)).to(self._device).permute(2, 0, 1)[None].float() / 255.0
        pixels = F.interpolate(pixels, size=inner, mode="bicubic", antialias=True, align_corners=False)
        mean = pixels.new_tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
        deviation = pixels.new_tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
        predicted = self._model(pixel_values=(pixels - mean) / deviation).predicted_depth[:, None].float()
        sized = F.interpolate(predicted, size=(height, width), mode="bilinear", align_corners=False)
        return sized[0, 0].cpu().numpy()
