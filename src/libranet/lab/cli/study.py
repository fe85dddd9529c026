"""`libranet study`: a blind rating of data sets by people."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from libranet.errors import InputError


def study(
    action: Annotated[
        Literal["make", "score"], typer.Argument(help="make the page, or score the answers that raters sent back.")
    ],
    inputs: Annotated[list[str], typer.Argument(help="make: [NAME=]DATASET each; score: the files of answers.")],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the study.")],
    frames: Annotated[int, typer.Option(min=1, help="make: frames of each data set.")] = 10,
    seed: Annotated[int, typer.Option(help="make: chooses the frames.")] = 0,
) -> None:
    """Rate data sets blindly: haze realism, visual fidelity, scene diversity, on five steps, as the paper's study.

    `make` writes a static page to send out or to put on a server; `score` joins the answers with the key.
    """
    if action == "make":
        _make(inputs, output, frames, seed)
    else:
        _score([Path(path) for path in inputs], output)


def _make(inputs: list[str], output: Path, frames: int, seed: int) -> None:
    from libranet.evaluation.clips import open_dataset
    from libranet.lab.study import KEY_FILE, make_study

    datasets = {}
    for text in inputs:
        name, sign, path = text.partition("=")
        folder = Path(path if sign else text)
        name = name if sign else folder.resolve().name
        if name in datasets:
            raise InputError(f"two data sets are called {name}: name them with NAME=FOLDER")
        datasets[name] = open_dataset(folder, split="all")
    page = make_study(datasets, output, frames=frames, seed=seed)
    print(f"page: {page} (send the folder {page.parent}); keep {output / KEY_FILE} to yourself")


def _score(files: list[Path], output: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from libranet.evaluation.summary import format_estimate
    from libranet.lab.study import KEY_FILE, PAPER_STUDY, QUESTIONS, score_study

    rows = score_study(output / KEY_FILE, files)
    title = f"Perceptual study, {len(files)} rater{'' if len(files) == 1 else 's'}: mean ± 95 % interval"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for heading in ("data set", "source", "realism", "fidelity", "diversity", "overall"):
        table.add_column(heading)
    for row in rows:
        cells = (format_estimate(row.answers.get(question), 2) for question in QUESTIONS)
        table.add_row(row.dataset, "measured", *cells, "–" if row.overall is None else f"{row.overall:.2f}")
    for name, *answers, overall in PAPER_STUDY:
        cells = (f"{mean:.2f} ± {half:.2f}" for mean, half in answers)
        table.add_row(name, "reported", *cells, f"{overall:.2f}", style="dim")
    Console().print(table)
