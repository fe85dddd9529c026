"""Small charts as SVG text: values with their intervals, and one value along a clip."""

import math
from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#8a8f98", "#d08a2e", "#1f7a5c", "#3b6fb6", "#9c4a8b", "#b5453a", "#5b5bd6", "#4f8a2e")


def colour_of(index: int) -> str:
    """The colour of the model at that place in the list."""
    return COLOURS[index % len(COLOURS)]


def interval_chart(
    values: Mapping[str, tuple[float, float | None]],  # model to mean and half width
    *,
    digits: int,
    width: int = 340,
) -> str:
    """One line per model: a dot for the mean and a bar for its confidence interval."""
    row, left, right = 26, 96, 34 + 7 * digits
    height = row * len(values) + 22
    low = min(mean - (half or 0.0) for mean, half in values.values())
    high = max(mean + (half or 0.0) for mean, half in values.values())
    margin = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    low, high = low - margin, high + margin
    scale = (width - left - right) / (high - low)

    def x_of(value: float) -> float:
        return left + (value - low) * scale

    parts = [f'<svg class="chart" viewBox="0 0 {width} {height}" role="img">']
    for tick in _ticks(low, high, 4):
        x = x_of(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{height - 18}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 5}" text-anchor="middle">{_short(tick)}</text>')
    for index, (name, (mean, half)) in enumerate(values.items()):
        y, colour = index * row + row / 2 + 4, colour_of(index)
        parts.append(f'<text class="name" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(_cut(name))}</text>')
        if half:
            a, b = x_of(mean - half), x_of(mean + half)
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
    """One line per model along the frames of a clip."""
    left, right, top, bottom = 44, 12, 10, 24
    points = [value for values in series.values() for value in values if math.isfinite(value)]
    frames = max((len(values) for values in series.values()), default=0)
    if not points or frames == 0:
        return ""
    low, high = min(points), max(points)
    margin = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    low, high = low - margin, high + margin

    def place(index: int, value: float) -> tuple[float, float]:
        x = left + (width - left - right) * (index / max(frames - 1, 1))
        return x, top + (height - top - bottom) * (1 - (value - low) / (high - low))

    parts = [f'<svg class="chart" viewBox="0 0 {width} {height}" role="img">']
    for tick in _ticks(low, high, 4):
        _, y = place(0, tick)
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(tick)}</text>')
    parts.append(f'<text class="tick" x="{left}" y="{height - 6}">frame 0</text>')
    parts.append(f'<text class="tick" x="{width - right}" y="{height - 6}" text-anchor="end">{frames - 1}</text>')
    parts.append(f'<text class="tick" x="{width / 2}" y="{height - 6}" text-anchor="middle">{escape(unit)}</text>')
    for index, values in enumerate(series.values()):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(i, v) for i, v in enumerate(values) if math.isfinite(v)))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour_of(index)}" stroke-width="2"/>')
    return "".join(parts) + "</svg>"


def _ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers inside the range."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    first = math.ceil(low / step)
    return [k * step for k in range(first, math.floor(high / step) + 1)]


def _short(value: float) -> str:
    return f"{value:.4g}"


def _cut(name: str) -> str:
    return name if len(name) <= 14 else name[:13] + "…"
