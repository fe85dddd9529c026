"""`libranet serve`: the web page, with this machine behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's own need --token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[str | None, typer.Option(help="What visitors must know; `new` makes one up.")] = None,
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
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve the web page: drop a video or a photo, compare before and after, start, play, download.

    Everything stays on this machine. GET /api/docs describes the HTTP interface. Ctrl-C ends the server; jobs under way
    go on when it starts again.
    """
    import secrets

    from libranet.cli.units import parse_bytes, parse_time
    from libranet.serve.run import run_server
    from libranet.serve.settings import Limits, ServeSettings

    if token == "new":
        token = secrets.token_urlsafe(16)
    settings = ServeSettings(
        folder=(data or Path.home() / ".cache" / "libranet" / "serve").resolve(),
        host=host,
        port=port,
        token=token,
        model=model,
        devices=tuple(device or ["auto"]),
        limits=Limits(
            upload_bytes=parse_bytes(max_upload, "--max-upload"),
            seconds=parse_time(max_length, "--max-length"),
            memory_bytes=parse_bytes(max_memory, "--max-memory"),
            quota_bytes=parse_bytes(quota, "--quota"),
            keep_seconds=3600.0 * keep,
        ),
    )
    run_server(settings, open_browser=browser)
