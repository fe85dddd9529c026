"""Eight-bit integers for the refiner's convolutions, which are nearly all of the arithmetic.

Weights get one scale per output channel. An activation map gets one scale and zero point, from the smallest and the
largest value that it has on calibration frames. Before that, each channel is divided by its own factor, which the
weights take up: channels of small range keep their digits (SmoothQuant, Xiao et al. 2023). The encoders stay in
floating point: they are a small share of the work, and what they predict moves the colour of the whole frame.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from libranet.export.onnx_file import save_changed
from libranet.extension import lab
from libranet.network import LiBrANet

CALIBRATION_SIZE = (320, 184)  # (width, height) of the rendered calibration frames
_BETAS = (0.004, 0.012, 0.03, 0.08)  # haze per metre of the rendered frames, from thin to dense


@dataclass(frozen=True)
class MapRange:
    """How to round a map to 8 bits: x / balance, within [low, high]."""

    balance: np.ndarray  # [C]
    low: float  # at most 0
    high: float  # at least 0

    @property
    def scale(self) -> np.ndarray:
        """Size of one step."""
        return np.array((self.high - self.low) / 255.0, np.float32)

    @property
    def zero_point(self) -> np.ndarray:
        """The integer that stands for zero."""
        return np.array(np.clip(np.round(-self.low / self.scale), 0, 255), np.uint8)


Ranges = dict[str, tuple[MapRange, MapRange]]
"""Of the input and of the output of each convolution, by its name within the refiner."""


def rendered_frames() -> Iterator[Tensor]:  # each [1, 3, H, W] in [0, 1]
    """Hazy frames of our own scenes, the same on every machine: four scenes, thin to dense haze, clean and noisy."""
    width, height = CALIBRATION_SIZE
    for seed, beta in enumerate(_BETAS):
        frame = next(lab("scenes").render_clip(seed + 1, frames=1, width=width, height=height))
        transmission = torch.exp(-beta * frame.depth)
        airlight = 0.6 + 0.1 * seed
        hazy = frame.image * transmission + airlight * (1.0 - transmission)
        noise = torch.randn(hazy.shape, generator=torch.Generator().manual_seed(seed))
        yield (hazy + noise * (0.04 if seed % 2 else 0.005)).clamp(0.0, 1.0)[None]


@torch.no_grad()
def measure_ranges(
    network: LiBrANet,
    frames: Iterable[Tensor],  # each [1, 3, H, W] in [0, 1]
) -> Ranges:
    """Run the network, in float32, on calibration frames and measure the refiner's maps."""
    assert network.refiner is not None
    convolutions = {name: part for name, part in network.refiner.named_modules() if isinstance(part, nn.Conv2d)}
    seen: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in convolutions}

    def remember(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        return lambda _, inputs, output: seen[name].append((inputs[0].flatten(2)[0], output.flatten(2)[0]))

    hooks = [part.register_forward_hook(remember(name)) for name, part in convolutions.items()]
    try:
        for frame in frames:
            network(frame[:, None], still=True)
    finally:
        for hook in hooks:
            hook.remove()
    ranges = {}
    for name, part in convolutions.items():
        before, after = (torch.cat(maps, dim=1) for maps in zip(*seen[name], strict=True))
        weight = part.weight.abs().amax(dim=(0, 2, 3))
        ranges[name] = (_range(before, weight), _range(after, None))
    return ranges


def _range(
    values: Tensor,  # [C, N]
    weight: Tensor | None,  # [C], the largest weight that meets each channel; None where weights adapt for free
) -> MapRange:
    widest = values.abs().amax(dim=1).clamp(min=1e-3)
    balance = widest if weight is None else (widest / weight.clamp(min=1e-5)).sqrt()
    balance = balance / balance.mean()
    balanced = values / balance[:, None]
    return MapRange(balance.numpy(), min(float(balanced.min()), 0.0), max(float(balanced.max()), 1e-6))


def quantize_refiner(path: Path, ranges: Ranges, *, quantize_outputs: bool) -> None:
    """Rewrite an ONNX file in float32 so that the refiner's convolutions compute with 8-bit integers.

    Args:
        ranges: From `measure_ranges`.
        quantize_outputs: Also round the convolutions' outputs. onnxruntime computes in integers only so; OpenVINO does
            without, and keeps more accuracy.
    """
    model = onnx.load(path)
    graph, constants = model.graph, {constant.name: constant for constant in model.graph.initializer}
    nodes = []

    def constant(name: str, values: np.ndarray) -> str:
        graph.initializer.append(onnx.numpy_helper.from_array(values, name))
        return name

    def add(operator: str, inputs: list[str], name: str, **attributes: Any) -> str:
        nodes.append(onnx.helper.make_node(operator, inputs, [name], name=f"{name}_node", **attributes))
        return name

    def round_trip(values: str, name: str, where: MapRange) -> str:
        scale, zero = constant(f"{name}_scale", where.scale), constant(f"{name}_zero", where.zero_point)
        stored = add("QuantizeLinear", [values, scale, zero], f"{name}_stored")
        return add("DequantizeLinear", [stored, scale, zero], f"{name}_rounded")

    for node in graph.node:
        name = _convolution(node, ranges)
        if name is None:
            nodes.append(node)
            continue
        (before, after), weight = ranges[name], onnx.numpy_helper.to_array(constants[node.input[1]])
        bias = onnx.numpy_helper.to_array(constants[node.input[2]]) if len(node.input) > 2 else None
        weight = weight * before.balance[None, :, None, None]
        if quantize_outputs:
            weight = weight / after.balance[:, None, None, None]
            bias = None if bias is None else bias / after.balance
        step = np.maximum(np.abs(weight).max(axis=(1, 2, 3)), 1e-9).astype(np.float32) / 127.0
        rounded = np.round(weight / step[:, None, None, None]).astype(np.int8)
        inverse = constant(f"{name}_balance", (1.0 / before.balance).astype(np.float32)[None, :, None, None])
        balanced = add("Mul", [node.input[0], inverse], f"{name}_balanced")
        inputs = [
            round_trip(balanced, f"{name}_input", before),
            add(
                "DequantizeLinear",
                [
                    constant(f"{name}_weight", rounded),
                    constant(f"{name}_weight_scale", step),
                    constant(f"{name}_weight_zero", np.zeros(len(step), np.int8)),
                ],
                f"{name}_weight_rounded",
                axis=0,
            ),
        ]
        if bias is not None:
            inputs.append(constant(f"{name}_bias", bias.astype(np.float32)))
        result = node.output[0]
        if quantize_outputs:
            node.output[0] = f"{name}_output"
        del node.input[:]
        node.input.extend(inputs)
        nodes.append(node)
        if quantize_outputs:
            trimmed = round_trip(node.output[0], f"{name}_result", after)
            factor = constant(f"{name}_unbalance", after.balance.astype(np.float32)[None, :, None, None])
            add("Mul", [trimmed, factor], result)
    save_changed(model, path, nodes)


def _convolution(node: Any, ranges: Ranges) -> str | None:
    """The name of the refiner's convolution that a node computes, from the name of its weights."""
    if node.op_type != "Conv":
        return None
    _, found, name = node.input[1].rpartition("refiner.")
    name = name.removesuffix(".weight")
    return name if found and name in ranges else None
