"""The paper's tables with our rows in them. Each row says whether it was measured here or reported there."""

import csv
import io
from dataclasses import dataclass
from typing import Literal

from libranet.errors import InputError
from libranet.evaluation.efficiency import SIZES, Efficiency
from libranet.evaluation.metric_table import find_metric
from libranet.evaluation.paper_tables import PAPER_TABLES, TableName, paper_table
from libranet.evaluation.summary import Estimate

_MOST_COLUMNS_WITH_INTERVALS = 4


def choose_table(text: str) -> TableName:
    """Find a table's name as the user wrote it.

    Raises:
        InputError: There is no such table.
    """
    for name in PAPER_TABLES:
        if name == text.lower():
            return name
    raise InputError(f"no table is called {text!r}: expected one of {', '.join(PAPER_TABLES)}")


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
    """Put our models' rows above the paper's."""
    table = paper_table(name, dataset)
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
    """Put our rows, one per size, above the paper's figures at 4K. A method that computes nothing has no speed."""
    table = PAPER_TABLES["efficiency"]
    rows = [
        TableRow(
            _size_label(e),
            "measured",
            (
                e.failure or "-" if e.fps is None else f"{e.fps:.2f}",
                "-" if e.gflops is None else f"{e.gflops:,.1f}",
                f"{e.parameters / 1e6:.2f}",
                "-" if e.peak_bytes is None else f"{e.peak_bytes / 2**30:.2f}",
            ),
        )
        for e in measured
        if e.model not in ("identity", "truth")
    ]
    for method, (fps, gflops, parameters) in table.rows:
        rows.append(TableRow(method, "reported", (f"{fps:.2f}", f"{gflops:,.0f}", f"{parameters:.2f}", "-")))
    device = measured[0].device if measured else "nothing"
    return PrintedTable(
        table.title,
        f"measured on {device}, models in turns; reported on one V100",
        ("FPS ↑", "GFLOPs", "Params (M)", "peak memory (GiB)"),
        tuple(rows),
    )


def _size_label(row: Efficiency) -> str:
    size, name = "x".join(map(str, row.size)), SIZES.get(row.size)
    return f"{row.model}, {name} ({size})" if name else f"{row.model}, {size}"


def _cell(value: Estimate | None, digits: int, columns: int) -> str:
    """Format a value; a wide table goes without intervals and words, which summary.json has."""
    if columns <= _MOST_COLUMNS_WITH_INTERVALS:
        return format_estimate(value, digits)
    return "-" if value is None else f"{value.mean:.{digits}f}"


def format_estimate(value: Estimate | None, digits: int) -> str:
    """Format mean and interval, or say that there is none."""
    if value is None:
        return "not measured"
    if value.half_width is None:
        return f"{value.mean:.{digits}f}"
    return f"{value.mean:.{digits}f} ± {value.half_width:.{digits}f}"


TableFormat = Literal["text", "md", "csv", "latex"]


def format_table(table: PrintedTable, form: TableFormat) -> str:
    """The table as Markdown, CSV or LaTeX (booktabs), with its note."""
    head = ("method", "source", *table.headings)
    rows = [(row.method, row.source, *row.cells) for row in table.rows]
    if form == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([head, *rows])
        return buffer.getvalue()
    if form == "latex":
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in (head, *rows)]
        begin = [rf"% {table.title}; {table.note}", rf"\begin{{tabular}}{{ll{'r' * len(table.headings)}}}", r"\toprule"]
        return "\n".join([*begin, lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}", ""])
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join(
        [f"**{table.title}**", "", lines[0], "|" + "---|" * len(head), *lines[1:], "", f"{table.note}.", ""]
    )


def _latex(text: str) -> str:
    for sign, name in (("_", r"\_"), ("%", r"\%"), ("&", r"\&"), ("±", r"$\pm$"), ("↑", r"$\uparrow$")):
        text = text.replace(sign, name)
    return text.replace("↓", r"$\downarrow$").replace("σ", r"$\sigma$").replace("Δ", r"$\Delta$")
