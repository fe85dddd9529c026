"""Which runtime a CPU takes: measured once for each machine and each set of weights, and remembered."""

import json
import logging
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

import libranet
from libranet.atomic import write_atomically
from libranet.errors import InputError
from libranet.export.quantize import rendered_frames
from libranet.frames import FrameFormat, Frames
from libranet.frames.format import RGB8
from libranet.network import NO_FILTER, GridFilter, LiBrANet
from libranet.runtime.cpu.network import CpuNetwork, can_accelerate, fits_kernels
from libranet.runtime.cpu.parts import CHOICES, CpuChoice, cache_folder, weights_digest, why_not
from libranet.runtime.interface import Backend
from libranet.runtime.plain import PlainBackend

logger = logging.getLogger(__name__)

BACKENDS = ("auto", "plain", *map(str, CHOICES))
"""What `--backend` takes. `plain` is the network as it is, the reference."""
LARGEST_RMS = 1.7
"""The largest accepted difference from the plain network, in steps of 1/255: it takes 0.1 dB from a result of 27 dB."""
WORTH_IT = 500_000
"""Parameters below which a network is faster restored than measured."""
TRIAL_SIZE = (640, 368)
_COMPARED = tuple(choice for choice in CHOICES if choice.runtime != "onnxruntime")
"""onnxruntime is slower than OpenVINO wherever both were measured, so it is compared only where it stands alone."""

