"""The paper's ablation tables with our rows in them, and the file that has every number."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from libranet.atomic import write_atomically
from libranet.evaluation.metric_table import find_metric
from libranet.evaluation.summary import Estimate, estimate, format_estimate
from libranet.lab.ablation.records import Run
from libranet.lab.ablation.variants import FULL, Group, Variant
from libranet.lab.paper.printed import PrintedTable, TableFormat, TableRow, format_table

FIDELITY = ("psnr", "ssim", "lpips")
TEMPORAL = ("tof", "sigma_psnr", "psnr")
TITLES: dict[Group, str] = {
    "architecture": "(a) Architectural ablation",
    "supervision": "(b) Supervision ablation",
    "temporal": "(c) Targeted ablations of temporal consistency",
    "own": "Variants of our own",
}
REPORTED_SETS = ("UHV-4K", "REVIDE")


@dataclass(frozen=True)
class Study:
    """Everything that a study has measured so far."""

    variants: tuple[Variant, ...]
    runs: dict[str, list[Run]]
    """Finished runs by variant; a variant that equals another has that one's."""
    reference: dict[str, dict[str, float]]  # the sets without dehazing: metric by set
    sets: tuple[str, ...]
    seeds: int
    steps: int
    batch: int
    device: str

    def estimate(self, variant: str, place: str, metric: str) -> Estimate | None:
        """Mean over the seeds with a 95 % interval."""
        values = list(self._by_seed(variant, place, metric).values())
        return estimate(values) if values else None

    def difference(self, variant: str, place: str, metric: str = "psnr") -> Estimate | None:
        """Mean difference to the full model over the seeds that both have: the same samples, the same clips."""
        full, ours = (self._by_seed(name, place, metric) for name in (FULL, variant))
        values = [ours[seed] - full[seed] for seed in ours if seed in full]
        return estimate(values) if values else None

    def _by_seed(self, variant: str, place: str, metric: str) -> dict[int, float]:
        return {r.seed: r.sets[place][metric] for r in self.runs[variant] if metric in r.sets.get(place, {})}

    def verdict(self, variant: str, place: str) -> str:
        """`better`, `worse` or `no difference` in PSNR: whether the 95 % interval of the difference leaves out zero."""
        found = self.difference(variant, place)
        if found is None or found.half_width is None:
            return "not known"
        if abs(found.mean) <= found.half_width:
            return "no difference"
        return "better" if found.mean > 0 else "worse"

    def news(self) -> list[str]:
        """What should not be overlooked: variants that beat the full model, failed runs, heads that are dead."""
        lines = []
        for variant in self.variants:
            if variant.name == FULL or not self.runs[variant.name] or variant.same_as:
                continue
            for place in self.sets:
                if self.verdict(variant.name, place) == "better":
                    lead = format_estimate(self.difference(variant.name, place), 2)
                    lines.append(f"{variant.paper.title} is better than the full model on {place}: +{lead} dB")
        for variant in self.variants:
            failed = [run for run in self.runs[variant.name] if run.failure]
            lines += [f"{variant.paper.title}, seed {run.seed}, failed: {run.failure}" for run in failed]
        for name in ("chromatic", "temporal"):
            shares = [run.live_units[name] for run in self.runs[FULL] if name in run.live_units]
            if shares and min(shares) < 0.5:
                lines.append(f"the {name} field of the full model is hardly alive: {min(shares):.0%} of its units")
        return lines


def ablation_tables(study: Study) -> list[PrintedTable]:
    """One table per part that has variants: our rows, then the paper's."""
    groups = {variant.paper.group for variant in study.variants} | {"temporal"}
    tables = []
    for group, title in TITLES.items():
        members = [v for v in study.variants if v.name == FULL or v.paper.group == group]
        if group == "temporal":
            members = [v for v in study.variants if v.paper.temporal is not None]
        if group not in groups or len(members) < 2:
            continue
        build = _temporal_table if group == "temporal" else _fidelity_table
        tables.append(build(study, title, members))
    return tables


def write_study(study: Study, folder: Path) -> None:
    """Write ablation.json, .md, .csv and .tex."""
    tables = ablation_tables(study)
    header = f"# Ablation study: {study.steps} steps of {study.batch} samples on {study.device}, {study.seeds} seeds"
    news = [f"- {line}" for line in study.news()]
    text = "\n".join([header, "", *(format_table(table, "md") for table in tables), *news, ""])
    write_atomically(folder / "ablation.md", text.encode())
    forms: tuple[tuple[str, TableFormat], ...] = (("csv", "csv"), ("tex", "latex"))
    for suffix, form in forms:
        write_atomically(folder / f"ablation.{suffix}", "\n".join(format_table(t, form) for t in tables).encode())
    write_atomically(folder / "ablation.json", (json.dumps(as_json(study), indent=2) + "\n").encode())


