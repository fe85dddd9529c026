"""The table of commands, and the one place where a user's mistake becomes a sentence and an exit code."""

import logging
import re
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from typer.core import TyperCommand

import libranet
from libranet.cli import EXIT_BUG, EXIT_INTERRUPTED, EXIT_USER_ERROR
from libranet.cli.ablate import ablate
from libranet.cli.analyze import analyze
from libranet.cli.bench import bench
from libranet.cli.bugs import bug_sentence
from libranet.cli.data import data
from libranet.cli.dehaze import dehaze
from libranet.cli.doctor import doctor
from libranet.cli.eval import evaluate_command
from libranet.cli.export import export
from libranet.cli.info import info
from libranet.cli.serve import serve
from libranet.cli.study import study
from libranet.cli.synth import synth
from libranet.cli.train import train
from libranet.cli.warmup import warmup
from libranet.cli.web import web
from libranet.cli.weights import weights
from libranet.errors import LibraNetError

COMMANDS: dict[str, Callable[..., None]] = {
    "dehaze": dehaze,
    "synth": synth,
    "data": data,
    "train": train,
    "ablate": ablate,
    "eval": evaluate_command,
    "analyze": analyze,
    "study": study,
    "bench": bench,
    "export": export,
    "serve": serve,
    "web": web,
    "weights": weights,
    "info": info,
    "doctor": doctor,
    "warmup": warmup,
}


_ADDRESS = re.compile(r"local|auto|(ray://)?[A-Za-z0-9._-]+:\d+")
"""What `--cluster` takes. It may stand alone, and then the word after it is an argument of its own."""


class _Command(TyperCommand):
    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, with_addresses(args))


def with_addresses(args: list[str]) -> list[str]:
    """Write `local` behind every `--cluster` that has no address."""
    filled = []
    for position, word in enumerate(args):
        following = args[position + 1] if position + 1 < len(args) else ""
        bare = word == "--cluster" and not _ADDRESS.fullmatch(following)
        filled.append("--cluster=local" if bare else word)
    return filled


def build_app() -> typer.Typer:
    """Turn the table into a typer application."""
    app = typer.Typer(
        name="libranet",
        help="Real-time dehazing of 4K video.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    for name, function in COMMANDS.items():
        app.command(name, cls=_Command)(function)

    @app.callback()
    def top(
        version: Annotated[
            bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
        ] = False,
        verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log details to stderr.")] = False,
    ) -> None:
        _log_to_stderr(logging.DEBUG if verbose else logging.INFO)

    return app


def main() -> None:
    """Entry point of the `libranet` command."""
    try:
        build_app()()
    except LibraNetError as error:
        from rich.console import Console
        from rich.markup import escape

        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}")
        sys.exit(EXIT_USER_ERROR)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        print(f"error: {bug_sentence(error)}", file=sys.stderr)
        sys.exit(EXIT_BUG)


def _print_version(asked: bool) -> None:
    if asked:
        print(libranet.__version__)
        raise typer.Exit


class _StderrHandler(logging.Handler):
    """Writes to whatever `sys.stderr` is at that moment, so that a progress bar or a test can redirect it."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        print(f"{level}{self.format(record)}", file=sys.stderr)


def _log_to_stderr(level: int) -> None:
    logger = logging.getLogger("libranet")
    logger.handlers = [_StderrHandler()]
    logger.setLevel(level)
