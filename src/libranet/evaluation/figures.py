"""Figures of the report: SVG charts, and images of the frame where a clip is worst."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

import cv2
import numpy as np

from libranet.evaluation.results import write_file

PANELS_FILE = "panels.json"
COLOURS = ("#8a8f98", "#d08a2e", "#1f7a5c", "#3b6fb6", "#9c4a8b", "#b5453a", "#5b5bd6", "#4f8a2e")
HEAT_RANGE = 0.25  # inter-frame difference that the heat maps show as white
_VIEW_WIDTH = 360
_CROP = (240, 160)
_QUALITY = 88


@dataclass(frozen=True)
class Panel:
    """Which frame the images of a clip show, and why."""

    frame: int
    box: tuple[int, int, int, int]  # left, top, width, height of the crop
    chosen_by: str  # model and metric that made it the worst frame
    value: float


class PanelWriter:
    """Follows a clip and keeps the images of the frame with the lowest value so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fixed = read_panel(folder)
        """The choice of an earlier run, which later models keep to."""
        self._panel = self.fixed
        self._images: dict[str, bytes] = {}

    def wants(self, index: int, value: float) -> bool:
        """Whether this frame is the worst so far, or the one chosen by an earlier run."""
        if self.fixed is not None:
            return index == self.fixed.frame
        return self._panel is None or value < self._panel.value

    def take(
        self,
        index: int,
        value: float,
        metric: str,
        *,
        subject: str,  # the view that the metric is of
        views: dict[str, np.ndarray],  # name to [H, W, 3] RGB 8 bit; `clear` is the ground truth
        previous: dict[str, np.ndarray],  # the same views one frame before
    ) -> None:
        """Take the images of this frame in place of those before."""
        box = _worst_box(views[subject], views.get("clear"))
        self._panel = self.fixed or Panel(index, box, f"{metric} of {subject}", value)
        left, top, width, height = self._panel.box
        images = {}
        for name, view in views.items():
            images[f"{name}.jpg"] = jpeg(_shrink(view))
            images[f"{name}-crop.jpg"] = jpeg(view[top : top + height, left : left + width])
            if name in previous:
                images[f"{name}-change.jpg"] = jpeg(_heat(view, previous[name]))
        self._images = images

    def save(self) -> None:
        if self._panel is None:
            return
        for name, data in self._images.items():
            write_file(self.folder / name, data)
        if self.fixed is None:
            write_file(self.folder / PANELS_FILE, json.dumps(asdict(self._panel)) + "\n")


def read_panel(folder: Path) -> Panel | None:
    """Read which frame an earlier run chose for a clip."""
    try:
        content = json.loads((folder / PANELS_FILE).read_text())
        return Panel(content["frame"], tuple(content["box"]), content["chosen_by"], content["value"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _worst_box(image: np.ndarray, truth: np.ndarray | None) -> tuple[int, int, int, int]:
    """Find the crop with the largest error, or the one with the most detail when the truth is unknown."""
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
    """Draw |J_t - J_{t-1}|, the mean over colours, in magma from 0 to HEAT_RANGE."""
    change = cv2.absdiff(image, previous).astype(np.float32).mean(axis=2) / 255.0
    small = _shrink(np.clip(change / HEAT_RANGE * 255.0, 0, 255).round().astype(np.uint8))
    return cv2.cvtColor(cv2.applyColorMap(small, cv2.COLORMAP_MAGMA), cv2.COLOR_BGR2RGB)


def _shrink(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    if width <= _VIEW_WIDTH:
        return image
    return cv2.resize(image, (_VIEW_WIDTH, max(1, round(height * _VIEW_WIDTH / width))), interpolation=cv2.INTER_AREA)


def jpeg(image: np.ndarray, quality: int = _QUALITY) -> bytes:  # [H, W, 3] RGB 8 bit
    ok, data = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert ok
    return data.tobytes()


def colour_of(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def interval_chart(
    values: Mapping[str, tuple[float, float | None]],  # model to mean and half width
    *,
    digits: int,
    highest: float | None = None,
    width: int = 340,
) -> str:
    """Draw one line per model: a dot for the mean and a bar for its confidence interval.

    The axis ends where the metric's range ends: `highest`, and zero unless a mean is negative.
    """
    row, left, right = 26, 96, 34 + 7 * digits
    height = row * len(values) + 22
    low, high = _range([mean + sign * (half or 0.0) for mean, half in values.values() for sign in (-1, 1)])
    if all(mean >= 0.0 for mean, _ in values.values()):
        low = max(low, 0.0)  # no metric that is positive for every model can be negative
    if highest is not None:
        high = min(high, highest)
    scale = (width - left - right) / (high - low)

    def x_of(value: float) -> float:
        return left + (value - low) * scale

    parts = [f'<svg class="chart" viewBox="0 0 {width} {height}" role="img">']
    for tick, label in ticks(low, high, 4):
        x = x_of(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{height - 18}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 5}" text-anchor="middle">{label}</text>')
    for index, (name, (mean, half)) in enumerate(values.items()):
        y, colour = index * row + row / 2 + 4, colour_of(index)
        short = name if len(name) <= 14 else name[:13] + "…"
        parts.append(f'<text class="name" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(short)}</text>')
        if half:
            a, b = x_of(max(mean - half, low)), x_of(min(mean + half, high))
            parts.append(
                f'<line x1="{a:.1f}" y1="{y}" x2="{b:.1f}" y2="{y}" stroke="{colour}" stroke-width="6" '
                'stroke-opacity="0.28" stroke-linecap="round"/>'
            )
        parts.append(f'<circle cx="{x_of(mean):.1f}" cy="{y}" r="4.5" fill="{colour}"/>')
        parts.append(f'<text class="value" x="{width - right + 8}" y="{y + 4:.1f}">{mean:.{digits}f}</text>')
    return "".join(parts) + "</svg>"


def line_chart(
    series: Mapping[str, Sequence[float]],  # model to one value per frame
    *,
    unit: str,
    width: int = 520,
    height: int = 170,
) -> str:
    """Draw one line per model along the frames of a clip."""
    left, right, top, bottom = 44, 12, 10, 24
    points = [value for values in series.values() for value in values if math.isfinite(value)]
    frames = max((len(values) for values in series.values()), default=0)
    if not points or frames == 0:
        return ""
    low, high = _range(points)

    def place(index: int, value: float) -> tuple[float, float]:
        x = left + (width - left - right) * (index / max(frames - 1, 1))
        return x, top + (height - top - bottom) * (1 - (value - low) / (high - low))

    parts = [f'<svg class="chart" viewBox="0 0 {width} {height}" role="img">']
    for tick, label in ticks(low, high, 4):
        _, y = place(0, tick)
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<text class="tick" x="{left}" y="{height - 6}">frame 0</text>')
    parts.append(f'<text class="tick" x="{width - right}" y="{height - 6}" text-anchor="end">{frames - 1}</text>')
    parts.append(f'<text class="tick" x="{width / 2}" y="{height - 6}" text-anchor="middle">{escape(unit)}</text>')
    for index, values in enumerate(series.values()):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(i, v) for i, v in enumerate(values) if math.isfinite(v)))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour_of(index)}" stroke-width="2"/>')
    return "".join(parts) + "</svg>"


def _range(values: list[float]) -> tuple[float, float]:
    """The ends of an axis: the values' own, and a margin."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Find round numbers inside the range, and write them with the digits that tell them apart."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    first = math.ceil(low / step)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [(k * step, f"{k * step:.{digits}f}") for k in range(first, math.floor(high / step) + 1)]
