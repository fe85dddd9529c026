"""The network's weights for the page's own kernels, and an answer of PyTorch that every visitor's GPU has to give."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from libranet.network import GridFilter, LiBrANet, start_stream, stream_step

_CHECK = (3, 3, 70, 101)
"""Frames, colours, height and width of the check: no multiples of the refiner's cells."""


def gpu_runs(network: LiBrANet) -> bool:
    """Whether the page's kernels cover a network: all parts, refiner of scale 4, channels in fours."""
    c = network.config
    parts = c.parts
    widths = (*c.encoder.widths, c.refiner.width, c.fields.hidden, c.encoder.widths[-1] // c.fields.attention_heads)
    whole = parts.chromatic_field and parts.temporal_field and parts.refiner and parts.cayley and parts.adaptive_slicing
    return whole and c.scale == 4 and c.refiner.mix_kernel == 1 and not any(width % 4 for width in widths)


def write_gpu_weights(network: LiBrANet, path: Path, grid_filter: GridFilter) -> dict[str, Any]:
    """Write weights of 16 bits and the check. Returns the configuration that the kernels need."""
    frames = _check_frames()
    tensors = {name: value.half().contiguous() for name, value in network.state_dict().items()}
    tensors["check.frames"] = frames.permute(0, 2, 3, 1).contiguous()
    tensors["check.images"] = _restored(network, frames, grid_filter).permute(0, 2, 3, 1).contiguous()
    save_file(tensors, path)
    c = network.config
    return {
        "side": network.grid_side,
        "size": c.encoder.size,
        "bins": c.fields.bins,
        "window": c.window,
        "heads": c.fields.attention_heads,
        "memory": grid_filter.memory,
        "span": grid_filter.span,
    }


def _check_frames() -> torch.Tensor:  # uint8 [T, 3, H, W]
    """A gradient in haze with noise, which moves: nothing of it is even or symmetric."""
    count, _, height, width = _CHECK
    generator = torch.Generator().manual_seed(0)
    rows, columns = torch.linspace(0, 1, height)[:, None], torch.linspace(0, 1, width)
    colours = torch.stack([rows * columns, 0.3 + 0.5 * columns.expand(height, -1), 1 - 0.7 * rows.expand(-1, width)])
    noise = torch.rand(_CHECK, generator=generator)
    moving = torch.stack([colours.roll(4 * n, dims=2) for n in range(count)])
    return ((0.45 + 0.3 * moving + 0.15 * noise) * 255).round().byte()


def _restored(network: LiBrANet, frames: torch.Tensor, grid_filter: GridFilter) -> torch.Tensor:  # uint8, as `frames`
    state, images = start_stream(network, lookahead=0, grid_filter=grid_filter), []
    with torch.no_grad():
        for frame in frames:
            image, state = stream_step(network, frame[None].float() / 255, state)
            assert image is not None  # without look-ahead every frame comes back at once
            images.append((image[0] * 255).round().byte())
    return torch.stack(images)
