"""Which networks a benchmark of speed runs, and the benchmark itself."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from libranet.device import Precision, pick_device, pick_dtype
from libranet.errors import CheckpointError, InputError
from libranet.lab.bench.efficiency import SIZES, Efficiency, Subject, measure_efficiency
from libranet.lab.peers import PEERS, build_peer
from libranet.lab.peers.table import is_peer
from libranet.runtime import load_network

OURS, OURS_PLAIN = "libranet", "libranet-plain"
"""LiBrA-Net on its product path, and the same network in plain PyTorch, as the peers run."""


def open_entries(
    models: Iterable[str], *, device: str = "auto", precision: Precision = "auto"
) -> tuple[list[Subject], dict[str, str]]:
    """Open the networks of a benchmark on the CPU, in the precision that they run in on the device.

    The speed of a network does not depend on its weights: a peer without any gets random ones.

    Args:
        models: `all`, `libranet`, `libranet-plain`, names of peers, or paths of checkpoints.
    """
    dtype = pick_dtype(precision, pick_device(device))
    everything = [OURS, OURS_PLAIN, *(entry.name for entry in PEERS if entry.name != "identity")]
    names = [name for model in models for name in (everything if model == "all" else [model])]
    subjects: list[Subject] = []
    missing: dict[str, str] = {}
    for name in dict.fromkeys(names):
        try:
            if name in (OURS, OURS_PLAIN):
                network = load_network(None, device="cpu", precision="fp32").to(dtype=dtype)
                subjects.append(Subject(name, network, plain=name == OURS_PLAIN))
            elif is_peer(name):
                entry = next((entry for entry in PEERS if entry.name == name), None)
                peer = build_peer(name).eval()  # explains what is not among the peers
                published = entry is not None and entry.published
                subjects.append(Subject(name, peer if published else peer.to(dtype=dtype)))
            else:
                network = load_network(name, device="cpu", precision="fp32").to(dtype=dtype)
                subjects.append(Subject(Path(name).stem, network))
        except CheckpointError as error:
            if not is_peer(name):
                raise
            missing[name] = str(error)
    return subjects, missing


def run_bench(
    models: Iterable[str],
    *,
    sizes: Iterable[tuple[int, int]] = SIZES,
    device: str = "auto",
    precision: Precision = "auto",
    seconds: float = 4.0,
    report: Callable[[str], None] = lambda _: None,
    keep: Callable[[list[Efficiency], dict[str, str]], object] = lambda rows, missing: None,
) -> tuple[list[Efficiency], dict[str, str]]:
    """Measure networks in one run.

    Args:
        seconds: For one network at one size.
        keep: Called with the rows so far after every size, for a run that may not come to its end.
    """
    subjects, missing = open_entries(models, device=device, precision=precision)
    where = str(pick_device(device))
    rows: list[Efficiency] = []
    for size in sizes:
        rows += measure_efficiency(subjects, sizes=[size], device=where, seconds=seconds, report=report)
        keep(rows, missing)
    return rows, missing


def read_quality(path: Path) -> dict[str, float]:
    """Read PSNR by model, for the plot of quality against speed: from `libranet compare`, or a plain JSON table."""
    try:
        content = json.loads(path.read_text())
        content = content.get("psnr", content)
        return {str(model): float(value) for model, value in content.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InputError(f"expected a JSON table of PSNR by model in {path} ({error})") from None
