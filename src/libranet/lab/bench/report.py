"""A benchmark as Markdown, CSV and JSON, and the paper's figures 1(c) and 1(d) as SVG."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import torch

import libranet
from libranet.evaluation.figures import colour_of, ticks
from libranet.evaluation.results import write_file
from libranet.lab.bench.efficiency import SIZES, Efficiency
from libranet.lab.paper.values import EFFICIENCY
from libranet.lab.peers import PEERS

HEADINGS = ("model", "size", "params (M)", "GFLOPs", "ms", "FPS", "memory (GiB)", "precision", "backend")
LINE = 15.0  # height of a label in a plot


def write_bench(
    rows: Sequence[Efficiency],
    missing: Mapping[str, str],
    folder: Path,
    *,
    quality: Mapping[str, float] | None = None,
) -> str:
    """Write `bench.md`, `.csv` and `.json`, `fps-by-size.svg` and, with PSNR by model, `quality-by-fps.svg`."""
    markdown = as_markdown(rows, missing)
    write_file(folder / "bench.md", markdown)
    write_file(folder / "bench.csv", as_csv(rows))
    write_file(folder / "bench.json", as_json(rows, missing))
    write_file(folder / "fps-by-size.svg", speed_plot(rows))
    if quality:
        write_file(folder / "quality-by-fps.svg", quality_plot(rows, quality))
    return markdown


def as_markdown(rows: Sequence[Efficiency], missing: Mapping[str, str]) -> str:
    """One table: measured rows, then the paper's rows for the peers among them."""
    where = f"{rows[0].device}, torch {torch.__version__}" if rows else "nothing"
    lines = [
        f"Measured {_today()} on {where}, libranet {libranet.__version__}; networks took turns in one run. "
        "Reported rows are the paper's table 1, one V100.",
        "",
        f"| {' | '.join(HEADINGS)} | source |",
        "|" + "---|" * (len(HEADINGS) + 1),
    ]
    lines += [f"| {' | '.join(_cells(row))} | measured |" for row in rows]
    measured = {row.model for row in rows}
    for model, method, (fps, gflops, parameters) in _reported(measured):
        cells = (f"{method} ({model})", "4K", f"{parameters:.2f}", f"{gflops:,.0f}", f"{1000 / fps:,.0f}", f"{fps:.2f}")
        lines.append(f"| {' | '.join(cells)} | - | - | - | reported |")
    lines += [f"\nNot measured: {model}: {reason}." for model, reason in missing.items()]
    return "\n".join(lines) + "\n"


def as_csv(rows: Sequence[Efficiency]) -> str:
    """The measured rows in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = ["parameters", "gflops", "milliseconds", "fps", "peak_bytes", "turns"]
    keys += ["precision", "backend", "device", "failure"]
    writer.writerow(("model", "width", "height", *keys))
    for row in rows:
        values = ("" if (v := getattr(row, key)) is None else v for key in keys)
        writer.writerow((row.model, *row.size, *values))
    return text.getvalue()


def as_json(rows: Sequence[Efficiency], missing: Mapping[str, str]) -> str:
    """Everything, with date and versions."""
    content = {
        "date": _today(),
        "libranet": libranet.__version__,
        "torch": torch.__version__,
        "rows": [asdict(row) | {"fps": row.fps} for row in rows],
        "not_measured": dict(missing),
    }
    return json.dumps(content, indent=2) + "\n"


def speed_plot(rows: Sequence[Efficiency]) -> str:
    """Figure 1(c): frames per second against pixels, both on logarithmic axes."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        points = series.setdefault(row.model, [])
        if row.fps is not None:
            points.append((row.size[0] * row.size[1] / 1e6, row.fps))
    return _log_plot(series, "megapixels per frame", "frames per second", joined=True, log_y=True)


def quality_plot(rows: Sequence[Efficiency], quality: Mapping[str, float]) -> str:
    """Figure 1(d): PSNR against frames per second at the largest size that was measured."""
    largest = max((row.size for row in rows), key=math.prod, default=(0, 0))
    series = {
        row.model: [(row.fps, quality[row.model])]
        for row in rows
        if row.size == largest and row.fps is not None and row.model in quality
    }
    return _log_plot(series, f"frames per second, {_label(largest)}", "PSNR (dB)", joined=False, log_y=False)


