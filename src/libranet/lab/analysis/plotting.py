"""Figures in one style, as SVG and PNG. They are drawn without a display."""

import io
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from libranet.atomic import write_atomically

BLUE, ORANGE, GREY = "#3b6fb6", "#d08a2e", "#6b7078"
_DPI = 200


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write NAME.svg and NAME.png, each of them whole or not at all."""
    from matplotlib import rc_context

    written = []
    for suffix in ("svg", "png"):
        buffer = io.BytesIO()
        # Fixed ids and no date: the same figure gives the same bytes.
        with rc_context({"svg.hashsalt": "libranet", "svg.fonttype": "none"}):
            metadata = {"Date": None} if suffix == "svg" else None
            figure.savefig(buffer, format=suffix, dpi=_DPI, metadata=metadata)
        path = folder / f"{name}.{suffix}"
        write_atomically(path, buffer.getvalue())
        written.append(path)
    return written
