"""`python -m libranet.lab.ablation`: `libranet ablate` for GPU machines without typer and PyAV."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from libranet.cli.units import parse_size
from libranet.errors import LibraNetError
from libranet.lab.ablation.ablate import AblationOptions, parse_part, run_study
from libranet.lab.paper.printed import format_table

EXIT_USER_ERROR = 2


def _typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader whose sentence argparse prints."""

    def typed(text: str) -> Any:
        try:
            return read(text)
        except LibraNetError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return typed


READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("seeds", "steps", "clips", "frames"), int),
    "stop_after": float,
    "only": lambda text: tuple(name for name in text.split(",") if name),
    "size": _typed(parse_size),
    "device": str,
    "cache": Path,
    "part": _typed(parse_part),
}
"""How the text of each option is read."""


def main() -> None:
    """Do a study, or as much of it as the time allows."""
    parser = argparse.ArgumentParser(prog="python -m libranet.lab.ablation", description="Train and measure variants.")
    parser.add_argument("recipes", type=Path, nargs="?", default=Path("recipes/ablations"))
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--data", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--keep-weights", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    for name, read in READERS.items():
        default = AblationOptions.__dataclass_fields__[name].default
        parser.add_argument(f"--{name.replace('_', '-')}", type=read, default=default)
    try:
        given = vars(parser.parse_args())
        dry_run = given.pop("dry_run")
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        run_study(
            AblationOptions(**values),
            partial(print, flush=True),
            lambda table: print(format_table(table, "md")),
            dry_run=dry_run,
        )
    except LibraNetError as error:
        parser.exit(EXIT_USER_ERROR, f"error: {error}\n")


if __name__ == "__main__":
    main()
