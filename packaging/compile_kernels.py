"""Compile the GPU kernels for cards that are not here, into the archives that a wheel carries: `make kernels`.

    python packaging/compile_kernels.py [CAPABILITY ...]

What is compiled is what the product launches for both shipped networks: frames of `Dehazer` and of files in the usual
sizes and rates, alone and in batches, and the views that are drawn. Anything else is left to Triton. The same sources
and the same Triton give the same machine code, but for a few instructions of Hopper's convolution that change places.
"""

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from libranet.engine import views
from libranet.engine.plan import named_layout
from libranet.engine.restorer import FRAMES_AT_ONCE
from libranet.engine.views import FrameView
from libranet.frames import ColorSpec, FrameFormat
from libranet.frames.format import RGB8
from libranet.kernels import shipped
from libranet.kernels.conv3x3.reference import GROUPS
from libranet.kernels.launch import Launch, collect_launches
from libranet.kernels.norm_mix.gpu import fold_sums_out
from libranet.kernels.shipped import Blocks
from libranet.kernels.tiles import STRUCTURE_TILE, SUMS_STRIP
from libranet.network import NO_FILTER, GridFilter, LiBrANet, load_model
from libranet.runtime.gpu import refiner
from libranet.runtime.gpu.refiner import RefinerTiles
from libranet.runtime.gpu.step import FusedStep
from libranet.runtime.gpu.store import FrameStore
from libranet.runtime.gpu.support import HOPPER, STATIONARY_WIDTH

CAPABILITIES = ("8.0", "8.6", "8.9", "9.0", "10.0", "12.0")
SIZES = (
    (1280, 720), (1920, 1080), (2560, 1440), (3840, 2160), (720, 1280), (1080, 1920), (1440, 2560), (2160, 3840),
    (640, 360), (640, 480), (720, 576), (854, 480), (960, 540), (1024, 576), (1280, 960), (1440, 1080), (1920, 800),
    (1920, 1200), (1920, 1440), (2048, 1080), (2704, 1520), (3840, 1600), (4096, 2160),
)  # fmt: skip
"""Sizes shape the kernels that reduce a frame to the encoders' square, by whole steps, and how sums are added up. So
sizes near these take the same code."""
RATES = (24.0, 25.0, 30.0, 50.0, 60.0)
"""Of the filter over time, whose memory is a constant of its kernel. 23.976, 29.97 and 59.94 have the same memory."""
STEADY = GridFilter(1.0, RATES[0])
MODES: tuple[dict[str, Any], ...] = (
    {"batch": 1, "lookahead": 0},  # live
    {"batch": 1},  # `Dehazer`
    {"batch": FRAMES_AT_ONCE, "lookahead": 0, "grids_given": True},  # files
    {"batch": FRAMES_AT_ONCE, "lookahead": 0, "overlap": True},  # and the comparison with the plain network before them
    {"batch": FRAMES_AT_ONCE, "overlap": True},  # pipes
)
PARAMETER_SIZES = {"u64": 8, "s64": 8, "b64": 8, "u32": 4, "s32": 4, "b32": 4, "f32": 4, "u16": 2, "u8": 1, "b8": 1}