def _log_plot(
    series: Mapping[str, Sequence[tuple[float, float]]], x_label: str, y_label: str, *, joined: bool, log_y: bool
) -> str:
    """Points with a logarithmic x axis: joined to lines, or alone. Every one has its name beside it."""
    width, height, left, right, top, bottom = 720, 420, 64, 170, 16, 46
    points = [point for values in series.values() for point in values]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12"><rect width="100%" height="100%" fill="white"/>'
    )
    if not points:
        return head + f'<text x="{left}" y="{height / 2}">nothing was measured</text></svg>\n'

    def scale(value: float, *, log: bool) -> float:
        return math.log10(value) if log else value

    def span(values: list[float]) -> tuple[float, float]:
        low, high = min(values), max(values)
        margin = (high - low) * 0.06 or 0.2
        return low - margin, high + margin

    x_low, x_high = span([scale(x, log=True) for x, _ in points])
    y_low, y_high = span([scale(y, log=log_y) for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (scale(x, log=True) - x_low) / (x_high - x_low)
        up = (scale(y, log=log_y) - y_low) / (y_high - y_low)
        return left + (width - left - right) * across, height - bottom - (height - top - bottom) * up

    parts = [head]
    for tick in _ticks(x_low, x_high, log=True):
        x, _ = place(tick, 10**y_low if log_y else y_low)
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{height - bottom}" stroke="#e3e5e8"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for tick in _ticks(y_low, y_high, log=log_y):
        _, y = place(10**x_low, tick)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" stroke="#e3e5e8"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(
        f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle">{escape(x_label)}</text>'
    )
    middle = (top + height - bottom) / 2
    parts.append(
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{escape(y_label)}</text>'
    )
    marks = {name: [place(x, y) for x, y in sorted(values)] for name, values in series.items() if values}
    labels = _spread({name: places[-1][1] for name, places in marks.items()}, top, height - bottom) if joined else {}
    taken: list[tuple[float, float, float]] = []
    for index, (name, places) in enumerate(marks.items()):
        colour, (x, y) = colour_of(index), places[-1]
        if joined:
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
            tag_x, tag_y = float(width - right + 22), labels[name]
        else:
            tag_x, tag_y = x + 7, _free_height(x, y, 7.0 * len(name), taken)
            taken.append((tag_x, tag_y, 7.0 * len(name)))
        if joined or abs(tag_y - y) > LINE:  # the label is not beside its point
            line = f'x1="{x:.1f}" y1="{y:.1f}" x2="{tag_x - 4 * joined:.1f}" y2="{tag_y:.1f}"'
            parts.append(f'<line {line} stroke="{colour}" stroke-width="0.7" stroke-dasharray="2 2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in places]
        parts.append(f'<text x="{tag_x:.1f}" y="{tag_y + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    return "".join(parts) + "</svg>\n"


def _spread(wanted: Mapping[str, float], low: float, high: float) -> dict[str, float]:
    """Heights of labels in the order of those wanted, far enough apart to be read."""
    gap = min(LINE, (high - low) / max(1, len(wanted)))
    found: dict[str, float] = {}
    last = low - gap
    for place, (name, height) in enumerate(sorted(wanted.items(), key=lambda item: item[1])):
        left = len(wanted) - place - 1
        last = found[name] = min(max(height, last + gap), high - left * gap)
    return found


def _free_height(x: float, y: float, length: float, taken: Sequence[tuple[float, float, float]]) -> float:
    """The height nearest to a point where its label hits none of those at (x, y, length)."""
    for step in range(2 * len(taken) + 1):
        height = y + (step + 1) // 2 * (LINE if step % 2 else -LINE)
        if all(abs(height - b) >= LINE - 2 or x > a + n or x + length < a for a, b, n in taken):
            return height
    return y


def _ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Round numbers inside the range, which is that of logarithms with `log`."""
    if log:
        candidates = (m * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5))
        return [c for c in candidates if low <= math.log10(c) <= high]
    return [tick for tick, _ in ticks(low, high, 5)]


def _cells(row: Efficiency) -> tuple[str, ...]:
    return (
        row.model,
        _label(row.size),
        f"{row.parameters / 1e6:.2f}" if row.parameters else "-",
        "-" if row.gflops is None else f"{row.gflops:,.1f}",
        row.failure or "-" if row.milliseconds is None else f"{row.milliseconds:,.1f}",
        "-" if row.fps is None else f"{row.fps:,.2f}",
        "-" if row.peak_bytes is None else f"{row.peak_bytes / 2**30:.2f}",
        row.precision,
        row.backend or "-",
    )


def _label(size: tuple[int, int]) -> str:
    return SIZES.get(size, f"{size[0]}x{size[1]}")


def _reported(measured: set[str]) -> list[tuple[str, str, tuple[float, ...]]]:
    rows = {method: tuple(float(value or 0) for value in values) for method, values in EFFICIENCY.rows}
    found = [(entry.name, entry.paper_row) for entry in PEERS if entry.paper_row and entry.name in measured]
    if any(model.startswith("libranet") for model in measured):
        found.append(("libranet", "LiBrA-Net"))
    return [(model, method, rows[method]) for model, method in found]


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")
