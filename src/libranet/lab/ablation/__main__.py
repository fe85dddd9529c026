"""`python -m libranet.lab.ablation`: `libranet ablate` for GPU machines without typer and PyAV."""

import argparse
import math
import sys
from pathlib import Path

from libranet.errors import LibraNetError
from libranet.lab.ablation.ablate import AblationOptions, ablate, estimate_study, parse_part, plan_study
from libranet.lab.ablation.ablation_tables import ablation_tables
from libranet.lab.paper.printed import format_table

EXIT_USER_ERROR = 2


def main() -> None:
    """Do a study, or as much of it as the time allows."""
    parser = argparse.ArgumentParser(prog="python -m libranet.lab.ablation", description="Train and measure variants.")
    parser.add_argument("recipes", type=Path, nargs="?", default=Path("recipes/ablations"))
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only", default="")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--data", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--clips", type=int, default=9)
    parser.add_argument("--frames", type=int, default=5)
    parser.add_argument("--size", type=_read_size, default=(1920, 1080), metavar="WIDTHxHEIGHT")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--stop-after", type=float, default=math.inf)
    parser.add_argument("--keep-weights", action="store_true")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    try:
        options = AblationOptions(
            recipes=given.recipes,
            output=given.output,
            seeds=given.seeds,
            steps=given.steps,
            seconds=given.seconds,
            only=tuple(name for name in given.only.split(",") if name),
            overrides=tuple(given.overrides),
            data=tuple(given.data),
            clips=given.clips,
            frames=given.frames,
            size=given.size,
            device=given.device,
            cache=given.cache,
            stop_after=given.stop_after,
            keep_weights=given.keep_weights,
            part=parse_part(given.part),
        )
        plan = plan_study(options)
        print("\n".join(plan.lines()), flush=True)
        if given.dry_run:
            print(estimate_study(plan), flush=True)
            return
        study, complete = ablate(plan, lambda line: print(line, flush=True))
    except LibraNetError as error:
        parser.exit(EXIT_USER_ERROR, f"error: {error}\n")
    for table in ablation_tables(study):
        print(format_table(table, "md"))
    for line in study.news():
        print(f"note: {line}")
    print("all is done" if complete else "not done yet: run the same command again")
    sys.stdout.flush()


def _read_size(text: str) -> tuple[int, int]:
    width, times, height = text.partition("x")
    if not (times and width.isdecimal() and height.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected WIDTHxHEIGHT such as 1920x1080, got {text!r}")
    return int(width), int(height)


if __name__ == "__main__":
    main()
