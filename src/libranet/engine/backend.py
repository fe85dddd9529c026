"""The one place where the engine asks the runtime for a backend, and lets a CPU choose one for a long run."""

from libranet.engine.options import DehazeOptions
from libranet.network import NO_FILTER, LiBrANet, Network
from libranet.runtime import Backend, make_backend
from libranet.runtime.cpu.choice import chosen_backend, ensure_measured, is_compiled

FRAMES_AT_ONCE = 4
"""Frames that a GPU restores in one step. Eight are 2 % faster on an H200 and need twice the memory."""
LONG_RUN = 300_000_000
"""Pixels in all frames from which on a CPU's runtimes are tried first, once: five seconds of 1080p."""
WORTH_COMPILING = 100_000_000
"""Pixels from which on compiling our kernels for the CPU takes less time than they save: two seconds of 1080p."""
WORTH_ALL = 5_000_000_000
"""Pixels from which on the other runtimes are tried, too, where our kernels run: a minute that may save a quarter."""


def backend_for(
    network: Network, options: DehazeOptions, *, rate: float | None = None, live: bool | None = None, batch: int = 1
) -> Backend:
    """Make what restores frames as the options say. Without a `rate` nothing is filtered over time."""
    return make_backend(
        network,
        strength=options.strength,
        live=options.live if live is None else live,
        want_transmission=options.view == "haze",
        grid_filter=NO_FILTER if rate is None else options.grid_filter(rate),
        batch=batch,
        backend=options.backend,
    )


def is_long(options: DehazeOptions, pixels: int | None) -> bool:
    """Whether a run is long enough to be worth a trial of the CPU's runtimes. Live sources cannot wait for one."""
    return not options.live and (pixels is None or pixels >= LONG_RUN)


def choose_runtime(network: Network, options: DehazeOptions, pixels: int | None) -> None:
    """Try the CPU's runtimes, once for this machine, as far as it pays: our own kernels, in very long runs all.

    Args:
        network: The network, on its device.
        options: How to restore.
        pixels: Of all frames together; None where their number is unknown.
    """
    if not isinstance(network, LiBrANet) or options.backend != "auto" or options.live:
        return
    trials = []
    if pixels is None or pixels >= WORTH_COMPILING or is_compiled():
        trials = ensure_measured(network, thorough=False)
    if is_long(options, pixels) and (not trials or (pixels or 0) >= WORTH_ALL):
        ensure_measured(network)


def shared_backend(network: Network, options: DehazeOptions, pixels: int | None) -> str:
    """Return the CPU backend that a run on this machine would take, so that all workers of a cluster take the same."""
    if options.backend != "auto" or not isinstance(network, LiBrANet):
        return options.backend
    choose_runtime(network, options, pixels)
    return chosen_backend(network)
