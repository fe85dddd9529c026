"""docs/paper.md: its numbers are those of the benchmark's file, of the ablation's page and of the paper's tables."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text()
PAPER = (ROOT / "tests" / "lab" / "paper-tables.tsv").read_text()
NOT_TRAINED = ("libranet", "libranet-plain", "clahe", "dcp")


def between(text: str, name: str) -> dict[str, list[str]]:
    part = text.split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->", maxsplit=1)[0]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in part.strip().splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_slowdown_is_that_of_the_benchmark() -> None:
    files = re.findall(r"`(bench-peers-h200[^`]*)`", PAGE)
    assert len(files) == 2
    drops: dict[str, float] = {}
    for file in files:
        rows = json.loads((ROOT / "benchmarks" / "results" / file).read_text())["rows"]
        speed = {(row["model"], row["size"][0]): row["fps"] for row in rows if row["fps"]}
        drops |= {m: fps / speed[m, 3840] for (m, width), fps in speed.items() if width == 1280 and (m, 3840) in speed}
    printed = {name: cells[0] for name, cells in between(PAGE, "drop").items() if not name.startswith("paper")}
    assert printed == {name: f"{drops[name]:.2f}" for name in drops if name not in ("clahe", "dcp")}
    dense = [drop for name, drop in drops.items() if name not in NOT_TRAINED]
    assert (sum(drop < 7.6 for drop in dense), len(dense)) == (8, 14)
    assert "8 of 14 networks drop by less" in PAGE


def test_ablation_is_that_of_its_page() -> None:
    theirs = between((ROOT / "docs" / "analysis.md").read_text(), "ablation")
    for variant, cells in theirs.items():
        assert f"| {variant} | {' | '.join(cells)} |" in PAGE


def test_papers_rows_are_those_of_its_tables() -> None:
    ours = next(line for line in PAPER.splitlines() if line.startswith("main\tOurs")).split("\t")[2:]
    for place, first in (("UHV-4K", 0), ("REVIDE", 3), ("HazeWorld", 6)):
        psnr, ssim, lpips = ours[first : first + 3]
        assert f"| {place}: LiBrA-Net | {psnr} dB, {ssim}, {lpips} |" in PAGE
    tof, sigma, _ = next(line for line in PAPER.splitlines() if line.startswith("temporal\tOurs")).split("\t")[2:]
    assert f"| tOF of LiBrA-Net | {tof} |" in PAGE
    assert f"| σ-PSNR of LiBrA-Net | {sigma} dB |" in PAGE


def test_main_table_is_that_of_the_raw_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from comparison_rows import METRICS, Run, estimates

    files = sorted((ROOT / "benchmarks" / "results" / "paper-main").glob("*.json"))
    runs = [Run(**json.loads(file.read_text())["run"]) for file in files]
    printed = {name.split("`")[0]: cells for name, cells in between(PAGE, "main").items() if "paper" not in name}
    assert printed.keys() == {run.model for run in runs if run.values}, "the page has every measured row"
    for model, (samples, *cells) in printed.items():
        mine = [run for run in runs if run.model == model]
        assert samples == (f"{min(run.samples for run in mine):,}" if mine[0].samples else "-")
        found = estimates(mine, "clips")
        for cell, metric in zip(cells, METRICS.split(","), strict=True):
            mean, half_width = map(float, cell.split(" ± "))
            digits = len(cell.split(" ")[0].split(".")[1])
            assert (mean, half_width) == (
                round(found[metric].mean, digits),
                round(found[metric].half_width or 0, digits),
            )
    for run in runs:
        if not run.done:
            assert f"| `{run.model}` | {run.samples:,}" in PAGE
