"""Which kernels were already compared with the plain network on this machine.

An empty file says so for each combination. Its name is a hash of everything that decides what a kernel
computes, so another version, driver or GPU means another comparison.
"""

import hashlib
from importlib import metadata
from pathlib import Path

import torch

import libranet
from libranet.atomic import atomic_file
from libranet.frames import FrameFormat
from libranet.kernels.shipped import digest_sources
from libranet.network import LiBrANet


def agreement_file(network: LiBrANet, format_: FrameFormat, settings: str) -> Path:
    """Return the file that says that kernels and network agreed."""
    properties = torch.cuda.get_device_properties(network.device)
    facts = [
        libranet.__version__,
        torch.__version__,
        _triton_version(),
        digest_sources(),
        torch.version.cuda,
        properties.name,
        f"{properties.major}.{properties.minor}",
        network.config,
        format_,
        settings,
    ]
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
    return Path.home() / ".cache" / "libranet" / "kernels" / f"{digest}.agreed"


def remember_agreement(file: Path) -> None:
    """Write the file. Where that fails, the comparison is made again the next time."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(file) as temporary:
            temporary.write_text("")
    except OSError:
        return


def _triton_version() -> str:
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return ""  # shipped kernels run without it
