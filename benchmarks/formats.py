"""How large and how fast lossless formats are at 3840x2160: the measurements behind docs/data-format.md.

python benchmarks/formats.py [--photo FILE] [--repeats N]
"""

import argparse
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from libranet.data.frames import Box, read_rgb, read_samples
from libranet.data.maps import encode_exr, read_exr_rows
from libranet.data.png_bands import encode_png
from machine import describe_machine

WIDTH, HEIGHT = 3840, 2160
CROP = 512


def test_frame(photo: Path | None) -> np.ndarray:
    """A photo at 4K, or noise of all sizes where none is given."""
    if photo is not None:
        return np.asarray(cv2.resize(read_rgb(photo), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA))
    rng = np.random.default_rng(0)
    total = np.zeros((HEIGHT, WIDTH, 3), np.float32)
    for cells, share in ((8, 0.5), (40, 0.25), (200, 0.15), (1000, 0.07)):
        total += share * cv2.resize(rng.random((cells, 2 * cells, 3), np.float32), (WIDTH, HEIGHT))
    return (np.clip(total + rng.normal(0, 0.008, total.shape), 0, 1) * 255).astype(np.uint8)


def test_depth() -> np.ndarray:
    """A smooth ramp with soft hills and one hard edge, as half floats."""
    rng = np.random.default_rng(1)
    hills = cv2.resize(rng.random((12, 20), np.float32), (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    depth = np.linspace(1, 0, HEIGHT, dtype=np.float32)[:, None] * 0.8 + 0.2 * hills
    depth[: HEIGHT // 3] = 1.0
    return np.clip(depth, 0, 1).astype(np.float16)


def median_ms(action: Callable[[], object], repeats: int) -> float:
    """CPU time on one thread, which other programs on the machine do not disturb; files come from the cache."""
    times = []
    cv2.setNumThreads(1)
    for _ in range(repeats):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times)


@dataclass(frozen=True)
class Format:
    """One way to store an array, as three actions."""

    name: str
    path: Path
    write: Callable[[], bytes]
    read: Callable[[], object]
    crop: Callable[[], object]

    def row(self, repeats: int) -> str:
        """A line of the table. A write of more than a second is measured once."""
        start = time.process_time()
        content = self.write()
        first = time.process_time() - start
        self.path.write_bytes(content)
        writing = 1000 * first if first > 1.0 else median_ms(self.write, repeats)
        figures = [writing, median_ms(self.read, repeats), median_ms(self.crop, repeats)]
        return f"| {self.name} | {len(content) / 1e6:.2f} | " + " | ".join(f"{value:.0f}" for value in figures) + " |"


def frame_formats(frame: np.ndarray, folder: Path) -> list[Format]:
    top, left = 801, 1700
    bands, plain, webp = folder / "bands.png", folder / "plain.png", folder / "lossless.webp"
    swapped = np.ascontiguousarray(frame[..., ::-1])

    def ours(level: int) -> Format:
        return Format(
            f"PNG in bands, level {level}{', ours' if level == 1 else ''}",
            bands,
            lambda: encode_png(frame, level=level),
            lambda: read_rgb(bands),
            lambda: read_samples(bands, Box(top, 0, CROP, frame.shape[1])),
        )

    def opencv(name: str, path: Path, options: list[int]) -> Format:
        def write() -> bytes:
            return cv2.imencode(path.suffix, swapped, options)[1].tobytes()

        return Format(
            name,
            path,
            write,
            lambda: cv2.imread(str(path)),
            lambda: np.asarray(cv2.imread(str(path)))[top : top + CROP, left : left + CROP],
        )

    return [
        *(ours(level) for level in (1, 3, 6)),
        opencv("PNG by OpenCV, default", plain, []),
        opencv("PNG by OpenCV, level 1", plain, [cv2.IMWRITE_PNG_COMPRESSION, 1]),
        opencv("WebP lossless by OpenCV", webp, [cv2.IMWRITE_WEBP_QUALITY, 101]),
    ]


def map_formats(depth: np.ndarray, folder: Path) -> list[Format]:
    top = 801
    exr, png16, npy = folder / "a.exr", folder / "a16.png", folder / "a.npy"
    levels = (depth.astype(np.float32) * 65535).astype(np.uint16)

    def ours(level: int) -> Format:
        return Format(
            f"EXR half ZIP, level {level}{', ours' if level == 2 else ''}",
            exr,
            lambda: encode_exr({"Z": depth}, level=level),
            lambda: read_exr_rows(exr),
            lambda: read_exr_rows(exr, top=top, height=CROP),
        )

    def write_png16() -> bytes:
        return cv2.imencode(".png", levels)[1].tobytes()

    def write_npy() -> bytes:
        buffer = io.BytesIO()
        np.save(buffer, depth)
        return buffer.getvalue()

    def read_png16() -> np.ndarray:
        return np.asarray(cv2.imread(str(png16), cv2.IMREAD_UNCHANGED))

    return [
        *(ours(level) for level in (1, 2, 6)),
        *openexr_formats(depth, folder),
        Format("PNG, 16-bit integers", png16, write_png16, read_png16, lambda: read_png16()[top : top + CROP]),
        Format(
            "NPY, uncompressed",
            npy,
            write_npy,
            lambda: np.load(npy),
            lambda: np.array(np.load(npy, mmap_mode="r")[top : top + CROP]),
        ),
    ]


def openexr_formats(depth: np.ndarray, folder: Path) -> list[Format]:
    """The same through the OpenEXR package, where it is installed."""
    try:
        import OpenEXR
    except ImportError:
        print("(the OpenEXR package is not installed: its two lines are left out)")
        return []

    def package(name: str) -> Format:
        path = folder / f"package-{name}.exr"

        def write() -> bytes:
            header = {"compression": getattr(OpenEXR, f"{name}_COMPRESSION"), "type": OpenEXR.scanlineimage}
            OpenEXR.File(header, {"Z": depth}).write(str(path))
            return path.read_bytes()

        def read() -> np.ndarray:
            with OpenEXR.File(str(path)) as file:
                return np.asarray(file.channels()["Z"].pixels)

        return Format(f"EXR half {name}, OpenEXR package", path, write, read, lambda: read()[801 : 801 + CROP])

    return [package("ZIP"), package("PIZ")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photo", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in describe_machine().items()))
    head = f"| format | MB | write ms | read ms | read {CROP} rows ms |\n|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"\n8-bit frame {WIDTH}x{HEIGHT}, {'photo' if arguments.photo else 'synthetic'}\n\n{head}")
        for entry in frame_formats(test_frame(arguments.photo), folder):
            print(entry.row(arguments.repeats), flush=True)
        print(f"\nhalf-float depth {WIDTH}x{HEIGHT}\n\n{head}")
        for entry in map_formats(test_depth(), folder):
            print(entry.row(arguments.repeats), flush=True)


if __name__ == "__main__":
    main()
