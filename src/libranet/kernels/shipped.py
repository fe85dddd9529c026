"""Kernels compiled before they were shipped: found by their arguments, loaded and launched through the CUDA driver.

`packaging/compile_kernels.py` writes one archive for each capability: machine code, and an index that finds it by a
kernel's arguments. Machine code of major capability 8 runs on every later minor one; from 9 on it is for one capability
alone. An archive whose kernels have changed since, or that the driver refuses, counts as none: Triton compiles then.
"""

import ctypes
import hashlib
import json
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FOLDER = Path(__file__).parent / "machine_code"
KERNELS = Path(__file__).parent
SWIZZLE_BYTES = 128  # of a block's rows in shared memory
MOST_SHARED = 48 * 1024  # bytes of shared memory that a kernel gets without asking
NUMBERS = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float}


@dataclass(frozen=True)
class Blocks:
    """A half-precision map that a kernel on Hopper fetches by blocks."""

    tensor: Tensor
    shape: tuple[int, ...]  # of a block


@dataclass(frozen=True)
class Code:
    """One compiled kernel, as the index has it."""

    file: str
    symbol: str
    warps: int
    shared: int


@dataclass(frozen=True)
class Archive:
    """The kernels for one capability."""

    path: Path
    variants: dict[str, dict[str, Code]]
    """By the kernel's name and the description of its arguments."""
    plain: dict[str, dict[int, str]]
    """By the kernel's name: arguments that were not specialised, `value` or `alignment`, by their place."""


