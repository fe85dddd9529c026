"""The plain network on GPUs without our kernels: which memory layout of its convolutions is faster there."""

import logging
import time

import torch
from torch import Tensor, nn

from libranet.models import LiBrANet, start_stream, stream_restore

logger = logging.getLogger(__name__)

LAYOUTS = {"planes": torch.contiguous_format, "channels last": torch.channels_last}
RUNS = 3
"""Timed runs of each, after one that is not."""


def choose_layout(
    network: LiBrANet,
    image: Tensor,  # [1, 3, H, W] in [0, 1], on the network's device
) -> str:
    """Time the network in both layouts on a frame, and leave it in the faster one.

    Libraries and GPUs differ: NVIDIA's half-precision convolutions like channels last, PyTorch's GroupNorm does not.

    Returns:
        The name of the layout.
    """
    times = {}
    for name, layout in LAYOUTS.items():
        set_layout(network, layout)
        for run in range(RUNS + 1):
            if run == 1:
                _synchronize(image.device)
                begin = time.perf_counter()
            stream_restore(network, image, start_stream(network, lookahead=0))
        _synchronize(image.device)
        times[name] = (time.perf_counter() - begin) / RUNS
    best = min(times, key=lambda name: times[name])
    set_layout(network, LAYOUTS[best])
    logger.debug("plain network, ms a frame: %s", {name: round(1e3 * t, 1) for name, t in times.items()})
    return best


def set_layout(network: LiBrANet, layout: torch.memory_format) -> None:
    """Store the weights of all convolutions in a layout, which their maps then take."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            module.weight.data = module.weight.data.contiguous(memory_format=layout)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
