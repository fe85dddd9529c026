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
    auto_resume: Annotated[
        bool, typer.Option("--auto-resume", help="Go on if the folder has a state, begin if not: for schedulers.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check data, weights, memory and time, and train nothing.")
    ] = False,
) -> None:
    """Train a recipe. Processes under torchrun share its batch. SIGINT and SIGTERM save the state after the step.

    `--resume` with more steps or epochs than before (`--set steps=20000`) extends a run, also a finished one.
    """
    folder = output or Path("runs") / recipe.stem
    if dry_run:
        from libranet.training.dry_run import plan_training

        resume = resume or (auto_resume and (folder / "state.safetensors").is_file())
        plan = plan_training(recipe, folder, overrides=overrides or (), resume=resume, device=device)
        print("\n".join(plan.lines()))
        return
    from libranet.training.start import train as train_recipe

    outcome = train_recipe(
        recipe, folder, overrides=overrides or (), resume=resume, auto_resume=auto_resume, device=device
    )
    if outcome.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
