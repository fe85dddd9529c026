"""The one choice of device and precision: every command, the API and training ask here."""

import os
from typing import Literal, get_args

import torch

from libranet.errors import InputError

Precision = Literal["auto", "fp32", "fp16", "bf16"]

_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def pick_device(name: str = "auto") -> torch.device:
    """Find a device by name.

    Args:
        name: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`. `auto` takes CUDA, then Apple's GPU, then the CPU. Under
            torchrun, `auto` and `cuda` mean this process's own GPU.

    Raises:
        InputError: No such device is here.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return _own_gpu()
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"unknown device {name!r}: use auto, cpu, cuda, cuda:1 or mps") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise InputError("no CUDA device found: use --device cpu, or install PyTorch with CUDA")
        if device.index is None:
            return _own_gpu()
        if device.index >= torch.cuda.device_count():
            raise InputError(f"no device {name}: this machine has {torch.cuda.device_count()} CUDA device(s)")
    elif device.type == "mps":
        if not torch.backends.mps.is_available():
            raise InputError("no Apple GPU found: use --device cpu")
    elif device.type != "cpu":
        raise InputError(f"unknown device {name!r}: use auto, cpu, cuda, cuda:1 or mps")
    return device


def pick_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Turn a precision's name into a dtype; `auto` is fp16 on GPUs and fp32 on CPUs.

    Raises:
        InputError: The name is unknown, or the device cannot compute in it.
    """
    if precision not in get_args(Precision):
        raise InputError(f"unknown precision {precision!r}: use auto, fp32, fp16 or bf16")
    if precision == "fp16" and device.type == "cpu":
        raise InputError("fp16 needs a GPU: use --precision fp32 or bf16 on the CPU")
    if precision == "auto":
        return torch.float32 if device.type == "cpu" else torch.float16
    return _DTYPES[precision]


def describe_device(device: torch.device) -> str:
    """Name a device for reports."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return "Apple GPU"
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'' if threads == 1 else 's'}"


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory is short, which PyTorch says on a CPU by words alone."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in str(error) for words in _NO_MEMORY)


def _own_gpu() -> torch.device:
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device
