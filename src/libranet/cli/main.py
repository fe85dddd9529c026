"""The table of commands, and the one place where a user's mistake becomes a sentence and an exit code."""

import sys
from collections.abc import Callable

import typer
from rich.console import Console
from rich.markup import escape

import libranet
from libranet.cli.data import data
from libranet.cli.dehaze import dehaze
from libranet.cli.doctor import doctor
from libranet.cli.eval import evaluate_command
from libranet.cli.info import info
from libranet.cli.synth import synth
from libranet.cli.train import train
from libranet.cli.weights import weights
from libranet.errors import LibraNetError

EXIT_USER_ERROR = 2

COMMANDS: dict[str, Callable[..., None]] = {
    "doctor": doctor,
    "dehaze": dehaze,
    "info": info,
    "synth": synth,
    "data": data,
    "train": train,
    "eval": evaluate_command,
    "weights": weights,
}


def build_app() -> typer.Typer:
    """Turn the table into a typer application."""
    app = typer.Typer(
        name="libranet",
        help="Real-time dehazing of 4K video.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for name, function in COMMANDS.items():
        app.command(name)(function)

    @app.callback(invoke_without_command=True)
    def top(
        version: bool = typer.Option(False, "--version", help="Print the version and stop."),
    ) -> None:
        if version:
            print(libranet.__version__)
            raise typer.Exit

    return app


def main() -> None:
    """Entry point of the `libranet` command."""
    try:
        build_app()()
    except LibraNetError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}")
        sys.exit(EXIT_USER_ERROR)
