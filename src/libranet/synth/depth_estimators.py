"""Depth of single frames: one estimator interface, a prior without weights, ONNX files and Hugging Face models."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from libranet.data.frames import RgbImage
from libranet.data.maps import Plane
from libranet.errors import InputError, MissingDependencyError, install_command

DepthQuantity = Literal["disparity", "distance"]
"""What an estimator gives: large values are near (disparity) or far (distance)."""

DEPTH_ANYTHING_V2 = "depth-anything/Depth-Anything-V2-Large-hf"
SHORT_SIDE = 518
PATCH = 14
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
PRIOR_WIDTH = 384
SEGMENT_SIZE = 20


@dataclass(frozen=True)
class LayoutPrior:
    """A random outdoor layout drawn around the content of the frame; needs no weights.

    This is a prior, not an estimate. It assumes four things: bright smooth areas that touch the upper border are sky,
    the ground comes nearer towards the lower border, a region of one colour has one depth, and the rest is smooth
    noise. The result has the statistics that haze needs (soft ramps, steps at object borders, a far sky), not the
    geometry of the scene.
    """

    seed: int  # fixes the layout, which is the same for every frame of a clip
    quantity: DepthQuantity = "disparity"

    @property
    def name(self) -> str:
        return "layout-prior 1 (weight-free, random, not an estimate)"

    def estimate(self, image: RgbImage) -> Plane:
        height, width = image.shape[:2]
        small_height = max(round(height * PRIOR_WIDTH / width), 16)
        small = cv2.resize(image, (PRIOR_WIDTH, small_height), interpolation=cv2.INTER_AREA)
        rng = np.random.default_rng((self.seed, 1))
        horizon, slope, object_share, noise_share = rng.uniform(
            [0.30, 0.8, 0.25, 0.08], [0.55, 1.6, 0.55, 0.22]
        ).tolist()
        rows = np.linspace(0.0, 1.0, small_height, dtype=np.float32)[:, None]
        ramp = np.clip((rows - horizon) / (1.0 - horizon), 0.0, 1.0) ** slope
        ramp = np.broadcast_to(ramp, (small_height, PRIOR_WIDTH))
        ground = _segment_depth(small, ramp, rng, object_share)
        near = ground + noise_share * _smooth_noise(rng, small_height, PRIOR_WIDTH)
        near = np.clip(near, 0.02, None) * (1.0 - sky_mask(small))
        return cv2.resize(near.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)


class OnnxDepth:
    """A depth network in one ONNX file, one image in and one map out, with ImageNet normalisation."""

    def __init__(self, path: str | Path, *, quantity: DepthQuantity = "disparity") -> None:
        import onnxruntime  # takes a while

        path = Path(path)
        if not path.is_file():
            raise InputError(f"expected an ONNX depth model, found no file {path}")
        try:
            self._session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises classes of its own that share no public base
            raise InputError(f"expected an ONNX depth model, could not load {path}: {error}") from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].shape[1] != 3:
            found = [entry.shape for entry in inputs]
            raise InputError(f"expected one input [1, 3, h, w] in {path}, got {found}")
        self._input = inputs[0].name
        self._size = [side if isinstance(side, int) else None for side in inputs[0].shape[2:]]
        self._path = path
        self.quantity: DepthQuantity = quantity
        self.name = f"onnx {path.name} onnxruntime {onnxruntime.__version__}"

    def estimate(self, image: RgbImage) -> Plane:
        height, width = image.shape[:2]
        free = _patch_aligned(height, width)
        rows, columns = (fixed or side for fixed, side in zip(self._size, free, strict=True))
        small = cv2.resize(image, (columns, rows), interpolation=cv2.INTER_AREA).astype(np.float32) / 255.0
        pixels = (small - np.array(IMAGENET_MEAN, np.float32)) / np.array(IMAGENET_STD, np.float32)
        result = np.squeeze(self._session.run(None, {self._input: pixels.transpose(2, 0, 1)[None]})[0])
        if result.ndim != 2:
            raise InputError(f"expected one map as the output of {self._path}, got the shape {result.shape}")
        return cv2.resize(result.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)


class TransformersDepth:
    """Depth Anything V2, or any depth model that `transformers` loads."""

    def __init__(
        self,
        model: str = DEPTH_ANYTHING_V2,
        *,
        device: str | torch.device = "cpu",
        quantity: DepthQuantity = "disparity",
    ) -> None:
        """Load a model from a folder with config.json and weights in safetensors, or by its hub id."""
        try:
            import transformers
        except ImportError as error:
            raise MissingDependencyError(
                f"depth models need the transformers package; install it with: {install_command('hf')}"
            ) from error
        try:
            # Typed Any: the stubs of transformers change from release to release.
            loaded: Any = transformers.AutoModelForDepthEstimation.from_pretrained(model, use_safetensors=True)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"expected a depth model as folder or hub id, could not load {model!r}: {reason.rstrip('.')}; without"
                " a network, download its repository elsewhere and give the folder as --depth hf:FOLDER"
            ) from error
        self._model = loaded.to(device).eval()
        self._device = torch.device(device)
        self.quantity: DepthQuantity = quantity
        self.name = (
            f"{loaded.config.model_type} {model.rstrip('/').rsplit('/', 1)[-1]} transformers {transformers.__version__}"
        )

    @torch.inference_mode()
    def estimate(self, image: RgbImage) -> Plane:
        height, width = image.shape[:2]
        size = _patch_aligned(height, width)
        pixels = torch.from_numpy(np.ascontiguousarray(image)).to(self._device).permute(2, 0, 1)[None].float() / 255.0
        pixels = F.interpolate(pixels, size=size, mode="bicubic", antialias=True, align_corners=False)
        mean, std = (pixels.new_tensor(values).view(1, 3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
        predicted = self._model(pixel_values=(pixels - mean) / std).predicted_depth[:, None].float()
        sized = F.interpolate(predicted, size=(height, width), mode="bilinear", align_corners=False)
        return sized[0, 0].cpu().numpy()


DepthEstimator = LayoutPrior | OnnxDepth | TransformersDepth
"""Estimates the depth of one frame: raw values [h, w] in units of its own, which are a `quantity`."""


def sky_mask(image: RgbImage) -> Plane:  # [h, w, 3] -> [h, w] in [0, 1]
    """Rate how likely each pixel is sky: bright or blue, smooth, and connected to the upper border."""
    pixels = image.astype(np.float32) / 255.0
    value, blue = pixels.max(2), pixels[..., 2] - pixels[..., 0]
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32) / 255.0
    edges = cv2.magnitude(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1))
    likely = ((value > 0.62) | ((blue > 0.05) & (value > 0.35))) & (cv2.blur(edges, (5, 5)) < 0.18)
    likely &= pixels[..., 1] < np.maximum(pixels[..., 2], pixels[..., 0]) + 0.04
    _, labels = cv2.connectedComponents(likely.astype(np.uint8), connectivity=4)
    reached = np.unique(labels[: max(image.shape[0] // 50, 1)])
    sky = np.isin(labels, reached[reached != 0]).astype(np.float32)
    return cv2.blur(cv2.morphologyEx(sky, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)), (5, 5))


def _segment_depth(image: RgbImage, ramp: npt.NDArray, rng: np.random.Generator, share: float) -> Plane:
    """One value per segment: the ramp at the segment's foot, shifted by a smooth random function of its colour."""
    lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
    segments = cv2.ximgproc.createSuperpixelSLIC(lab, cv2.ximgproc.SLIC, SEGMENT_SIZE, 20.0)
    segments.iterate(5)
    labels = np.asarray(segments.getLabels(), np.int64).ravel()
    count = np.bincount(labels).clip(1)
    colour = np.stack([np.bincount(labels, plane.ravel()) / count for plane in cv2.split(lab)], axis=1) / 255.0
    foot = np.zeros(len(count), np.float32)
    np.maximum.at(foot, labels, ramp.ravel())
    directions = rng.normal(0.0, 6.0, (3, 6))
    waves = np.cos(colour @ directions + rng.uniform(0.0, 2.0 * np.pi, 6)).mean(1)
    value = (1.0 - share) * foot + share * (0.35 + 0.65 * waves) * (0.45 + foot)
    segmented = value[labels].reshape(ramp.shape).astype(np.float32)
    return 0.6 * cv2.GaussianBlur(segmented, (0, 0), 2.0) + 0.4 * ramp


def _smooth_noise(rng: np.random.Generator, height: int, width: int) -> Plane:
    total = np.zeros((height, width), np.float32)
    for cells, amplitude in ((3, 0.6), (6, 0.3), (12, 0.1)):
        grid = rng.uniform(-1.0, 1.0, (cells, 2 * cells)).astype(np.float32)
        total += amplitude * cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)
    return total


def _patch_aligned(height: int, width: int) -> list[int]:
    """The input size of a vision transformer, [rows, columns], in whole patches."""
    scale = SHORT_SIDE / min(height, width)
    return [max(round(side * scale / PATCH), 1) * PATCH for side in (height, width)]
