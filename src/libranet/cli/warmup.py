"""`libranet warmup`: compile the GPU's kernels now, so that the first video starts at once."""

from __future__ import annotations

from typing import Annotated

import typer

from libranet.cli.units import parse_size

SIZES = "1920x1080,3840x2160"
FORMATS = "yuv420p,yuv420p10le,rgb24"


def warmup(
    size: Annotated[str, typer.Option(help="Frame sizes as WIDTHxHEIGHT, separated by commas.")] = SIZES,
    pixel_format: Annotated[
        str, typer.Option("--format", help="Pixel formats as FFmpeg names them, separated by commas.")
    ] = FORMATS,
    model: Annotated[str | None, typer.Option(help="libranet-base, libranet-small, or a checkpoint's path.")] = None,
    device: Annotated[str, typer.Option(help="auto, cuda or cuda:N.")] = "auto",
) -> None:
    """Compile the kernels for frames of these sizes and formats, and compare them with the plain network.

    Both are kept on disk. Without it, the first frame of a kind whose kernels were not shipped waits for them.
    """
    from libranet.engine.warmup import warm_up

    sizes = [parse_size(text) for text in size.split(",")]
    names = [name.strip() for name in pixel_format.split(",")]
    for line in warm_up(sizes, names, model=model, device=device):
        print(line, flush=True)
