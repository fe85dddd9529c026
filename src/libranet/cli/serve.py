"""`libranet serve`: the web page, with this machine behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from libranet.errors import InputError


def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's own need --token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="LIBRANET_TOKEN", help="What visitors must know; `new` makes one up.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file with the token, such as a secret of Docker.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the jobs; ~/.cache/libranet/serve without it.")] = None,
    model: Annotated[str | None, typer.Option(help="libranet-base, libranet-small, or a checkpoint's path.")] = None,
    device: Annotated[
        list[str] | None, typer.Option(help="auto, cpu, cuda:0 ...; give it repeatedly for a worker on each.")
    ] = None,
    max_upload: Annotated[str, typer.Option(help="The largest file.")] = "4G",
    max_length: Annotated[str, typer.Option(help="The longest video: seconds, mm:ss or hh:mm:ss.")] = "30:00",
    max_memory: Annotated[str, typer.Option(help="Memory for one file, beside the network.")] = "8G",
    quota: Annotated[str, typer.Option(help="Space for all files together.")] = "20G",
    keep: Annotated[float, typer.Option(help="Hours after which a job is deleted.")] = 24.0,
    sub_path: Annotated[str, typer.Option(help="Where a proxy puts the page and passes it on, such as /haze.")] = "",
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option(help="A proxy's address or network, 10.0.0.0/8; this machine's without it. Repeatable."),
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve the web page: drop a video or a photo, compare before and after, start, play, download.

    Everything stays on this machine. GET /api/docs describes the HTTP interface. Ctrl-C ends the server; jobs under way
    go on when it starts again.
    """
    import secrets

    from libranet.cli.units import parse_bytes, parse_time
    from libranet.network.checkpoint import packaged_name
    from libranet.serve.run import run_server
    from libranet.serve.settings import Limits, ServeSettings

    if token_file is not None:
        token = _read_token(token_file)
    made_up = token == "new"
    if made_up:
        token = secrets.token_urlsafe(16)
    settings = ServeSettings(
        folder=(data or Path.home() / ".cache" / "libranet" / "serve").resolve(),
        host=host,
        port=port,
        token=token,
        model=model,
        fast_model="libranet-small" if packaged_name(model) == "base" else None,
        devices=tuple(device or ["auto"]),
        sub_path=sub_path.rstrip("/"),
        trusted_proxies=tuple(trust_proxy or ServeSettings.trusted_proxies),
        limits=Limits(
            upload_bytes=parse_bytes(max_upload, "--max-upload"),
            seconds=parse_time(max_length, "--max-length"),
            memory_bytes=parse_bytes(max_memory, "--max-memory"),
            quota_bytes=parse_bytes(quota, "--quota"),
            keep_seconds=3600.0 * keep,
        ),
    )
    run_server(settings, open_browser=browser, show_token=made_up)


def _read_token(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the token from {path} ({error}): give --token-file another file") from None
