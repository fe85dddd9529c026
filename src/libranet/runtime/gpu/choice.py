"""How GPUs without our kernels run the network: the fastest of a few ways, measured once for each GPU and remembered.

Libraries and GPUs differ: NVIDIA's half-precision convolutions like channels last, PyTorch's GroupNorm does not, and
`torch.compile` removes most of the passes between convolutions, where it works.
"""

import hashlib
import json
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import libranet
from libranet.atomic import write_atomically
from libranet.device import describe_device
from libranet.network import LiBrANet, start_stream, stream_restore
from libranet.runtime.gpu.compiled_network import CompiledNetwork, can_compile

logger = logging.getLogger(__name__)

LAYOUTS = {"planes": torch.contiguous_format, "channels last": torch.channels_last}
COMPILED = "compiled"
RUNS = 3
"""Timed runs of each way, after one that is not."""
LARGEST = 3 / 255
"""The largest accepted difference of a compiled network from the plain one, at any pixel."""


@dataclass(frozen=True)
class Measured:
    """What was found on a GPU."""

    milliseconds: dict[str, float]
    """Of a frame, by way: `planes`, `channels last`, `compiled`. Ways that failed or differed are missing."""

    @property
    def best(self) -> str:
        """The fastest way."""
        return min(self.milliseconds, key=lambda way: self.milliseconds[way])


def choose_way(
    network: LiBrANet,
    image: Tensor,  # [1, 3, H, W] in [0, 1], on the network's device
    *,
    patient: bool,
) -> LiBrANet:
    """Return the network in its fastest way: itself, its weights stored in the faster layout, or compiled parts.

    Args:
        network: On its GPU.
        image: A frame to measure with.
        patient: Compile, which takes a minute, where nothing is known of this GPU. Without it, only layouts are tried,
            and nothing is remembered.
    """
    measured = recall(network)
    if measured is None:
        measured = measure(network, image, with_compile=patient)
        if patient:
            remember(network, measured)
        logger.debug("plain network, ms a frame: %s", measured.milliseconds)
    known = {way: ms for way, ms in measured.milliseconds.items() if way in LAYOUTS}
    set_layout(network, LAYOUTS[Measured(known).best])
    if measured.best == COMPILED and can_compile(network):
        with suppress(Exception):  # of the compiler: it has worked before, and the plain way still does
            compiled = CompiledNetwork(network)
            _run(compiled, image)
            return compiled
    return network


def measure(network: LiBrANet, image: Tensor, *, with_compile: bool) -> Measured:
    """Time the ways on a frame."""
    times = {}
    for name, layout in LAYOUTS.items():
        set_layout(network, layout)
        times[name] = _time(network, image)
    set_layout(network, LAYOUTS[min(times, key=lambda name: times[name])])
    if with_compile and can_compile(network):
        try:
            compiled = CompiledNetwork(network)
            difference = float((_run(compiled, image) - _run(network, image)).abs().max())
            if difference <= LARGEST:
                times[COMPILED] = _time(compiled, image)
            else:
                logger.debug("the compiled network differs by %.3f", difference)
        except Exception as error:
            logger.debug("torch.compile does not work here: %s", error)
    return Measured({name: round(ms, 3) for name, ms in times.items()})


def recall(network: LiBrANet) -> Measured | None:
    """What this machine remembers of its GPU, or None."""
    try:
        times = json.loads(_file(network).read_text())["milliseconds"]
        known = {way: float(times[way]) for way in (*LAYOUTS, COMPILED) if way in times}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Measured(known) if any(way in LAYOUTS for way in known) else None


def remember(network: LiBrANet, measured: Measured) -> None:
    """Write it down. Where that fails, it is measured again the next time."""
    with suppress(OSError):
        file = _file(network)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps({"milliseconds": measured.milliseconds}, indent=2).encode())


def set_layout(network: LiBrANet, layout: torch.memory_format) -> None:
    """Store the weights of all convolutions in a layout, which their maps then take."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            module.weight.data = module.weight.data.contiguous(memory_format=layout)


def cache_folder() -> Path:
    """Where measurements are kept."""
    return Path.home() / ".cache" / "libranet" / "gpu"


def _file(network: LiBrANet) -> Path:
    facts = [libranet.__version__, torch.__version__, describe_device(network.device), network.config, network.dtype]
    return cache_folder() / f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:24]}.json"


def _run(network: LiBrANet, image: Tensor) -> Tensor:
    restoration, _ = stream_restore(network, image, start_stream(network, lookahead=0))
    assert restoration is not None
    return restoration.image.float()


def _time(network: LiBrANet, image: Tensor) -> float:  # milliseconds
    for run in range(RUNS + 1):
        if run == 1:
            _synchronize(image.device)
            begin = time.perf_counter()
        _run(network, image)
    _synchronize(image.device)
    return (time.perf_counter() - begin) * 1e3 / RUNS


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