_built: WeakKeyDictionary[LiBrANet, dict[CpuChoice, CpuNetwork]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Trial:
    """What a choice reached here."""

    choice: str
    milliseconds: float
    """For one frame of 640x368."""
    rms: float
    """Difference from the plain network, in steps of 1/255."""
    largest: float

    @property
    def holds(self) -> bool:
        """Whether the quality holds."""
        return self.rms <= LARGEST_RMS


def check_backend(name: str) -> None:
    """Raise InputError for a name that `--backend` does not know."""
    if name not in BACKENDS:
        raise InputError(f"unknown backend {name!r}: use {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}")


def on_cpu(network: LiBrANet, name: str) -> LiBrANet:
    """Return the network in a CPU runtime, or as it is.

    Args:
        network: On the CPU.
        name: One of `BACKENDS`; `auto` takes what `measure` found, and the plain network before it.

    Raises:
        InputError: The name is unknown, or the network or the CPU does not fit it.
        MissingDependencyError: The runtime is not installed.
    """
    check_backend(name)
    if name == "auto":
        name = chosen_backend(network)
    if name == "plain":
        return network
    if not can_accelerate(network):
        raise InputError(f"the backend {name} takes LiBrA-Net's full design in fp32: use --backend plain")
    choice = _choice(name)
    if choice.runtime == "numba" and not fits_kernels(network):
        raise InputError(f"the backend {name} takes networks with scale 4 and 1x1 mixes: use --backend plain")
    return build(network, choice)


def make_stream(
    network: LiBrANet,
    *,
    lookahead: int | None = None,
    strength: float = 1.0,
    grid_filter: GridFilter = NO_FILTER,
) -> Backend:
    """Begin a stream on a CPU: our own kernels read frames themselves, other runtimes get RGB."""
    if isinstance(network, CpuNetwork) and network.choice.runtime == "numba":
        from libranet.runtime.cpu.backend import SampleBackend  # needs numba

        return SampleBackend(network, lookahead=lookahead, strength=strength, grid_filter=grid_filter)
    return PlainBackend(network, lookahead=lookahead, strength=strength, grid_filter=grid_filter)


def chosen_backend(network: LiBrANet) -> str:
    """What `auto` takes: the fastest that this machine remembers, and the plain network before any was measured."""
    best = fastest(recall(network) or []) if can_accelerate(network) else None
    return "plain" if best is None else best.choice


def build(network: LiBrANet, choice: CpuChoice) -> CpuNetwork:
    """Build a network for a choice, once for each network."""
    built = _built.setdefault(network, {})
    if choice not in built:
        if choice.runtime == "numba":
            from libranet.kernels.compiled import announce_compiling  # needs numba

            announce_compiling()
        built[choice] = CpuNetwork(network, choice)
    return built[choice]


def fastest(trials: list[Trial]) -> Trial | None:
    """The fastest trial whose quality holds."""
    return min((trial for trial in trials if trial.holds), key=lambda trial: trial.milliseconds, default=None)


def ensure_measured(network: LiBrANet, *, thorough: bool = True) -> list[Trial]:
    """Return the trials of this machine, measured now if they are not known; none for networks that need none.

    Args:
        network: On the CPU.
        thorough: Compare all runtimes, which takes about a minute. Otherwise our own kernels alone, the fastest on
            every CPU so far: a few seconds, and half a minute where they are not compiled yet.
    """
    if not can_accelerate(network) or sum(p.numel() for p in network.parameters()) < WORTH_IT:
        return []
    known = recall(network, thorough=thorough)
    if known is None:
        what = "all CPU runtimes (about a minute)" if thorough else "our CPU kernels"
        logger.info("trying %s, once for this machine and these weights", what)
        known = measure(network) if thorough else _measure_own(network)
        _remember(network, known, thorough=thorough)
    return known


@torch.no_grad()
def measure(network: LiBrANet, choices: Sequence[CpuChoice] | None = None) -> list[Trial]:
    """Restore a few frames by runtimes, and compare time and result with the plain network.

    Args:
        network: On the CPU.
        choices: The runtimes; None takes all that are here.
    """
    if choices is None:
        choices = [choice for choice in _COMPARED if _takes(network, choice)]
        if all(choice.runtime == "torch" for choice in choices):
            choices += [choice for choice in CHOICES if choice.runtime == "onnxruntime" and _takes(network, choice)]
    width, height = TRIAL_SIZE
    frames = [F.interpolate(frame, size=(height, width), mode="bicubic").clamp(0, 1) for frame in rendered_frames()][:2]
    expected = [network(frame[:, None], still=True) for frame in frames]
    trials = []
    for choice in choices:
        candidate = build(network, choice)
        seconds = _time(candidate, frames)
        found = [candidate(frame[:, None], still=True) for frame in frames]
        errors = torch.cat([(a - b).abs() * 255 for a, b in zip(found, expected, strict=True)])
        rms, largest = float(errors.square().mean().sqrt()), float(errors.max())
        trials.append(Trial(str(choice), round(seconds * 1e3, 2), round(rms, 4), round(largest, 2)))
    return trials


def _measure_own(network: LiBrANet) -> list[Trial]:
    """Try our own kernels: in bfloat16 where the CPU has it, and in float32 where it has not or the quality fails."""
    trials: list[Trial] = []
    for precision in ("bf16", "fp32"):
        choice = _choice(f"numba-{precision}")
        if not any(trial.holds for trial in trials) and _takes(network, choice):
            trials += measure(network, [choice])
    return trials


def _takes(network: LiBrANet, choice: CpuChoice) -> bool:
    return why_not(choice) is None and (choice.runtime != "numba" or fits_kernels(network))


def is_compiled() -> bool:
    """Whether this machine has compiled our kernels before; numba keeps them on disk."""
    try:
        return bool(json.loads(_compiled_file().read_text()) == _machine())
    except (OSError, ValueError):
        return False


def recall(network: LiBrANet, *, thorough: bool = False) -> list[Trial] | None:
    """The trials that this machine remembers, or None; with `thorough`, only those of all runtimes."""
    try:
        known = json.loads(_file(network).read_text())
        if known["machine"] != _machine() or (thorough and not known["thorough"]):
            return None
        return [Trial(**trial) for trial in known["trials"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(network: LiBrANet, trials: list[Trial], *, thorough: bool) -> None:
    path, machine = _file(network), _machine()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "thorough": thorough, "trials": [asdict(trial) for trial in trials]}
    write_atomically(path, json.dumps(content, indent=2).encode())
    if any(trial.choice.startswith("numba") for trial in trials):
        write_atomically(_compiled_file(), json.dumps(machine, indent=2).encode())


def _file(network: LiBrANet) -> Path:
    return cache_folder() / weights_digest(network) / "trials.json"


def _compiled_file() -> Path:
    return cache_folder() / "compiled.json"


def _machine() -> dict[str, str]:
    """What decides the speed, beside the weights."""
    versions = {}
    for package in ("torch", "openvino", "onnxruntime", "numba"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    facts = {"cpu": cpu_name(), "threads": str(torch.get_num_threads()), "libranet": libranet.__version__}
    return facts | {"compared": " ".join(map(str, _COMPARED)), **versions}


def cpu_name() -> str:
    """The CPU's name, as the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _time(network: LiBrANet, frames: list[Tensor]) -> float:
    """The time of the fastest frame as 8-bit video, after one that compiles."""
    shape = FrameFormat(frames[0].shape[3], frames[0].shape[2], RGB8)
    video = [Frames(((frame.permute(0, 2, 3, 1) * 255).byte(),), shape) for frame in frames]
    stream = make_stream(network, lookahead=0)
    stream.push(video[0])
    best = float("inf")
    for frame in video:
        begin = time.perf_counter()
        stream.push(frame)
        best = min(best, time.perf_counter() - begin)
    return best


def _choice(name: str) -> CpuChoice:
    return next(choice for choice in CHOICES if str(choice) == name)
