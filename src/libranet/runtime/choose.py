"""The one choice of a backend: by the network, its device and what the machine has; never by a trial.

The same command on the same machine takes the same backend every time, and every backend has a `name` for reports.
"""

import torch

from libranet.errors import InputError, MissingDependencyError
from libranet.network import NO_FILTER, GridFilter, LiBrANet, Network
from libranet.runtime.interface import MAX_STRENGTH, Backend, check_process
from libranet.runtime.plain import PlainBackend

BACKENDS = ("auto", "plain", "cpu-fp32", "cpu-bf16")
"""What `--backend` takes. `plain` is the network as it is, the reference; the others are our CPU kernels."""
WORTH_PACKING = 500_000  # parameters from which on CPU kernels are faster than torch's


def make_backend(
    network: Network,
    *,
    strength: float = 1.0,
    live: bool = False,
    grid_filter: GridFilter = NO_FILTER,
    grids_given: bool = False,
    batch: int = 1,
    backend: str = "auto",
) -> Backend:
    """Choose the fastest backend for this network and its device.

    Args:
        network: Its device and dtype take part in the choice.
        strength: Factor on the correction, 0 to 1.5.
        live: No look-ahead: return every frame at once.
        grid_filter: How LiBrA-Net's grids are averaged over time; single images need none, and peers have no grids.
        grids_given: The caller gives the grids with each frame, as `network.settle` makes them. Nothing looks ahead
            then, and the filter over time is that of the residual alone.
        batch: Frames that may be collected before they are restored. More is faster and later; without effect where
            the backend gains nothing from it, and with `live`.
        backend: One of `BACKENDS`. `plain` holds on every device, our CPU kernels on CPUs.
    """
    check_process()
    check_backend(backend)
    if not 0.0 <= strength <= MAX_STRENGTH:
        raise InputError(f"expected a strength from 0 to {MAX_STRENGTH}, got {strength}")
    if batch < 1:
        raise InputError(f"expected batches of at least one frame, got {batch}")
    if not isinstance(network, LiBrANet):
        from libranet.runtime.other_networks import make_peer_backend

        return make_peer_backend(network, live=live, strength=strength)
    made = _choose(
        network,
        strength=strength,
        lookahead=0 if live or grids_given else None,
        grid_filter=grid_filter,
        grids_given=grids_given,
        batch=1 if live else batch,
        backend=backend,
    )
    if not network.config.dense_fog or strength == 0.0:
        return made
    from libranet.runtime.fine_contrast import FineContrastBackend  # the network alone does without

    return FineContrastBackend(made, strength=strength)


def _choose(
    network: LiBrANet,
    *,
    strength: float,
    lookahead: int | None,
    grid_filter: GridFilter,
    grids_given: bool,
    batch: int,
    backend: str,
) -> Backend:
    if backend != "plain" and why_not_fused_here(network) is None:
        from libranet.runtime.gpu.backend import FusedBackend  # needs Triton

        return FusedBackend(
            network,
            lookahead=lookahead,
            strength=strength,
            grid_filter=grid_filter,
            grids_given=grids_given,
            batch=batch,
        )
    name = backend if backend != "auto" else choose_on_cpu(network)
    if name == "plain" or network.device.type != "cpu":
        return PlainBackend(
            network,
            lookahead=lookahead,
            strength=strength,
            grid_filter=grid_filter,
        )
    _refuse(network, name)
    from libranet.runtime.cpu.backend import CpuBackend

    return CpuBackend(network, bf16=name == "cpu-bf16", lookahead=lookahead, strength=strength, grid_filter=grid_filter)


def check_backend(name: str) -> None:
    """Raise InputError for a name that `--backend` does not know."""
    if name not in BACKENDS:
        raise InputError(f"unknown backend {name!r}: use {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}")


def choose_on_cpu(network: LiBrANet) -> str:
    """The backend that `auto` takes on a CPU.

    Our kernels were the fastest on every CPU they were measured on (docs/performance.md), in bfloat16 where the CPU
    computes in it.
    """
    small = sum(parameter.numel() for parameter in network.parameters()) < WORTH_PACKING
    if small or why_not_design(network) is not None:
        return "plain"
    return next((name for name in ("cpu-bf16", "cpu-fp32") if why_not_kernels(name) is None), "plain")


def why_not_design(network: LiBrANet) -> str | None:
    """Say in one sentence why our CPU kernels do not cover this network, or None."""
    c = network.config
    if type(network) is not LiBrANet:
        return f"CPU kernels compute LiBrA-Net, and {network.architecture} extends it: use --backend plain"
    if not c.parts.full or network.device.type != "cpu" or network.dtype != torch.float32:
        return "CPU kernels take LiBrA-Net's full design in fp32: use --backend plain"
    if c.scale != 4 or c.refiner.mix_kernel != 1:
        return "CPU kernels take networks with scale 4 and 1x1 mixes: use --backend plain"
    return None


def why_not_kernels(name: str) -> str | None:
    """Say in one sentence why this machine cannot run a CPU backend, or None."""
    from libranet.kernels.native.library import has_bfloat16, why_no_library  # small networks and GPUs run without it

    if reason := why_no_library():
        return reason
    if name == "cpu-bf16" and not has_bfloat16():
        return "this CPU has no AVX512-BF16, which cpu-bf16 needs: use cpu-fp32"
    return None


def _refuse(network: LiBrANet, name: str) -> None:
    if reason := why_not_design(network):
        raise InputError(reason)
    if reason := why_not_kernels(name):
        from libranet.kernels.native.library import why_no_library

        raise (MissingDependencyError if why_no_library() else InputError)(reason)


def why_not_fused_here(network: Network) -> str | None:
    """Say in one sentence why this network needs the plain backend, or None where the fused one takes it."""
    if type(network) is not LiBrANet:
        return f"the fused path computes LiBrA-Net, not {network.architecture}"
    if network.dtype != torch.float16:
        return f"the network is in {str(network.dtype).removeprefix('torch.')}, and the fused path computes in float16"
    from libranet.runtime.gpu.support import why_not_fused

    return why_not_fused(network.config, network.device)
