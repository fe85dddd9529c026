"""Compiles every kernel of the fused step and of views for GPUs that are not here, and prints what each needs as JSON.

A script of its own, because the tests' process may have Triton in interpreter mode, which cannot compile.

    python tests/runtime/gpu/compile_for_gpus.py 80 86
    python tests/runtime/gpu/compile_for_gpus.py --first 86   # of every kernel the first variant that the step launches
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from libranet.engine import views
from libranet.engine.views import FrameView
from libranet.frames import ColorSpec, FrameFormat, PixelLayout
from libranet.frames.format import RGB8
from libranet.kernels.launch import Launch, collect_launches, launch
from libranet.network import GridFilter, LiBrANet
from libranet.runtime.gpu.compile import compile_ahead
from libranet.runtime.gpu.step import FusedStep

YUV10 = PixelLayout("yuv420p10le", "yuv", 10, 2, 2, alpha=False)
CASES: list[tuple[FrameFormat, dict[str, Any]]] = [
    (FrameFormat(3840, 2160, YUV10, ColorSpec(full_range=False)), {}),
    (FrameFormat(3840, 2160, RGB8), {}),
    (FrameFormat(1920, 1080, RGB8), {"batch": 4, "overlap": True}),
]
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


class AbsentGpu:
    """Triton's driver for a GPU that is not here: enough to compile."""

    def __init__(self) -> None:
        self.capability = 80
        self.launchers: set[str] = set()

    def get_current_device(self) -> int:
        return self.capability  # Triton keeps one cache per device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def launcher_cls(self, source: Any, metadata: Any) -> None:
        self.launchers.add(metadata.hash)


def launches() -> list[Launch]:
    """What the step launches for the shipped network, in the cases above, and what views launch."""
    found: list[Launch] = []
    network = LiBrANet().eval()
    for format_, settings in CASES:
        step = FusedStep(network, format_, device="cpu", graphs=False, grid_filter=GridFilter(1.0, 25.0), **settings)
        with collect_launches() as collected:
            step._work(0)
        found += collected
    with collect_launches() as collected:
        for compare, view in ((None, "haze"), ("split", "result"), ("side", "removed")):
            FrameView(CASES[0][0], CASES[0][0], compare=compare, view=view)  # draws an example
    return found + collected


def resources(cubin: bytes) -> dict[str, int]:
    """Registers and bytes of spilled ones per thread."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(CUOBJDUMP), "--dump-resource-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", text))
    return {"registers": int(found["REG"]), "spilled": int(found["STACK"]) + int(found.get("LOCAL", 0))}


def main() -> None:
    gpu = AbsentGpu()
    driver.set_active(gpu)
    torch.set_num_threads(1)
    views.has_kernels = lambda _: True
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", action="store_true")
    parser.add_argument("capabilities", type=int, nargs="+")
    args = parser.parse_args()
    collected = launches()
    if args.first:
        collected = list({one.name: one for one in reversed(collected)}.values())
    found: dict[str, dict[str, Any]] = {}

    def work() -> None:
        for one in collected:
            launch(one.name, one.grid)(*one.arguments, **one.options)

    for capability in args.capabilities:
        gpu.capability = capability
        compile_ahead(work)
        kernels = {kernel.hash: kernel for kernel in (one.compile() for one in collected)}
        assert gpu.launchers >= set(kernels), "kernels without a launcher"
        found[str(capability)] = {
            f"{kernel.metadata.name} {index}": {
                "shared": kernel.metadata.shared,
                "warps": kernel.metadata.num_warps,
                **resources(kernel.asm["cubin"]),
            }
            for index, kernel in enumerate(kernels.values())
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
