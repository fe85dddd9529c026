"""Tables that commands print: rows of cells, as text, Markdown, CSV or LaTeX."""

import csv
import io
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class TableRow:
    """One line of a printed table."""

    method: str
    source: str  # `measured` or `reported`
    cells: tuple[str, ...]


@dataclass(frozen=True)
class PrintedTable:
    """Headings and lines, ready for a terminal or a page."""

    title: str
    note: str
    headings: tuple[str, ...]
    rows: tuple[TableRow, ...]


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
        lines = [" & ".join(map(latex, row)) + r" \\" for row in (head, *rows)]
        begin = [rf"% {table.title}; {table.note}", rf"\begin{{tabular}}{{ll{'r' * len(table.headings)}}}", r"\toprule"]
        return "\n".join([*begin, lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}", ""])
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join(
        [f"**{table.title}**", "", lines[0], "|" + "---|" * len(head), *lines[1:], "", f"{table.note}.", ""]
    )


def print_table(console: "Console", printed: PrintedTable, form: TableFormat) -> None:
    """Print a table of the paper with our rows in it."""
    if form != "text":
        print(format_table(printed, form), end="")
        return
    from rich import box  # bare GPU machines write tables without it
    from rich.table import Table

    table = Table(title=printed.title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("method", overflow="fold")
    table.add_column("source", overflow="fold")
    for heading in printed.headings:
        table.add_column(heading, justify="right", overflow="fold")
    for row in printed.rows:
        style = "bold" if row.source == "measured" else "dim"
        table.add_row(row.method, row.source, *row.cells, style=style)
    console.print(table)
    console.print(f"{printed.note}.", soft_wrap=True, highlight=False)


def as_html(table: PrintedTable) -> str:
    """The table as a section of the report."""
    heads = "".join(f"<th>{escape(h)}</th>" for h in table.headings)
    rows = "".join(
        f'<tr class="{row.source}"><td>{escape(row.method)}</td><td class="text">{row.source}'
        f"</td>{''.join(f'<td>{escape(cell)}</td>' for cell in row.cells)}</tr>"
        for row in table.rows
    )
    return (
        f"<h2>{escape(table.title)}</h2><p>{escape(table.note)}.</p>"
        f'<div class="wide"><table><tr><th>method</th><th>source</th>{heads}</tr>{rows}</table></div>'
    )


def latex(text: str) -> str:
    for sign, name in (("_", r"\_"), ("%", r"\%"), ("&", r"\&"), ("±", r"$\pm$"), ("↑", r"$\uparrow$")):
        text = text.replace(sign, name)
    return text.replace("↓", r"$\downarrow$").replace("σ", r"$\sigma$").replace("Δ", r"$\Delta$")
