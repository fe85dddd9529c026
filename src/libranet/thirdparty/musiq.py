"""Weights of MUSIQ from a file of the user's: no package ships them, so there is nothing to pull."""

import hashlib
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from libranet.errors import CheckpointError, InputError
from libranet.thirdparty.convert import read_torch_tensors

MUSIQ_FILE = "musiq_koniq_ckpt-e95806b9.pth"
"""As published; the name ends with the beginning of the file's SHA-256."""


def read_musiq_weights(path: Path) -> dict[str, Tensor]:
    """Read weights of MUSIQ by their published names.

    Args:
        path: The published .pth of KonIQ, or any .safetensors with those names.

    Raises:
        InputError: There is no such file.
        CheckpointError: It is damaged, or a .pth that is not the published one.
    """
    if not path.is_file():
        raise InputError(f"no weights of MUSIQ at {path}: check the path given with --musiq")
    if path.suffix == ".safetensors":
        try:
            return safetensors.torch.load_file(path)
        except safetensors.SafetensorError as error:
            raise CheckpointError(f"{path} is damaged or no safetensors file ({error})") from None
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    wanted = MUSIQ_FILE.rpartition("-")[2].partition(".")[0]
    if not digest.startswith(wanted):
        raise CheckpointError(
            f"{path} is not the published {MUSIQ_FILE}: its SHA-256 begins with {digest[:8]}, not {wanted}. "
            "Weights of another training are read as safetensors"
        )
    return read_torch_tensors(path)
