"""The paper's tables with our rows in them. Each row says whether it was measured here or reported there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from libranet.errors import InputError
from libranet.evaluation.metric_table import Metric, find_metric
from libranet.evaluation.restorers import TRUTH, NetworkRestorer, Restorer
from libranet.evaluation.summary import Estimate, ReportContent, format_estimate, summarise_models
from libranet.lab.bench.efficiency import SIZES, Efficiency, Subject, measure_efficiency
from libranet.lab.paper.printed import PrintedTable, TableRow
from libranet.lab.paper.values import MAIN_SETS, PAPER_TABLES, TableName, find_set

PAPER_EFFICIENCY_SIZE = (3840, 2160)
_PAPER_ESTIMATORS = {
    "tof": ("tOF", "RAFT"),
    "lpips": ("LPIPS", "LPIPS, network not stated"),
    "niqe": ("NIQE", "variant not stated"),
    "musiq": ("MUSIQ", "training set not stated"),
    "detection": ("detection", "YOLOv8-X"),
    "segmentation": ("segmentation", "SegFormer-B5"),
}
"""What stands behind the paper's numbers, by our estimator."""
_ESTIMATORS_OF: dict[TableName, tuple[str, ...]] = {
    "main": ("lpips",),
    "temporal": ("tof",),
    "downstream": ("niqe", "musiq", "detection", "segmentation"),
    "efficiency": (),
}


def choose_table(text: str) -> TableName:
    """Find a table's name as the user wrote it."""
    for name in PAPER_TABLES:
        if name == text.lower():
            return name
    raise InputError(f"no table is called {text!r}: expected one of {', '.join(PAPER_TABLES)}")


def make_tables(
    names: Sequence[TableName],
    content: ReportContent,
    restorers: Sequence[Restorer],
    dataset: Path,
    device: str,
    sizes: list[tuple[int, int]] | None,
) -> list[PrintedTable]:
    """Make the tables that a user asked for, from an evaluation; speed is measured now."""
    models, tables = summarise_models(content.clips), []
    for name in names:
        if name == "efficiency":
            tables += efficiency_tables(restorers, device, sizes)
        else:
            known = {"not_measured": content.not_measured, "estimators": content.estimators}
            tables.append(compare_with_paper(name, models, dataset=dataset, **known))
    return tables


def compare_with_paper(
    name: TableName,
    models: dict[str, dict[str, Estimate]],
    *,
    dataset: Path,
    not_measured: dict[str, str],
    estimators: dict[str, str] | None = None,
) -> PrintedTable:
    """Put our models' rows above the paper's.

    Args:
        dataset: What was measured on. In the main table, a path that names REVIDE, HazeWorld or UHV-4K decides under
            which set our values stand; any other set has columns of its own.
        estimators: The networks behind our metrics; the note names them beside the paper's.
    """
    known_set = find_set(dataset) if name == "main" else None
    table = MAIN_SETS[known_set] if known_set else PAPER_TABLES[name]
    metrics = [find_metric(column) for column in table.columns]
    rows = []
    for model, values in models.items():
        known = {m.name: values.get(m.name) for m in metrics if model != TRUTH or m.needs != "reference"}
        if not known:
            continue
        cells = (format_estimate(known[m.name], m.digits) if m.name in known else "-" for m in metrics)
        rows.append(TableRow(model, "measured", tuple(cells)))
    nothing = ("-",) * len(metrics)
    own = name == "main" and known_set is None  # nobody has reported on this set
    rows += [
        TableRow(method, "reported", nothing if own else _reported(numbers, metrics)) for method, numbers in table.rows
    ]
    reasons = dict.fromkeys(not_measured[m.name] for m in metrics if m.name in not_measured)
    missing = [
        f"{', '.join(m.label for m in metrics if not_measured.get(m.name) == reason)}: {reason}" for reason in reasons
    ]
    note = f"measured on {dataset.name}; reported on the paper's own test set, so the two are not the same data"
    parts = [
        f"{label} by {estimators[key]} (paper: {theirs})"
        for key, (label, theirs) in _PAPER_ESTIMATORS.items()
        if estimators and key in estimators and key in _ESTIMATORS_OF[name]
    ]
    if parts:
        note += ". Estimators: " + "; ".join(parts)
    if missing:
        note += ". Not measured: " + "; ".join(missing)
    headings = tuple(f"{m.label} {m.arrow}" for m in metrics)
    if name == "main":
        headings = tuple(f"{heading}, {known_set or dataset.name}" for heading in headings)
        for other, columns in MAIN_SETS.items():
            if other == known_set:
                continue
            headings += tuple(f"{m.label} {m.arrow}, {other}" for m in metrics)
            theirs = {method: _reported(numbers, metrics) for method, numbers in columns.rows}
            rows = [replace(r, cells=r.cells + (theirs[r.method] if r.source == "reported" else nothing)) for r in rows]
    title = "Three benchmarks (paper, table 1)" if name == "main" else table.title
    return PrintedTable(title, note, headings, tuple(rows))


def _reported(values: tuple[float | None, ...], metrics: list[Metric]) -> tuple[str, ...]:
    return tuple("-" if v is None else f"{v:.{m.digits}f}" for v, m in zip(values, metrics, strict=True))


def efficiency_tables(
    restorers: Sequence[Restorer], device: str, sizes: list[tuple[int, int]] | None = None
) -> list[PrintedTable]:
    """Measure the speed of the networks among these models, at the usual sizes or at others."""
    subjects = [Subject(r.name, r.network) for r in restorers if isinstance(r, NetworkRestorer)]
    return compare_efficiency(measure_efficiency(subjects, sizes=sizes or SIZES, device=device))


def compare_efficiency(measured: list[Efficiency]) -> list[PrintedTable]:
    """One table per size; the paper's rows are in that of 4K. A method that computes nothing has no speed."""
    return [_efficiency_at(size, [e for e in measured if e.size == size]) for size in {e.size: None for e in measured}]


def _efficiency_at(size: tuple[int, int], measured: list[Efficiency]) -> PrintedTable:
    rows = [
        TableRow(
            e.model,
            "measured",
            (
                e.failure or "-" if e.fps is None else f"{e.fps:.2f}",
                "-" if e.gflops is None else f"{e.gflops:,.1f}",
                f"{e.parameters / 1e6:.2f}",
                "-" if e.peak_bytes is None else f"{e.peak_bytes / 2**30:.2f}",
            ),
        )
        for e in measured
        if e.model not in ("identity", TRUTH)
    ]
    title, note = f"Efficiency at {size[0]}x{size[1]}", f"measured on {measured[0].device}, models in turns"
    if size == PAPER_EFFICIENCY_SIZE:
        for method, (fps, gflops, parameters) in PAPER_TABLES["efficiency"].rows:
            rows.append(TableRow(method, "reported", (f"{fps:.2f}", f"{gflops:,.0f}", f"{parameters:.2f}", "-")))
        note += "; reported (paper, table 1) on one V100"
    name = SIZES.get(size)
    headings = ("FPS ↑", "GFLOPs", "Params (M)", "peak memory (GiB)")
    return PrintedTable(f"{title} ({name})" if name else title, note, headings, tuple(rows))
