"""Modalities as pictures for people: depth, transmission and flow in colour."""

import base64

import cv2
import numpy as np

from libranet.data.dataset import FRAME_MODALITIES, Clip
from libranet.data.frames import Image
from libranet.data.maps import Field, Plane


def colour_plane(values: Plane, *, palette: int = cv2.COLORMAP_INFERNO) -> Image:  # [H, W] in [0, 1] -> RGB
    """Paint 0 dark and 1 bright."""
    levels = (np.clip(np.nan_to_num(values), 0.0, 1.0) * 255.0).astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(levels, palette)[..., ::-1])


def colour_flow(flow: Field, *, longest: float | None = None) -> Image:  # [2, H, W] -> RGB
    """Paint the direction as hue and the length, relative to `longest`, as strength on white."""
    length, angle = cv2.cartToPolar(flow[0], flow[1], angleInDegrees=True)
    longest = longest or max(float(np.percentile(length, 99)), 1e-3)
    strength = np.clip(length / longest, 0.0, 1.0) * 255.0
    hsv = np.stack([angle / 2.0, strength, np.full_like(strength, 245.0)], axis=2).astype(np.uint8)
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB))


def picture(clip: Clip, modality: str, index: int, *, width: int) -> Image:
    """One modality of one frame, small."""
    if modality in FRAME_MODALITIES:
        return _reduce(clip.frame(modality, index), width)
    values = np.stack([_reduce(plane, width) for plane in clip.map(modality, index)])
    if modality == "flow":
        return colour_flow(values)
    plane = values.mean(0)
    return colour_plane(plane, palette=cv2.COLORMAP_INFERNO if modality == "depth" else cv2.COLORMAP_BONE)


def as_data_url(image: Image) -> str:
    """A JPEG inside a URL, for pages that stand alone."""
    _, content = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 82])
    return "data:image/jpeg;base64," + base64.b64encode(content.tobytes()).decode()


def _reduce(values: np.ndarray, width: int) -> np.ndarray:
    height = max(round(values.shape[0] * width / values.shape[1]), 1)
    return np.asarray(cv2.resize(values, (width, height), interpolation=cv2.INTER_AREA))
