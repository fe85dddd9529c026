"""`libranet train`: train a recipe."""

from pathlib import Path
from typing import Annotated

import typer

from libranet.cli import EXIT_INTERRUPTED


def train(
    recipe: Annotated[Path, typer.Argument(help="A TOML file, for example recipes/smoke.toml.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder of the run; default runs/NAME.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. optimiser.lr=1e-4.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in the folder stopped.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
) -> None:
    """Train a recipe. Processes under torchrun share its batch. SIGINT and SIGTERM save the state after the step."""
    from libranet.training.start import train as train_recipe

    folder = output or Path("runs") / recipe.stem
    outcome = train_recipe(recipe, folder, overrides=overrides or (), resume=resume, device=device)
    if outcome.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
