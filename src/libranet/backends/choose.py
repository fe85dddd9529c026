"""Which backend restores frames, and loading the network for it."""

import torch

from libranet.backends.interface import MAX_STRENGTH, Backend
from libranet.backends.plain import PlainBackend
from libranet.device import Precision, pick_device, pick_dtype
from libranet.errors import InputError
from libranet.fused.support import why_not_fused
from libranet.models import LiBrANet, load_model


def load_network(
    model: LiBrANet | str | None = None, *, device: str = "auto", precision: Precision = "auto"
) -> LiBrANet:
    """Load a network onto its device, ready for inference.

    Args:
        model: A checkpoint's path, or None for the weights of the package. A network is returned as it is.
        device: As `libranet.device.pick_device` takes it.
        precision: As `libranet.device.pick_dtype` takes it.
    """
    if isinstance(model, LiBrANet):
        return model.eval()
    where = pick_device(device)
    return load_model(model, device=where, dtype=pick_dtype(precision, where))


def make_backend(
    network: LiBrANet,
    *,
    strength: float = 1.0,
    live: bool = False,
    want_transmission: bool = False,
    eight_bit: bool = False,
) -> Backend:
    """Choose the fastest backend there is for this network and its device.

    Args:
        network: Its device and dtype take part in the choice.
        strength: Factor on the correction, 0 to 1.5.
        live: Give up look-ahead for immediate answers.
        want_transmission: Also return what the network implies about the haze.
        eight_bit: The frames come from bytes, which is what the fused kernels read.
    """
    if not 0.0 <= strength <= MAX_STRENGTH:
        raise InputError(f"expected a strength from 0 to {MAX_STRENGTH}, got {strength}")
    lookahead = 0 if live else None
    if eight_bit and not want_transmission and why_not_fused_here(network) is None:
        from libranet.backends.fused import FusedBackend  # needs Triton

        return FusedBackend(network, lookahead=lookahead, strength=strength)
    return PlainBackend(network, lookahead=lookahead, strength=strength, want_transmission=want_transmission)


def why_not_fused_here(network: LiBrANet) -> str | None:
    """Say in one sentence what keeps this network on the plain backend, or None where the fused one takes bytes."""
    if network.dtype != torch.float16:
        return f"the network is in {str(network.dtype).removeprefix('torch.')}, and the fused path computes in float16"
    return why_not_fused(network.config, next(network.parameters()).device)
