"""Kernels that were compiled before: which code is for which arguments, stale archives, and what the driver is told."""

import ctypes
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from libranet.frames import ColorSpec, FrameFormat
from libranet.frames.format import RGB8
from libranet.kernels import launch as launching
from libranet.kernels import shipped
from libranet.kernels.launch import Launch, collect_launches
from libranet.kernels.shipped import Blocks, Code, describe, key_of, open_archive, pack
from libranet.network import GridFilter, load_model
from libranet.runtime.gpu import refiner
from libranet.runtime.gpu.step import FusedStep
from libranet.video.pixels import layout_of

NAME = "norm_mix.triton._fold_kernel"
OPTIONS = {"GROUPS": 8, "num_warps": 4}


def write(path: Path, arguments: tuple[Any, ...], *, sources: str | None = None) -> Path:
    """An archive of one kernel, whose machine code nobody can run."""
    index = {
        "sources": shipped.digest_sources() if sources is None else sources,
        "triton": "3.6.0",
        "plain": {NAME: {"1": "value"}},
        "variants": {NAME: {key_of(describe(arguments, {1: "value"}), OPTIONS): ["a.cubin", "_fold_kernel", 4, 60000]}},
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("index.json", json.dumps(index))
        archive.writestr("a.cubin", b"machine code")
    return path


def test_arguments_are_told_apart_as_triton_specialises_them() -> None:
    halves = torch.zeros(64, dtype=torch.float16)
    arguments = (halves, halves[1:], None, 1, 16, 17, 2**31, 0.5, 32, halves, Blocks(halves.view(1, 64), (1, 64)))
    kinds = describe(arguments, {8: "value", 9: "alignment"})
    want = (
        "float16* /16",
        "float16*",
        "none",
        "1",
        "i32 /16",
        "i32",
        "i64 /16",
        "f32",
        "i32",
        "float16*",
        "blocks 1x64",
    )
    assert kinds == want
    assert key_of(("i32",), {"b": True, "a": 2}) == "i32; a=2; b=True"


def test_constants_are_not_passed_and_scratch_memory_is() -> None:
    x = torch.zeros(4)
    arguments = (x, None, 1, 48, 0.5, 2**40)
    packed = pack(arguments, describe(arguments, {}))
    values = [(type(one), one.value) for one in packed]
    assert values == [
        (ctypes.c_uint64, x.data_ptr()), (ctypes.c_int32, 48), (ctypes.c_float, 0.5), (ctypes.c_int64, 2**40),
        (ctypes.c_uint64, 0), (ctypes.c_uint64, 0),
    ]  # fmt: skip


def test_an_archive_of_other_sources_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    find = shipped.archive_for.__wrapped__
    write(tmp_path / "8.0.zip", (1,), sources="of yesterday")
    assert open_archive(tmp_path / "8.0.zip") is None
    assert find((8, 9)) is None
    write(tmp_path / "8.0.zip", (1,))
    write(tmp_path / "9.0.zip", (1,))
    assert find((8, 9)).path.name == "8.0.zip"  # machine code of 8.0 runs on every 8.x
    assert find((9, 0)).path.name == "9.0.zip"
    assert find((9, 1)) is None  # that of Hopper and later runs on one capability alone
    monkeypatch.setattr(shipped, "INLINED", (*shipped.INLINED, shipped.KERNELS / "bands.py"))
    assert find((9, 0)) is None


class Driver:
    """A CUDA driver that notes what it is told."""

    def __init__(self, refuses: int = 0) -> None:
        self.refuses, self.calls = refuses, list[tuple[str, tuple[Any, ...]]]()

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> int:
            self.calls.append((name, given))
            return self.refuses if name == "cuModuleLoadData" else 0

        return call

    def said(self, name: str) -> tuple[Any, ...]:
        return next(given for called, given in self.calls if called == name)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Driver:
    driver = Driver()
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    monkeypatch.setattr(shipped, "_driver", lambda: driver)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=77))
    shipped.archive_for.cache_clear()
    yield driver
    shipped.archive_for.cache_clear()


