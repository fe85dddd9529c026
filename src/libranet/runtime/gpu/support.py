"""Whether the fused path can run, and if not, why. Imports neither Triton nor CUDA code."""

from importlib import util

import torch

from libranet.errors import install_command
from libranet.kernels.shipped import archive_for
from libranet.network.config import LiBrANetConfig

MIN_CAPABILITY = (8, 0)
"""From here on the tensor cores and asynchronous copies are there that the kernels count on: A100, RTX 30 and later."""
HOPPER = 9  # the major capability that the weight-stationary kernels are made for
STATIONARY_WIDTH = 64  # channels of the weight-stationary kernels


def why_not_fused(config: LiBrANetConfig, device: str | torch.device) -> str | None:
    """Explain in one sentence why the plain path is used."""
    return why_not_device(torch.device(device)) or why_not_network(config)


def why_not_network(config: LiBrANetConfig) -> str | None:
    """Explain why the kernels do not cover this network; None if they do."""
    width = config.refiner.width
    reasons = (
        (not config.parts.refiner, "it has no refiner"),
        (not config.parts.chromatic_field, "it has no chromatic field"),
        (not config.parts.temporal_field, "it has no temporal field"),
        (not config.parts.cayley, "it does not use the Cayley map"),
        (not config.parts.adaptive_slicing, "it slices at a fixed size"),
        (config.scale != 4, f"its scale is {config.scale}, not 4"),
        (config.refiner.mix_kernel != 1, f"its mix kernel is {config.refiner.mix_kernel}, not 1"),
        (width not in (16, 32, 64, 128), f"its refiner width is {width}, not 16, 32, 64 or 128"),
        (
            config.fields.attention_heads.bit_count() != 1,
            f"{config.fields.attention_heads} attention heads are not a power of two",
        ),
        (config.fields.hidden % 8 != 0, f"its heads are {config.fields.hidden} wide, not a multiple of 8"),
        (
            config.fields.bins & (config.fields.bins - 1) != 0,
            f"it has {config.fields.bins} colour bins, not a power of two",
        ),
        (config.grid_side & (config.grid_side - 1) != 0, f"its grids are {config.grid_side} wide, not a power of two"),
    )
    for holds, reason in reasons:
        if holds:
            return f"the fused kernels do not cover this network: {reason}"
    return None


def supports_weight_stationary(width: int, device: torch.device) -> bool:
    """Whether the weight-stationary kernels run on this device: Hopper alone has their instructions."""
    return (
        width == STATIONARY_WIDTH
        and device.type == "cuda"
        and (capability := torch.cuda.get_device_capability(device))[0] == HOPPER
        and (archive_for(capability) is not None or _has_gluon())
    )


def _has_gluon() -> bool:
    """Whether Triton has the language that those kernels are written in."""
    try:
        return util.find_spec("triton.experimental.gluon") is not None
    except ModuleNotFoundError:  # no Triton, or one without `experimental`
        return False


def has_kernels(device: torch.device) -> bool:
    return why_not_device(device) is None


def why_not_device(device: torch.device) -> str | None:
    """Explain why the kernels do not run on this device; None if they do."""
    if device.type != "cuda":
        return f"the device is {device.type}, and the fused path needs an NVIDIA GPU"
    if not torch.cuda.is_available():
        return "PyTorch finds no CUDA device"
    if torch.version.hip is not None:
        return "the GPU is one of AMD's, and the kernels are made for NVIDIA's"
    capability = torch.cuda.get_device_capability(device)
    if capability < MIN_CAPABILITY:
        name = torch.cuda.get_device_name(device)
        return f"{name} has compute capability {capability[0]}.{capability[1]}, and the kernels need 8.0 or higher"
    if archive_for(capability) is None and util.find_spec("triton") is None:
        here = f"compute capability {capability[0]}.{capability[1]}"
        return f"no kernels were shipped for {here}, and Triton is not installed: {install_command('gpu')}"
    return None
