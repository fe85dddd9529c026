"""Tables that commands print: rows of cells, as text, Markdown, CSV or LaTeX."""

import csv
import io
from dataclasses import dataclass
from typing import Literal

from libranet.evaluation.summary import Estimate

TRUTH = "truth"
"""The row of the ground truth: the reference of metrics that look at one side only. Its fidelity says nothing."""


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