def test_the_driver_launches_what_was_shipped_without_triton(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (torch.zeros(32), 7, None)
    write(tmp_path / "9.0.zip", arguments)
    monkeypatch.setattr(launching, "import_module", lambda name: pytest.fail(f"{name} needs Triton"))
    Launch(NAME, (3, 2), arguments, OPTIONS).run()
    assert driver.said("cuModuleLoadData")[1] == b"machine code"
    assert driver.said("cuModuleGetFunction")[2] == b"_fold_kernel"
    assert driver.said("cuFuncSetAttribute")[1:] == (8, 60000)  # more shared memory than a kernel gets unasked
    _, *grid_and_block, shared, stream, places, _ = driver.said("cuLaunchKernel")
    assert grid_and_block == [3, 2, 1, 128, 1, 1]
    assert (shared, stream.value, len(places)) == (60000, 77, 4)


@pytest.mark.parametrize("what", ["other arguments", "other constants", "another kernel", "a driver that refuses it"])
def test_anything_else_is_left_to_triton(driver: Driver, tmp_path: Path, what: str) -> None:
    write(tmp_path / "9.0.zip", (torch.zeros(32), 7, None))
    arguments = (torch.zeros(32), 7, 5 if what == "other arguments" else None)
    options = OPTIONS | {"GROUPS": 4 if what == "other constants" else 8}
    if what == "a driver that refuses it":
        driver.refuses = 209  # no code for this GPU
    name = "norm_mix.triton._other" if what == "another kernel" else NAME
    assert Launch(name, (1,), arguments, options).find_shipped() is None


def test_a_map_is_described_to_the_copy_engine(driver: Driver) -> None:
    wide = torch.zeros(5, 40, 128, dtype=torch.float16)
    packed = pack((Blocks(wide[..., 64:], (1, 16, 64)),), ("blocks 1x16x64",))
    assert [ctypes.sizeof(one) for one in packed] == [128, 4, 4, 4, 8, 8, 8, 8, 8]
    assert ctypes.addressof(packed[0]) % 64 == 0
    assert [one.value for one in packed[1:7]] == [5, 40, 128 - 64, 40 * 128, 128, 1]
    _, kind, rank, address, sizes, strides, box, steps, *rest = driver.said("cuTensorMapEncodeTiled")
    assert (kind, rank, address.value) == (6, 3, wide.data_ptr() + 128)
    assert ([*sizes], [*strides][:2]) == ([64, 40, 5], [2 * 128, 2 * 40 * 128])
    assert ([*box], [*steps], rest) == ([64, 16, 1], [1, 1, 1], [0, 3, 2, 0])


def test_shipped_archives_are_of_these_kernels() -> None:
    """If this fails, the kernels have changed: run `make kernels`."""
    archives = sorted(shipped.FOLDER.glob("*.zip"))
    assert [path.stem for path in archives] == ["10.0", "12.0", "8.0", "8.6", "8.9", "9.0"]
    for path in archives:
        archive = open_archive(path)
        assert archive is not None, path
        assert all(isinstance(code, Code) for codes in archive.variants.values() for code in codes.values())
        with zipfile.ZipFile(path) as file:
            assert file.testzip() is None
            code = next(iter(archive.variants["color_field.triton._field_kernel"].values()))
            assert file.read(code.file)[:4] == b"\x7fELF"


@pytest.mark.parametrize(("model", "capability"), [("base", "8.0"), ("base", "9.0"), ("small", "12.0")])
@pytest.mark.parametrize("name", ["rgb24", "yuv420p10le"])
def test_a_step_of_the_product_launches_nothing_else(
    model: str, capability: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, tiles or constants have changed: run `make kernels`."""
    stationary = capability == "9.0"
    monkeypatch.setattr(refiner, "supports_weight_stationary", lambda width, _: stationary and width == 64)
    layout, settings = (RGB8, {}) if name == "rgb24" else (layout_of(name), {"batch": 4, "overlap": True})
    format_ = FrameFormat(1280, 720, layout, ColorSpec(full_range=name == "rgb24"))
    network, filter_ = load_model(f"libranet-{model}"), GridFilter(1.0, 25.0)
    step = FusedStep(network, format_, device="cpu", graphs=False, grid_filter=filter_, **settings)
    with collect_launches() as launches:
        step._work(0)
    archive = open_archive(shipped.FOLDER / f"{capability}.zip")
    assert archive is not None
    assert len(launches) > 50
    for one in launches:
        key = key_of(describe(one.arguments, archive.plain[one.name]), one.options)
        assert key in archive.variants[one.name], one.name


def test_the_gpu_path_imports_without_triton() -> None:
    program = (
        "import sys; sys.modules['triton'] = None; import libranet.runtime.gpu.backend, libranet.kernels.drawing.gpu"
    )
    program += ", libranet.kernels.conv3x3.hopper, libranet.kernels.norm_mix.hopper"
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)
