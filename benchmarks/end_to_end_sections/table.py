"""The table, the setting that all sections share, frames to measure with, and how calls are timed."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from libranet.frames import FrameFormat, PixelLayout
from libranet.network import GridFilter
from machine import describe_machine

RATE = 25
YUV8 = PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False)
YUV10 = PixelLayout("yuv420p10le", "yuv", 10, 2, 2, alpha=False)
FILTER = GridFilter(1.0, 25.0)


@dataclass(frozen=True)
class Setting:
    """What is measured. The defaults are those of the table; tests take less."""

    folder: Path
    """For clips and results."""
    width: int = 3840
    height: int = 2160
    device: str = "cuda"
    long: int = 600
    """Frames of the longest file run."""
    middle: int = 240
    short: int = 60
    resumed: int = 240
    """Frames of the run that is killed, at half the size."""
    compile: bool = True
    """Try `torch.compile`, too."""

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height


@dataclass
class Table:
    """Rows: name, the product's number, what it is compared with, their unit, and the limit of the issue."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """Numbers beside the rows: times of stages, memory, seconds of sections."""

    def add(
        self, name: str, product: float | None, beside: float | None = None, *, unit: str = "ms", limit: str = ""
    ) -> None:
        ratio = product / beside if product and beside else None
        self.rows.append(
            {"name": name, "product": product, "kernels": beside, "ratio": ratio, "unit": unit, "limit": limit}
        )
        print(_line(self.rows[-1]), flush=True)

    def text(self) -> str:
        head = f"{'':<62}{'product':>9}{'beside':>9}{'ratio':>9}  unit limit"
        return "\n".join([head, *map(_line, self.rows)])

    def save(self, folder: Path) -> None:
        """Write what there is so far: a run that is stopped keeps its finished sections."""
        machine = describe_machine()
        (folder / "end_to_end.txt").write_text(f"{machine}\n{self.text()}\n")
        content = {**machine, "rows": self.rows, "facts": self.facts}
        (folder / "end_to_end.json").write_text(json.dumps(content, indent=1))

    @classmethod
    def load(cls, folder: Path) -> "Table":
        """Read what a stopped process left, or begin."""
        path = folder / "end_to_end.json"
        if not path.is_file():
            return cls()
        saved = json.loads(path.read_text())
        return cls(saved["rows"], saved["facts"])


def _line(row: dict[str, Any]) -> str:
    numbers = [f"{row[key]:9.3f}" if row[key] is not None else f"{'-':>9}" for key in ("product", "kernels", "ratio")]
    return f"{row['name']:<62}{numbers[0]}{numbers[1]}{numbers[2]}  {row['unit']:<4} {row['limit']}"


def moving_planes(
    layout: PixelLayout, count: int, size: tuple[int, int], device: str, *, noise: float = 0.006
) -> tuple[torch.Tensor, ...]:
    """Smooth moving colours with a little noise, in the samples of a layout, on a device."""
    generator = torch.Generator(device).manual_seed(0)
    planes = []
    for shape in FrameFormat(*size, layout).plane_shapes(1):
        height, width = shape[1:3]
        coarse = torch.rand(1, 1, 10, 17, generator=generator, device=device) * 0.4 + 0.3
        smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic")[0, 0]
        images = []
        for index in range(count):
            image = smooth.roll(index * (width // 60), dims=1)
            image = image + noise * torch.randn(image.shape, generator=generator, device=device)
            image = image.clamp(0, 1) * layout.peak
            images.append(image[..., None].expand(-1, -1, 3) if layout.packed else image)
        planes.append(torch.stack(images).to(layout.dtype))
    return tuple(planes)


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def time_calls(work: Callable[[int], object], count: int, *, warm: int = 8) -> float:
    """Milliseconds a call, back to back."""
    for index in range(warm):
        work(index)
    wait()
    begin = time.perf_counter()
    for index in range(count):
        work(warm + index)
    wait()
    return (time.perf_counter() - begin) * 1e3 / count
