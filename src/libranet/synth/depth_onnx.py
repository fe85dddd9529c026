"""Any depth network in one ONNX file: one image in, one map out."""

from pathlib import Path

import cv2
import numpy as np

from libranet.data.frames import Image
from libranet.data.maps import Plane
from libranet.errors import InputError, MissingDependencyError
from libranet.synth.depth import Meaning

FREE_SIDE = 518


class OnnxDepth:
    """Runs an ONNX depth model with ImageNet normalisation at the model's own input size."""

    def __init__(self, path: str | Path, *, meaning: Meaning = "disparity") -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingDependencyError(
                "ONNX depth models need onnxruntime; install it with: pip install 'libranet[onnx]'"
            ) from error
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
        rows, columns = (side if isinstance(side, int) else None for side in inputs[0].shape[2:])
        self._size = (rows, columns)
        self._path = path
        self.meaning: Meaning = meaning
        self.name = f"onnx {path.name} onnxruntime {onnxruntime.__version__}"

    def estimate(self, image: Image) -> Plane:
        height, width = image.shape[:2]
        scale = FREE_SIDE / min(height, width)
        rows, columns = (
            fixed or max(round(side * scale / 14), 1) * 14
            for fixed, side in zip(self._size, (height, width), strict=True)
        )
        small = cv2.resize(image, (columns, rows), interpolation=cv2.INTER_AREA).astype(np.float32) / 255.0
        pixels = (small - np.array([0.485, 0.456, 0.406], np.float32)) / np.array([0.229, 0.224, 0.225], np.float32)
        result = np.squeeze(self._session.run(None, {self._input: pixels.transpose(2, 0, 1)[None]})[0])
        if result.ndim != 2:
            raise InputError(f"expected one map as the output of {self._path}, got the shape {result.shape}")
        return cv2.resize(result.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