class AbsentGpu:
    """Triton's driver for a GPU that is not here: enough to compile."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_device(self) -> int:
        return self.capability  # Triton keeps one cache per device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)


def formats() -> Iterator[FrameFormat]:
    for width, height in SIZES:
        yield FrameFormat(width, height, RGB8)
        yield FrameFormat(width, height, named_layout("yuv420p"), ColorSpec(full_range=False))
        ten = named_layout("yuv420p10le")
        yield FrameFormat(width, height, ten, ColorSpec(full_range=False))
        yield FrameFormat(width, height, ten, ColorSpec("bt2020", full_range=False, siting="topleft"))


def collect() -> list[Launch]:
    """Everything that the product launches on any card, one launch for each variant of a kernel."""
    views.has_kernels = lambda _: True
    found: dict[tuple[str, str], Launch] = {}

    def keep(work: Callable[[], object]) -> None:
        with collect_launches() as launches:
            work()
        for one in launches:
            kinds = shipped.describe(one.arguments, plain_arguments(one))
            found.setdefault((one.name, shipped.key_of(kinds, one.options)), one)

    first, *others = formats()
    for name in ("libranet-base", "libranet-small"):
        network = load_model(name)
        for mode in MODES:
            for on_hopper in (False, True):
                refiner.supports_weight_stationary = lambda width, _, on=on_hopper: on and width == STATIONARY_WIDTH
                step = step_of(network, first, mode)
                for place in range(step.schedule.ring // step.schedule.batch):
                    keep(partial(step._work, place))
            for grid_filter in (NO_FILTER, *(GridFilter(1.0, rate) for rate in RATES[1:])):
                history = step_of(network, first, mode, grid_filter).history
                keep(history.filter_grids)
                if grid_filter.memory:
                    keep(partial(history.filter_residuals, history.residuals[: mode["batch"]].clone()))
        for format_ in others[:3]:
            keep(partial(step_of(network, format_, MODES[0])._work, 0))
        for size in SIZES:
            keep(partial(fold_sums, network.config.refiner.width, *size))
    for format_ in others[3:]:
        keep(partial(reduce_frame, format_, network.config.encoder.size))
    for format_ in others[:3]:
        for compare, view in ((None, "haze"), ("split", "result"), ("side", "removed"), ("side", "result")):
            keep(partial(FrameView, format_, format_, compare=compare, view=view))
    return list(found.values())


def step_of(
    network: LiBrANet, format_: FrameFormat, mode: dict[str, Any], grid_filter: GridFilter = STEADY
) -> FusedStep:
    return FusedStep(network, format_, device="cpu", graphs=False, grid_filter=grid_filter, **mode)


def reduce_frame(format_: FrameFormat, size: int) -> None:
    store = FrameStore(format_, ring=1, batch=1, encoder_size=size, device=torch.device("cpu"))
    store.read_small(0, torch.empty(1, size, size, 4, dtype=torch.float16))


def fold_sums(channels: int, width: int, height: int) -> None:
    rows, columns = -(-height // 4), -(-width // 4)
    tiles = {tile.parts(rows, columns) for tile in (RefinerTiles().stem, RefinerTiles().block, SUMS_STRIP)}
    values, fold, count = torch.empty(channels), torch.empty(1, 2, channels), rows * columns * (channels // GROUPS)
    for parts in (*tiles, rows * STRUCTURE_TILE.parts(columns)):
        fold_sums_out(torch.empty(1, parts, 2, GROUPS), values, values, fold, count=count)


def plain_arguments(one: Launch) -> dict[int, str]:
    """The arguments of a kernel that Triton is told not to specialise."""
    kernel = one._function
    constant = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    given = kernel.params[: len(one.arguments)]
    known = {*constant, "num_warps", "num_stages"}
    assert not any(p.is_constexpr for p in given), f"{one.name}: give constants by name"
    assert set(one.options) <= known, f"{one.name}: give arguments by place"
    assert not any(isinstance(value, bool) for value in one.arguments), f"{one.name}: a bool is no argument"
    return {
        parameter.num: "value" if parameter.do_not_specialize else "alignment"
        for parameter in given
        if parameter.do_not_specialize or parameter.do_not_specialize_on_alignment
    }


def check_parameters(one: Launch, kinds: tuple[str, ...], kernel: Any) -> None:
    """Compare what we pack with what the machine code expects: the size of every parameter, in order."""
    entry = kernel.asm["ptx"].split(".entry", 1)[1].split("(", 1)[1].split(")", 1)[0]
    want = []
    for line in filter(None, map(str.strip, entry.split(","))):
        kind, count = re.match(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+).*?(?:\[(\d+)\])?$", line).groups()
        want.append(PARAMETER_SIZES[kind] * int(count or 1))
    got = []
    for value, kind in zip(one.arguments, kinds, strict=True):
        if isinstance(value, Blocks):
            got += [128, *[4] * len(value.shape), *[8] * len(value.shape)]
        elif kind not in ("none", "1"):
            got.append(4 if kind.split(" ")[0] in ("i32", "f32") else 8)
    got += [8, 8]
    assert got == want, f"{one.name}: parameters of {got} bytes, the code takes {want}"
    meta = kernel.metadata
    assert meta.global_scratch_size == 0, one.name
    assert not meta.profile_scratch_size, one.name
    assert meta.num_ctas == 1, one.name
    assert not meta.launch_pdl, one.name
    assert not meta.launch_cooperative_grid, one.name
    for blocks, described in zip(
        (value for value in one.arguments if isinstance(value, Blocks)), meta.tensordesc_meta or (), strict=True
    ):
        assert described["block_size"] == list(blocks.shape), described
        assert (described["swizzle"], described["elem_size"], described["elem_type"]) == (3, 2, 6), described


def write_archive(path: Path, launches: list[Launch], pool: ThreadPoolExecutor) -> None:
    """Compile, and write machine code and index."""
    with triton.AsyncCompileMode(pool):
        promised = [one.compile() for one in launches]
    kernels = [one.result() if hasattr(one, "result") else one for one in promised]
    variants: dict[str, dict[str, list[Any]]] = {}
    plain, files = {}, {}
    for one, kernel in zip(launches, kernels, strict=True):
        plain[one.name] = plain_arguments(one)
        kinds = shipped.describe(one.arguments, plain[one.name])
        check_parameters(one, kinds, kernel)
        code = kernel.asm["cubin"]
        name = f"{sha256(code).hexdigest()[:12]}.cubin"
        files[name] = code
        fields = [name, kernel.metadata.name, kernel.metadata.num_warps, kernel.metadata.shared]
        variants.setdefault(one.name, {})[shipped.key_of(kinds, one.options)] = fields
    index = {"sources": shipped.digest_sources(), "triton": triton.__version__, "plain": plain, "variants": variants}
    files["index.json"] = json.dumps(index, sort_keys=True).encode()
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):  # entries without a date of their own: the same bytes every time
            archive.writestr(zipfile.ZipInfo(name), files[name], zipfile.ZIP_DEFLATED, 9)
    raw = sum(map(len, files.values()))
    print(f"{path.name}: {len(launches)} variants of {len(variants)} kernels, {len(files) - 1} files, "
          f"{raw / 1e6:.1f} MB, {path.stat().st_size / 1e6:.2f} MB packed", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("capabilities", nargs="*", default=CAPABILITIES)
    parser.add_argument("--folder", type=Path, default=shipped.FOLDER)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    triton.knobs.compilation.disable_line_info = True  # it is two thirds of the machine code, and holds paths
    with ThreadPoolExecutor(options.threads) as pool:
        driver.set_active(AbsentGpu(80))
        launches = collect()
        print(f"{len(launches)} variants", flush=True)
        for text in options.capabilities:
            major, minor = map(int, text.split("."))
            driver.set_active(AbsentGpu(10 * major + minor))
            wanted = [one for one in launches if major == HOPPER or ".gluon." not in one.name]
            write_archive(options.folder / f"{text}.zip", wanted, pool)


if __name__ == "__main__":
    sys.exit(main())
