"""Kernels compiled and compared before the first frame comes."""

import time
from collections.abc import Iterator

import torch

from libranet.engine.plan import named_layout
from libranet.engine.restorer import FRAMES_AT_ONCE
from libranet.frames import ColorSpec, FrameFormat, Frames
from libranet.frames.format import RGB8, RGB16
from libranet.runtime import load_network, make_backend
from libranet.runtime.choose import why_not_fused_here

_PACKED = {"rgb24": RGB8, "rgb48le": RGB16}


def warm_up(
    sizes: list[tuple[int, int]], pixel_formats: list[str], *, model: str | None = None, device: str = "auto"
) -> Iterator[str]:
    """Compile the kernels for frames of these sizes and formats, for files and for live use.

    Args:
        sizes: Width and height.
        pixel_formats: As FFmpeg names them; rgb24 and rgb48le are what `Dehazer` takes.
    """
    layouts = [_PACKED.get(name) or named_layout(name) for name in pixel_formats]
    network = load_network(model, device=device)
    if reason := why_not_fused_here(network):
        yield f"nothing to compile: {reason}"
        return
    for width, height in sizes:
        for layout in layouts:
            format_ = FrameFormat(width, height, layout, ColorSpec(full_range=layout.model != "yuv"))
            generator = torch.Generator().manual_seed(0)
            planes = tuple(
                (torch.rand(shape, generator=generator) * layout.peak).to(layout.dtype).to(network.device)
                for shape in format_.plane_shapes(1)
            )
            begin = time.perf_counter()
            for batch in (FRAMES_AT_ONCE, 1):
                backend = make_backend(network, batch=batch)
                backend.push(Frames(planes, format_))
                backend.flush()
                torch.cuda.synchronize(network.device)
            yield f"{width}x{height} {layout.name}: ready after {time.perf_counter() - begin:.1f} s"