def as_json(study: Study) -> dict[str, Any]:
    rows = []
    for variant in study.variants:
        paper = variant.paper
        measured = {
            place: {
                metric: asdict(value)
                for metric in dict.fromkeys((*FIDELITY, *TEMPORAL))
                if (value := study.estimate(variant.name, place, metric)) is not None
            }
            for place in study.sets
        }
        rows.append(
            {
                "variant": variant.name,
                "title": paper.title,
                "group": paper.group,
                "changes": variant.changes,
                "same_as": variant.same_as,
                "not_run": variant.not_run,
                "measured": measured,
                "psnr_difference": {
                    place: None if (d := study.difference(variant.name, place)) is None else asdict(d)
                    for place in study.sets
                },
                "verdict": {place: study.verdict(variant.name, place) for place in study.sets},
                "paper": {"UHV-4K": paper.uhv4k, "REVIDE": paper.revide, "temporal": paper.temporal},
                "runs": [asdict(run) for run in study.runs[variant.name]],
            }
        )
    return {
        "format": "libranet-ablation",
        "version": 1,
        "steps": study.steps,
        "batch": study.batch,
        "seeds": study.seeds,
        "device": study.device,
        "without_dehazing": study.reference,
        "news": study.news(),
        "variants": rows,
    }


def _fidelity_table(study: Study, title: str, members: list[Variant]) -> PrintedTable:
    metrics = [find_metric(name) for name in FIDELITY]
    headings: list[str] = []
    for place in study.sets:
        headings += [f"{m.label} {m.arrow}, {place}" for m in metrics] + [f"ΔPSNR, {place}"]
    rows = []
    if study.reference:
        cells = []
        for place in study.sets:
            cells += [_number(study.reference.get(place, {}).get(m.name), m.digits) for m in metrics] + ["-"]
        rows.append(TableRow("No dehazing", "measured", tuple(cells)))
    for variant in members:
        cells = []
        for place in study.sets:
            cells += [format_estimate(study.estimate(variant.name, place, m.name), m.digits) for m in metrics]
            cells.append("-" if variant.name == FULL else _signed(study.difference(variant.name, place)))
        rows.append(TableRow(variant.paper.title, "measured", tuple(cells)))
    for variant in members:
        cells = []
        for column in range(len(study.sets)):
            values, full = (_reported(member, column) for member in (variant, members[0]))
            if values is None or full is None:
                cells += ["-"] * 4
                continue
            cells += [f"{value:.{m.digits}f}" for value, m in zip(values, metrics, strict=True)]
            cells.append("-" if variant.name == FULL else f"{values[0] - full[0]:+.2f}")
        if set(cells) != {"-"}:
            rows.append(TableRow(variant.paper.title, "reported", tuple(cells)))
    return PrintedTable(f"{title} ({_budget(study)})", _note(study, members), tuple(headings), tuple(rows))


def _temporal_table(study: Study, title: str, members: list[Variant]) -> PrintedTable:
    metrics = [find_metric(name) for name in TEMPORAL]
    place = study.sets[0]
    rows = [
        TableRow(
            variant.paper.title,
            "measured",
            tuple(format_estimate(study.estimate(variant.name, place, m.name), m.digits) for m in metrics),
        )
        for variant in members
    ]
    rows += [
        TableRow(
            variant.paper.title,
            "reported",
            tuple(f"{value:.{m.digits}f}" for value, m in zip(variant.paper.temporal or (), metrics, strict=True)),
        )
        for variant in members
    ]
    headings = tuple(f"{m.label} {m.arrow}, {place}" for m in metrics)
    return PrintedTable(f"{title} ({_budget(study)})", _note(study, members), headings, tuple(rows))


def _reported(variant: Variant, column: int) -> tuple[float, float, float] | None:
    """What the paper reports beside our first set, UHV-4K, and beside our second one, REVIDE."""
    return (variant.paper.uhv4k, variant.paper.revide)[column] if column < len(REPORTED_SETS) else None


def _budget(study: Study) -> str:
    return f"{study.steps} steps of {study.batch} samples each, {study.seeds} seeds"


def _note(study: Study, members: list[Variant]) -> str:
    pairs = [f"{theirs} beside {ours}" for ours, theirs in zip(study.sets, REPORTED_SETS, strict=False)]
    text = "± is the 95 % interval over seeds, of ΔPSNR over the seeds' differences; reported on other data: "
    text += ", ".join(pairs)
    for variant in members:
        if variant.same_as:
            text += f"; {variant.paper.title} has the same settings as {variant.same_as} here"
        if variant.not_run:
            text += f"; {variant.paper.title} was not run: {variant.not_run}"
    done = sum(len(study.runs[variant.name]) for variant in members if not variant.not_run)
    wanted = study.seeds * sum(not variant.not_run for variant in members)
    if done < wanted:
        text += f"; {done} of {wanted} runs are done so far"
    return text


def _signed(value: Estimate | None) -> str:
    text = format_estimate(value, 2)
    return f"+{text}" if value is not None and value.mean >= 0 else text


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
