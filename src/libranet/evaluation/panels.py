"""Pictures of the report: the frame where a clip is worst, a crop at full size, the change since the frame before."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2
import numpy as np

from libranet.evaluation.results import write_bytes, write_text

PANELS_FILE = "panels.json"
HEAT_RANGE = 0.25
"""Inter-frame difference that the heat maps show as white."""
_VIEW_WIDTH = 360
_CROP = (240, 160)
_QUALITY = 88


@dataclass(frozen=True)
class Panel:
    """Which frame the pictures of a clip show, and why."""

    frame: int
    box: tuple[int, int, int, int]
    """Left, top, width, height of the crop."""
    chosen_by: str
    """Model and measure that made it the worst frame."""
    value: float


class PanelWriter:
    """Follows a clip and keeps the pictures of the frame with the lowest value so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fixed = read_panel(folder)
        """The choice of an earlier run, which later models keep to."""
        self._panel = self.fixed
        self._pictures: dict[str, bytes] = {}

    def wants(self, index: int, value: float) -> bool:
        """Whether this frame is the worst so far, or the one chosen by an earlier run."""
        if self.fixed is not None:
            return index == self.fixed.frame
        return self._panel is None or value < self._panel.value

    def take(
        self,
        index: int,
        value: float,
        chosen_by: str,
        *,
        subject: np.ndarray,  # [H, W, 3] RGB 8 bit
        views: dict[str, np.ndarray],  # name to [H, W, 3]
        previous: dict[str, np.ndarray],  # the same views one frame before
        truth: np.ndarray | None,
    ) -> None:
        """Take the pictures of this frame in place of those before."""
        self._panel = self.fixed or Panel(index, _worst_box(subject, truth), chosen_by, value)
        left, top, width, height = self._panel.box
        pictures = {}
        for name, view in views.items():
            pictures[f"{name}.jpg"] = _jpeg(_shrink(view))
            pictures[f"{name}-crop.jpg"] = _jpeg(view[top : top + height, left : left + width])
            if name in previous:
                pictures[f"{name}-change.jpg"] = _jpeg(_heat(view, previous[name]))
        self._pictures = pictures

    def save(self) -> None:
        """Write the pictures of the clip."""
        if self._panel is None:
            return
        for name, data in self._pictures.items():
            write_bytes(self.folder / name, data)
        if self.fixed is None:
            write_text(self.folder / PANELS_FILE, json.dumps(asdict(self._panel)) + "\n")


def read_panel(folder: Path) -> Panel | None:
    """The choice an earlier run made for a clip."""
    try:
        content = json.loads((folder / PANELS_FILE).read_text())
        return Panel(content["frame"], tuple(content["box"]), content["chosen_by"], content["value"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _worst_box(image: np.ndarray, truth: np.ndarray | None) -> tuple[int, int, int, int]:
    """The crop with the largest error, or the one with the most detail when the truth is unknown."""
    height, width = image.shape[:2]
    w, h = min(_CROP[0], width), min(_CROP[1], height)
    if truth is not None:
        interest = cv2.absdiff(image, truth).astype(np.float32).sum(axis=2)
    else:
        grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
        interest = np.abs(cv2.Laplacian(grey, cv2.CV_32F))
    means = cv2.blur(interest, (w, h), borderType=cv2.BORDER_REPLICATE)
    inner = means[h // 2 : height - (h - h // 2) + 1, w // 2 : width - (w - w // 2) + 1]
    top, left = np.unravel_index(int(inner.argmax()), inner.shape)
    return int(left), int(top), w, h


def _heat(image: np.ndarray, previous: np.ndarray) -> np.ndarray:
    """|J_t - J_{t-1}|, the mean over colours, in magma from 0 to HEAT_RANGE."""
    change = cv2.absdiff(image, previous).astype(np.float32).mean(axis=2) / 255.0
    small = _shrink(np.clip(change / HEAT_RANGE * 255.0, 0, 255).round().astype(np.uint8))
    return cv2.cvtColor(cv2.applyColorMap(small, cv2.COLORMAP_MAGMA), cv2.COLOR_BGR2RGB)


def _shrink(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    if width <= _VIEW_WIDTH:
        return image
    return cv2.resize(image, (_VIEW_WIDTH, max(1, round(height * _VIEW_WIDTH / width))), interpolation=cv2.INTER_AREA)


def _jpeg(image: np.ndarray) -> bytes:
    ok, data = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    assert ok
    return data.tobytes()
