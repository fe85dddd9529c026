"""Count a network's parameters and floating-point operations, by torch's flop counter on tensors without storage."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from libranet.network.config import LiBrANetConfig
from libranet.network.libranet import LiBrANet
from libranet.network.stream import start_stream, stream_restore

PAPER_PARAMETERS = 6.12e6
PAPER_GFLOPS = 282.0


@dataclass(frozen=True)
class PartCost:
    """One row of the table. GFLOPs count a multiply-add as two."""

    name: str
    parameters: int
    window_gflops: float  # for one window, all T frames encoded, as the paper counts
    stream_gflops: float  # for one more frame of a stream, which encodes each frame once


@dataclass(frozen=True)
class Cost:
    """Parameters and GFLOPs of a network at one frame size."""

    size: tuple[int, int]  # (width, height) of the frames
    parts: tuple[PartCost, ...]
    parameters: int
    gflops: float
    stream_gflops: float


def measure_cost(config: LiBrANetConfig, *, width: int = 3840, height: int = 2160) -> Cost:
    with torch.device("meta"):
        model = LiBrANet(config).eval()
        window = torch.zeros(1, config.window, 3, height, width)
    # Attention is counted from its matrix products, so it has to run as such.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), torch.no_grad():
        with FlopCounterMode(display=False) as in_window:
            Traced(model, lambda net: net.predict(window))()
        state = start_stream(model)
        for _ in range(config.window):
            _, state = stream_restore(model, window[:, 0], state)
        with FlopCounterMode(display=False) as in_stream:
            Traced(model, lambda net: stream_restore(net, window[:, 0], state))()
    parts = tuple(
        PartCost(name, count_parameters(part), gflops_of(in_window, name), gflops_of(in_stream, name))
        for name, part in _parts(model)
    )
    return Cost(
        size=(width, height),
        parts=parts,
        parameters=count_parameters(model),
        gflops=in_window.get_total_flops() / 1e9,
        stream_gflops=in_stream.get_total_flops() / 1e9,
    )


class Traced(nn.Module):
    """Calls the network from inside a module, which is how the counter learns the full names of its parts."""

    def __init__(self, net: nn.Module, call: Callable[[Any], object]) -> None:
        super().__init__()
        self.net = net
        self.call = call

    def forward(self) -> None:
        self.call(self.net)


def _parts(model: LiBrANet) -> list[tuple[str, nn.Module]]:
    """The pieces of the network that a reader of the paper knows by name."""
    names = (
        "chromatic.encoder",
        "chromatic.head",
        "temporal.encoder",
        "temporal.attention",
        "temporal.head",
        "refiner",
    )
    modules = dict(model.named_modules())
    return [(name, modules[name]) for name in names if name in modules]


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def gflops_of(counter: FlopCounterMode, part: str) -> float:
    """What was counted inside one part of a traced network."""
    return sum(counter.get_flop_counts().get(f"Traced.net.{part}", {}).values()) / 1e9
