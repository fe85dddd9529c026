"""Make the tables and figures of docs/comparison.md again, from the raw values in benchmarks/results.

python research/remake_peers.py [--images docs/images]

Draws figures 1(c) and 1(d), prints the table of results, and each row's difference to LiBrA-Net on the same clips and
pairs with its 95 % interval. What the page says about them is for a person to write.
"""

import argparse
import csv
import json
from dataclasses import fields
from pathlib import Path

from libranet.evaluation.results import write_file
from libranet.evaluation.summary import Estimate, estimate
from libranet.lab.bench.efficiency import Efficiency
from libranet.lab.bench.report import quality_plot, speed_plot

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BENCHES = ("bench-peers-h200-2026-11-17.json", "bench-peers-h200-2026-11-17-second.json")
"""A network's rows are those of the last run that has it."""
PER_CLIP = RESULTS / "comparison-h200-2026-11-17" / "per-clip.csv"
OURS = "libranet"
TRAINED_ELSEWHERE = ("maxim-outdoor", "libranet-shipped")
COLUMNS = (
    *(("pairs", metric) for metric in ("psnr", "ssim", "lpips")),
    *(("clips", metric) for metric in ("psnr", "ssim", "lpips", "tof", "sigma_psnr")),
)

Values = dict[str, dict[str, float]]
"""By model and clip."""


def read_speed() -> list[Efficiency]:
    """The measured speed of every network."""
    rows: dict[str, list[Efficiency]] = {}
    names = [field.name for field in fields(Efficiency)]
    for bench in BENCHES:
        found = json.loads((RESULTS / bench).read_text())["rows"]
        rows |= {row["model"]: [] for row in found}
        for row in found:
            rows[row["model"]].append(
                Efficiency(**{name: row[name] for name in names if name in row} | {"size": tuple(row["size"])})
            )
    return [row for found in rows.values() for row in found]


def read_quality() -> dict[tuple[str, str], Values]:
    """What was measured on each clip, by set and metric."""
    found: dict[tuple[str, str], Values] = {column: {} for column in COLUMNS}
    with PER_CLIP.open() as file:
        for row in csv.DictReader(file):
            for (where, metric), values in found.items():
                if row["set"] == where and row[metric]:
                    values.setdefault(row["model"], {})[row["clip"]] = float(row[metric])
    return found


def differences(values: Values, other: str) -> dict[str, Estimate]:
    """Each row's mean difference to another one, clip by clip."""
    base = values[other]
    return {
        model: estimate([mine[clip] - base[clip] for clip in base]) for model, mine in values.items() if model != other
    }


def main() -> None:
    """Draw and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    speed, quality = read_speed(), read_quality()
    psnr = {model: estimate(list(v.values())).mean for model, v in quality["pairs", "psnr"].items()}
    fair = {model: value for model, value in psnr.items() if model not in TRAINED_ELSEWHERE}
    write_file(options.images / "peers-fps-by-size.svg", speed_plot(speed))
    write_file(options.images / "peers-quality-by-fps.svg", quality_plot(speed, fair))

    for model in sorted(psnr, key=psnr.__getitem__, reverse=True):
        cells = [f"`{model}`"]
        for column in COLUMNS:
            values = quality[column].get(model)
            cells.append(_format(estimate(list(values.values())), column[1]) if values else "-")
        print(f"| {' | '.join(cells)} |")
    for column in COLUMNS:
        found = differences(quality[column], OURS)
        order = sorted(found, key=lambda model: found[model].mean, reverse=True)
        print(f"\n{column[1]}, {column[0]}, difference to {OURS}:")
        print(", ".join(f"{model} {_format(found[model], column[1], sign='+')}" for model in order))


def _format(value: Estimate, metric: str, *, sign: str = "") -> str:
    digits = 2 if metric == "psnr" else 3
    return f"{value.mean:{sign}.{digits}f} ± {value.half_width:.{digits}f}"


if __name__ == "__main__":
    main()
