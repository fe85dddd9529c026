"""The table of commands, and the one place where a user's mistake becomes a sentence and an exit code."""

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

import libranet
from libranet.cli import EXIT_BUG, EXIT_INTERRUPTED, EXIT_TERMINATED, EXIT_USER_ERROR
from libranet.cli.signals import Terminated
from libranet.errors import LibraNetError

COMMANDS = {
    "dehaze": "libranet.cli.dehaze:dehaze",
    "watch": "libranet.cli.watch:watch",
    "synth": "libranet.cli.synth:synth",
    "data": "libranet.cli.data:data",
    "train": "libranet.cli.train:train",
    "ablate": "libranet.lab.cli.ablate:ablate",
    "eval": "libranet.cli.eval:evaluate_command",
    "analyze": "libranet.lab.cli.analyze:analyze",
    "study": "libranet.lab.cli.study:study",
    "bench": "libranet.lab.cli.bench:bench",
    "export": "libranet.cli.export:export",
    "serve": "libranet.cli.serve:serve",
    "web": "libranet.cli.web:web",
    "weights": "libranet.cli.weights:weights",
    "info": "libranet.cli.info:info",
    "doctor": "libranet.cli.doctor:doctor",
    "warmup": "libranet.cli.warmup:warmup",
}
"""Where each command's function is. It is imported when the command is called, or listed by `--help`."""


_ADDRESS = re.compile(r"local|auto|(ray://)?[A-Za-z0-9._-]+:\d+")
"""What `--cluster` takes. It may stand alone, and then the word after it is an argument of its own."""


class _Command(TyperCommand):
    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        with _errors_as_json("--json" in args, to_stderr="-" in args):
            return super().parse_args(ctx, with_addresses(args))

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        with _errors_as_json(bool(ctx.params.get("as_json")), to_stderr=ctx.params.get("output") == "-"):
            return super().invoke(ctx)


class _Commands(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # names alone, for lists and for typos

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        command = CommandInfo(cmd_name, cls=_Command, callback=getattr(import_module(module), function))
        return get_command_from_info(command, pretty_exceptions_short=True, rich_markup_mode=self.rich_markup_mode)


@contextmanager
def _errors_as_json(asked: bool, *, to_stderr: bool) -> Iterator[None]:
    """Print what ends a command as JSON where machines read its output, too, before it becomes a sentence and a code.

    A command that has printed its own JSON ends with `typer.Exit`. Frames on standard output leave it no room there.
    """
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except BaseException as error:
        code, sentence = _verdict(error)
        if asked:
            values = {"results": [], "error": sentence, "exit_code": code}
            print(json.dumps(values, indent=2), file=sys.stderr if to_stderr else sys.stdout, flush=True)
        if isinstance(error, KeyboardInterrupt):  # typer knows one code for all
            print(sentence, file=sys.stderr)
            raise typer.Exit(code) from None
        raise


def _verdict(error: BaseException) -> tuple[int, str]:
    """Return the exit code that an error leads to, and the sentence about it."""
    if isinstance(error, LibraNetError):
        return EXIT_USER_ERROR, error.sentence
    if isinstance(error, Terminated):
        return EXIT_TERMINATED, "stopped"
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED, "stopped"
    if (words := getattr(error, "format_message", None)) is not None:  # typer's own, about words that it cannot parse
        return EXIT_USER_ERROR, words()
    from libranet.cli.bugs import explain

    sentence, bug = explain(error)
    return EXIT_BUG if bug else EXIT_USER_ERROR, sentence


def with_addresses(args: list[str]) -> list[str]:
    """Write `local` behind every `--cluster` that has no address."""
    filled = []
    for position, word in enumerate(args):
        following = args[position + 1] if position + 1 < len(args) else ""
        bare = word == "--cluster" and not _ADDRESS.fullmatch(following)
        filled.append("--cluster=local" if bare else word)
    return filled


def build_app() -> typer.Typer:
    app = typer.Typer(
        name="libranet",
        cls=_Commands,
        help="Real-time dehazing of 4K video.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if _shows_boxes() else None,
    )

    @app.callback()
    def top(
        version: Annotated[
            bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
        ] = False,
        verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log details to stderr.")] = False,
    ) -> None:
        _log_to_stderr(logging.DEBUG if verbose else logging.INFO)

    return app


def _shows_boxes() -> bool:
    """Return whether the terminal shows the frames around help texts: Python writes UTF-8 in the C locale, too."""
    names = [os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)]
    return "utf" in (names[0] if names else sys.stdout.encoding or "").lower()


def main() -> None:
    # torch's threads spin for milliseconds after each operation. Beside other programs that takes most of the time, and
    # they read this when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        build_app()()
    except (Exception, KeyboardInterrupt) as error:
        from rich.console import Console
        from rich.markup import escape

        code, sentence = _verdict(error)
        head = "" if isinstance(error, KeyboardInterrupt) else "[bold red]error:[/] "
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"{head}{escape(sentence)}")
        sys.exit(code)


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
