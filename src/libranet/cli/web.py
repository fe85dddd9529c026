"""`libranet web`: the page as a static site that needs no server behind it."""

from pathlib import Path
from typing import Annotated

import typer


def web(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the site.")],
    model: Annotated[
        list[str] | None, typer.Option(help="libranet-small, libranet-base or a checkpoint; repeatable.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing site.")] = False,
) -> None:
    """Write a static site that dehazes photos, short clips and the camera in the visitor's own browser.

    Nothing is uploaded anywhere. The libraries (onnxruntime-web, mediabunny) come from npm once, with pinned hashes;
    `libranet weights pull NAME --index REGISTRY` gets them from elsewhere.
    """
    from libranet.web.site import default_models, write_site

    report = write_site(output, model or default_models(), overwrite=overwrite)
    for name, difference in report.differences.items():
        print(f"{name}: {difference}")
    for what, size in report.downloads.items():
        print(f"download of {what}: {size / 1e6:.1f} MB")
    print(f"site: {output} (serve it, for example: python -m http.server -d {output})")
