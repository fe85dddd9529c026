"""Names for the arrays that travel through the pipeline. numpy cannot type shapes, so the names carry them."""

from typing import TypeAlias

import numpy as np

Image: TypeAlias = np.ndarray
"""A frame: [H, W, 3], RGB, 8 bit."""
Plane: TypeAlias = np.ndarray
"""One value per pixel: [H, W], float32."""
Field: TypeAlias = np.ndarray
"""A flow: [2, H, W], float32, pixels to the right and down."""
Map: TypeAlias = np.ndarray
"""A modality as stored: [C, H, W], float32 holding half-precision values."""