@dataclass(frozen=True)
class Binary:
    """A kernel on a GPU."""

    function: ctypes.c_void_p
    code: Code
    kinds: tuple[str, ...]

    def launch(self, grid: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        _ensure_context(torch.cuda.current_device())
        packed = pack(arguments, self.kinds)
        places = (ctypes.c_void_p * len(packed))(*(ctypes.addressof(one) for one in packed))
        stream = torch.cuda.current_stream().cuda_stream
        x, y, z = (*grid, 1, 1)[:3]
        _check(
            _driver().cuLaunchKernel(
                self.function, x, y, z, 32 * self.code.warps, 1, 1, self.code.shared,
                ctypes.c_void_p(stream), places, None,
            )
        )  # fmt: skip


def find(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Binary | None:
    """The kernel for these arguments, loaded onto the current GPU; None where Triton has to compile it."""
    if not torch.cuda.is_available():
        return None
    device = torch.cuda.current_device()
    archive = archive_for(torch.cuda.get_device_capability(device))
    if archive is None or name not in archive.variants:
        return None
    kinds = describe(arguments, archive.plain[name])
    code = archive.variants[name].get(key_of(kinds, options))
    if code is None:
        return None
    function = _load(archive.path, code, device)
    return None if function is None else Binary(function, code, kinds)


@cache
def archive_for(capability: tuple[int, int]) -> Archive | None:
    """What was shipped for a capability, or None."""
    minors = range(capability[1], -1, -1) if capability[0] == 8 else [capability[1]]
    for minor in minors:
        path = FOLDER / f"{capability[0]}.{minor}.zip"
        if path.is_file() and (archive := open_archive(path)) is not None:
            return archive
    return None


def open_archive(path: Path) -> Archive | None:
    """Read an archive's index; None where it was made from other kernels than these."""
    with zipfile.ZipFile(path) as file:
        index = json.loads(file.read("index.json"))
    if index["sources"] != digest_sources():
        return None
    variants = {
        name: {key: Code(*fields) for key, fields in codes.items()} for name, codes in index["variants"].items()
    }
    plain = {name: {int(place): how for place, how in places.items()} for name, places in index["plain"].items()}
    return Archive(path, variants, plain)


def digest_sources() -> str:
    """A hash of everything that kernels are compiled from."""
    digest = hashlib.sha256()
    for path in sorted([*KERNELS.glob("*/triton.py"), *KERNELS.glob("*/gluon.py"), *INLINED]):
        digest.update(path.relative_to(KERNELS).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


INLINED = (KERNELS / "gelu.py", KERNELS / "samples" / "rgb.py")
"""Parts of kernels in files of their own."""


def describe(arguments: tuple[Any, ...], plain: dict[int, str]) -> tuple[str, ...]:
    """What of each argument shapes the code, in the way that Triton specialises."""
    return tuple(_kind(value, plain.get(place, "")) for place, value in enumerate(arguments))


def _kind(value: Any, plain: str) -> str:
    if value is None:
        return "none"
    if isinstance(value, Blocks):
        return f"blocks {'x'.join(map(str, value.shape))}"
    if isinstance(value, Tensor):
        aligned = not plain and value.data_ptr() % 16 == 0
        return f"{str(value.dtype).removeprefix('torch.')}*{' /16' if aligned else ''}"
    if isinstance(value, float):
        return "f32"
    kind = "i32" if -(2**31) <= value < 2**31 else "i64"
    if plain == "value":
        return kind
    return "1" if value == 1 else f"{kind} /16" if value % 16 == 0 and plain != "alignment" else kind


def key_of(kinds: tuple[str, ...], options: dict[str, Any]) -> str:
    """What an index knows a variant by. `options` are constants and what Triton is told."""
    return "; ".join([*kinds, *(f"{name}={options[name]!r}" for name in sorted(options))])


def pack(arguments: tuple[Any, ...], kinds: tuple[str, ...]) -> list[Any]:
    """A kernel's parameters as the driver takes them: constants left out, maps as descriptor, shape and strides."""
    packed: list[Any] = []
    for value, kind in zip(arguments, kinds, strict=True):
        if kind in ("none", "1"):
            continue  # in the code
        if isinstance(value, Blocks):
            tensor = value.tensor
            packed += [_descriptor(value), *map(ctypes.c_int32, tensor.shape), *map(ctypes.c_int64, tensor.stride())]
        elif isinstance(value, Tensor):
            packed.append(ctypes.c_uint64(value.data_ptr()))
        else:
            packed.append(NUMBERS[kind.split(" ")[0]](value))
    return [*packed, ctypes.c_uint64(0), ctypes.c_uint64(0)]  # scratch memory, which none of the kernels uses


TensorMap = ctypes.c_uint64 * 16


def _descriptor(blocks: Blocks) -> Any:
    """Describe a map to the copy engine, as Triton does."""
    tensor, rank = blocks.tensor, len(blocks.shape)
    room = ctypes.create_string_buffer(128 + 64)
    start = -ctypes.addressof(room) % 64  # ctypes aligns to 16 bytes at most before Python 3.13
    descriptor = TensorMap.from_buffer(room, start)
    sizes = (ctypes.c_uint64 * rank)(*reversed(tensor.shape))
    strides = (ctypes.c_uint64 * rank)(*(2 * stride for stride in reversed(tensor.stride()[:-1])), 0)
    box, steps = (ctypes.c_uint32 * rank)(*reversed(blocks.shape)), (ctypes.c_uint32 * rank)(*[1] * rank)
    half, packed, swizzle, promotion, zeros = 6, 0, 3, 2, 0  # of 128 bytes, both
    _check(
        _driver().cuTensorMapEncodeTiled(
            ctypes.byref(descriptor), half, rank, ctypes.c_void_p(tensor.data_ptr()), sizes, strides, box, steps,
            packed, swizzle, promotion, zeros,
        )
    )  # fmt: skip
    return descriptor


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _check(result: int) -> None:
    if result:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError(f"the CUDA driver refused a shipped kernel: {(text.value or b'error').decode()} ({result})")


@cache
def _read(path: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


@cache
def _load(path: Path, code: Code, device: int) -> ctypes.c_void_p | None:
    """Load code onto the current GPU; None where the driver is too old for it."""
    _ensure_context(device)
    module, function, driver = ctypes.c_void_p(), ctypes.c_void_p(), _driver()
    if driver.cuModuleLoadData(ctypes.byref(module), _read(path).read(code.file)):
        return None
    _check(driver.cuModuleGetFunction(ctypes.byref(function), module, code.symbol.encode()))
    if code.shared > MOST_SHARED:
        prefer_shared, most_dynamic = 1, 8
        _check(driver.cuFuncSetCacheConfig(function, prefer_shared))
        _check(driver.cuFuncSetAttribute(function, most_dynamic, code.shared))
    return function


def _ensure_context(device: int) -> None:
    """Make PyTorch's context that of this thread, which a new thread lacks."""
    context, driver = ctypes.c_void_p(), _driver()
    _check(driver.cuCtxGetCurrent(ctypes.byref(context)))
    if context.value is None:
        _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        _check(driver.cuCtxSetCurrent(context))
