"""Timing on the device, and the network and frames that every section uses."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from libranet.frames import ColorConverter
from libranet.frames.format import RGB8
from libranet.network import GridFilter, LiBrANet, LiBrANetConfig, load_model
from libranet.network.checkpoint import packaged_weights
from libranet.runtime.gpu.step import FusedStep

SIZES = {"720p": (1280, 720), "1080p": (1920, 1080), "4K": (3840, 2160), "8K": (7680, 4320)}
SHIPPED_FILTER = GridFilter(1.0, 30.0)
"""What `libranet dehaze` uses for a video of 30 frames per second."""


def graph_ms(work: Callable[[], object], *, inner: int = 5, repeats: int = 9) -> float:
    """Median milliseconds of one call, from replays of a CUDA graph that holds `inner` calls."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(inner):
            work()
    graph.replay()
    return event_ms(graph.replay, repeats=repeats) / inner


def event_ms(work: Callable[[], object], *, repeats: int = 20, warmup: int = 1) -> float:
    """Median milliseconds between device events around one call."""
    for _ in range(warmup):
        work()
    pairs = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in pairs)


def wait_for(go: Path | None) -> None:
    """Wait until this file appears: a section that had to compile beside others is timed alone."""
    if go is not None:
        print("ready", flush=True)
    while go is not None and not go.exists():
        time.sleep(0.05)


def trained_net() -> tuple[LiBrANet, str]:
    """The network of the package in single precision, and which one it is; random weights where none is shipped."""
    if packaged_weights().is_file():
        return load_model().eval(), "trained"
    return perturbed_net(), "random"


def perturbed_net(config: LiBrANetConfig | None = None, *, seed: int = 0) -> LiBrANet:
    """The network with random weights everywhere, its zero-initialised heads included, so that nothing is trivial.

    Scaled so that it changes a frame by a few percent, as a trained one does.
    """
    torch.manual_seed(seed)
    net = LiBrANet(config).eval()
    assert net.chromatic is not None
    assert net.temporal is not None
    assert net.refiner is not None
    with torch.no_grad():
        for head in (net.chromatic.head.project, net.temporal.head.project):
            head.weight.normal_(0.0, 0.01)
            head.bias.normal_(0.0, 0.05)
        net.refiner.project.weight.normal_(0.0, 0.004)
        net.refiner.project.bias.normal_(0.0, 0.01)
        for name, parameter in net.named_parameters():
            if "norm" in name or ("branch" in name and parameter.dim() == 1):
                parameter.add_(0.1 * torch.randn_like(parameter))
    return net


def random_frames(count: int, width: int, height: int, *, seed: int = 0) -> Tensor:  # [count, H, W, 3] uint8
    """Smooth colours with noise on top: busy like an image, not like white noise."""
    generator = torch.Generator("cuda" if torch.cuda.is_available() else "cpu").manual_seed(seed)
    device = generator.device
    coarse = torch.rand(count, 3, 9, 16, generator=generator, device=device)
    out = torch.empty(count, height, width, 3, dtype=torch.uint8, device=device)
    for index in range(count):
        smooth = torch.nn.functional.interpolate(coarse[index : index + 1], size=(height, width), mode="bicubic")
        noise = 0.05 * torch.randn(1, 3, height, width, generator=generator, device=device)
        out[index] = ((smooth + noise).clamp(0, 1)[0] * 255).permute(1, 2, 0).to(torch.uint8)
    return out


def fill_frames(step: FusedStep) -> None:
    """Fill the ring of a step with different frames of its format."""
    format_ = step.format
    for slot in range(step.frames.ring):
        image = random_frames(1, format_.width, format_.height, seed=slot)
        if format_.layout != RGB8:
            converter = ColorConverter(format_.layout, format_.color, device=image.device)
            planes = tuple(p[None] for p in converter.encode(image.permute(0, 3, 1, 2) / 255.0))
        else:
            planes = (image,)
        step.frames.write(slot, planes)
