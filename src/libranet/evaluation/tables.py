"""The paper's tables with our measurements in them: each row says whether it was measured here or reported there."""

from dataclasses import dataclass

from libranet.evaluation.efficiency import Efficiency
from libranet.evaluation.metric_table import find_metric
from libranet.evaluation.paper import TableName, paper_table
from libranet.evaluation.summary import Estimate

_ROOM_FOR_INTERVALS = 4


@dataclass(frozen=True)
class TableRow:
    """One line of a printed table."""

    method: str
    source: str
    """`measured` or `reported`."""
    cells: tuple[str, ...]


@dataclass(frozen=True)
class PrintedTable:
    """Headings and lines, ready for a terminal or a page."""

    title: str
    note: str
    headings: tuple[str, ...]
    rows: tuple[TableRow, ...]


def compare_with_paper(
    name: TableName,
    models: dict[str, dict[str, Estimate]],
    *,
    dataset: str,
    not_measured: dict[str, str],
) -> PrintedTable:
    """Our models' rows first, then the paper's."""
    table = paper_table(name)
    metrics = [find_metric(column) for column in table.columns]
    rows = [
        TableRow(model, "measured", tuple(_cell(values.get(m.name), m.digits, len(metrics)) for m in metrics))
        for model, values in models.items()
    ]
    rows += [
        TableRow(
            method,
            "reported",
            tuple("-" if v is None else f"{v:.{m.digits}f}" for v, m in zip(v_s, metrics, strict=True)),
        )
        for method, v_s in table.rows
    ]
    reasons = dict.fromkeys(not_measured[m.name] for m in metrics if m.name in not_measured)
    missing = [
        f"{', '.join(m.label for m in metrics if not_measured.get(m.name) == reason)}: {reason}" for reason in reasons
    ]
    note = f"measured on {dataset}; reported on the paper's own test set, so the two are not the same data"
    if missing:
        note += ". Not measured: " + "; ".join(missing)
    return PrintedTable(table.title, note, tuple(f"{m.label} {m.arrow}" for m in metrics), tuple(rows))


def compare_efficiency(measured: list[Efficiency]) -> PrintedTable:
    """Every measured size, then the paper's figures at 4K."""
    table = paper_table("efficiency")
    rows = [
        TableRow(
            f"{e.model}, {e.size} ({e.width}x{e.height})",
            "measured",
            (
                f"{e.fps:.2f}",
                "-" if e.gflops is None else f"{e.gflops:,.1f}",
                f"{e.parameters / 1e6:.2f}",
                "-" if e.peak_bytes is None else f"{e.peak_bytes / 2**30:.2f}",
            ),
        )
        for e in measured
    ]
    for method, (fps, gflops, parameters) in table.rows:
        rows.append(TableRow(method, "reported", (f"{fps:.2f}", f"{gflops:,.0f}", f"{parameters:.2f}", "-")))
    device = measured[0].device if measured else "nothing"
    return PrintedTable(
        table.title,
        f"measured on {device}, {measured[0].frames if measured else 0} frames per size; reported on one V100",
        ("FPS ↑", "GFLOPs", "Params (M)", "peak memory (GiB)"),
        tuple(rows),
    )


def _cell(value: Estimate | None, digits: int, columns: int) -> str:
    """A wide table has no room for intervals and words; summary.json has them."""
    if columns <= _ROOM_FOR_INTERVALS:
        return format_estimate(value, digits)
    return "-" if value is None else f"{value.mean:.{digits}f}"


def format_estimate(value: Estimate | None, digits: int) -> str:
    """Mean and interval, or the words for a missing one."""
    if value is None:
        return "not measured"
    if value.half_width is None:
        return f"{value.mean:.{digits}f}"
    return f"{value.mean:.{digits}f} ± {value.half_width:.{digits}f}"
