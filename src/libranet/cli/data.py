"""`libranet data`: check, show and report on a dataset."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from libranet.errors import InputError


def data(
    action: Annotated[
        Literal["check", "show", "report", "figures", "pack"],
        typer.Argument(help="check, show, write report.html or figures, or pack into shards."),
    ],
    folder: Annotated[Path, typer.Argument(help="A folder that `libranet synth` made.")],
    remeasure: Annotated[
        bool, typer.Option("--remeasure", help="With check: run the five checks again on the files.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="With figures and pack: where they go; of figures, the set by default."),
    ] = None,
    split: Annotated[Literal["train", "test", "all"], typer.Option(help="With pack: part of the set.")] = "train",
) -> None:
    """Check, show or report on a dataset made by `libranet synth`.

    `figures` draws the paper's composition figure (composition.svg and .png) and writes its comparison of data sets
    with a row for this one (datasets.md, .csv and .tex). Of sets in other layouts it writes the table alone.
    `pack` writes the pairs of a set in any layout as tar shards for training on many machines.
    """
    if action == "check":
        _check(folder, remeasure)
    elif action == "show":
        _show(folder)
    elif action == "figures":
        from libranet.extension import lab

        lab("cli.data_figures").write_figures(folder, output or folder)
    elif action == "pack":
        _pack(folder, output, split)
    else:
        from libranet.synth.report import write_report

        print(write_report(folder))


def _pack(folder: Path, output: Path | None, split: Literal["train", "test", "all"]) -> None:
    from libranet.data import pack_pairs, uhv4k_pairs
    from libranet.data.agreement import require_pairs
    from libranet.data.dataset import DATASET_FILE

    if output is None:
        raise InputError("libranet data pack needs a folder for the shards: add -o FOLDER")
    if not folder.is_dir():
        raise InputError(f"no dataset at {folder}: check the path")
    ours = (folder / DATASET_FILE).is_file()
    clips = uhv4k_pairs(folder, split) if ours else require_pairs(folder, split)
    shards = pack_pairs(clips, output)
    frames = sum(len(clip) for clip in clips)
    print(f"{len(clips)} clips, {frames} pairs in {shards} shard{'' if shards == 1 else 's'}: {output}")


def _check(folder: Path, remeasure: bool) -> None:
    """Check that every file has its checksum and that every accepted clip passed the five checks."""
    from libranet.data.dataset import CLIPS_FOLDER, Clip, DatasetInfo, find_damage
    from libranet.synth.screening import screen_clip

    info = DatasetInfo.load(folder)
    if not info.complete:
        raise InputError(f"expected a complete dataset in {folder}; run its `libranet synth` command again")
    names = info.names("all", flagged=True)
    problems: list[str] = []
    for name in names:
        damage = find_damage(folder, name)
        problems += damage
        if not damage:
            clip = Clip(folder / CLIPS_FOLDER / name)
            checks = screen_clip(clip)[0] if remeasure else clip.info.checks
            if name not in info.flagged:
                problems += [
                    f"{clip.folder}: {check.name} is {check.value}, over its limit {check.threshold}"
                    for check in checks
                    if not check.passed
                ]
    console = Console(highlight=False, soft_wrap=True)
    for problem in problems:
        console.print(f"[red]problem:[/] {escape(problem)}")
    if problems:
        raise InputError(f"{len(problems)} problems in {folder}; the first: {problems[0]}")
    console.print(f"{len(names)} clips whole, {len(names) - len(info.flagged)} accepted, {len(info.flagged)} flagged")


def _show(folder: Path) -> None:
    from libranet.data.dataset import CLIPS_FOLDER, Clip, DatasetInfo
    from libranet.haze.scattering import PAPER_HAZY_PSNR

    info = DatasetInfo.load(folder)
    table = Table(title=str(folder), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("clip", overflow="fold")
    for heading in ("source", "size", "frames", "regime", "dB", "part"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in ("frames", "dB") else "left")
    values = []
    for name in info.names("all", flagged=True):
        clip = Clip(folder / CLIPS_FOLDER / name).info
        part = next((part for part, names in info.split.items() if name in names), "flagged")
        values.append(clip.hazy_psnr)
        table.add_row(
            name,
            clip.source["kind"],
            f"{clip.width}x{clip.height}",
            str(clip.frames),
            clip.regime,
            f"{clip.hazy_psnr:.2f}",
            part,
            style=None if clip.accepted else "yellow",
        )
    console = Console()
    console.print(table)
    if values:
        console.print(f"mean hazy PSNR {sum(values) / len(values):.2f} dB (the paper's UHV-4K: {PAPER_HAZY_PSNR} dB)")
    for name, reason in info.failures.items():
        console.print(f"[red]no clip:[/] {name}: {escape(reason)}")
