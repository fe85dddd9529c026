"""How large and how fast lossless formats are at 3840x2160: the measurements behind docs/data-format.md.

python benchmarks/formats.py [--photo FILE] [--repeats N]
"""

import argparse
import io
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from libranet.data.exr import encode_exr, read_exr_rows
from libranet.data.frames import read_image
from libranet.data.png_bands import encode_png, read_png_rows

WIDTH, HEIGHT = 3840, 2160
CROP = 512


def test_frame(photo: Path | None) -> np.ndarray:
    """A photo at 4K, or noise of all sizes where none is given."""
    if photo is not None:
        return np.asarray(cv2.resize(read_image(photo), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA))
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
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def row(
    name: str, path: Path, write: Callable[[], bytes], read: Callable[[], object], crop: Callable[[], object], n: int
) -> str:
    content = write()
    path.write_bytes(content)
    figures = [median_ms(write, n), median_ms(read, n), median_ms(crop, n)]
    return f"| {name} | {len(content) / 1e6:.2f} | " + " | ".join(f"{value:.0f}" for value in figures) + " |"


def frame_rows(frame: np.ndarray, folder: Path, n: int) -> list[str]:
    rows = []
    top, left = 801, 1700

    def cut(image: np.ndarray) -> np.ndarray:
        return image[top : top + CROP, left : left + CROP]

    bands = folder / "bands.png"
    for level in (1, 3, 6):
        rows.append(
            row(
                f"PNG in bands, level {level}{' (ours)' if level == 1 else ''}",
                bands,
                lambda level=level: encode_png(frame, level=level),
                lambda: read_png_rows(bands),
                lambda: read_png_rows(bands, top=top, height=CROP),
                n,
            )
        )
    plain = folder / "plain.png"
    webp = folder / "lossless.webp"
    swapped = np.ascontiguousarray(frame[..., ::-1])
    variants = [
        ("PNG by OpenCV, default", plain, ".png", []),
        ("PNG by OpenCV, level 1", plain, ".png", [cv2.IMWRITE_PNG_COMPRESSION, 1]),
        ("WebP lossless by OpenCV", webp, ".webp", [cv2.IMWRITE_WEBP_QUALITY, 101]),
    ]
    for name, path, suffix, options in variants:
        rows.append(
            row(
                name,
                path,
                lambda suffix=suffix, options=options: cv2.imencode(suffix, swapped, options)[1].tobytes(),
                lambda path=path: cv2.imread(str(path)),
                lambda path=path: cut(cv2.imread(str(path))),
                1 if suffix == ".webp" else n,
            )
        )
    return rows


def map_rows(depth: np.ndarray, folder: Path, n: int) -> list[str]:
    rows = []
    top = 801
    path = folder / "a.exr"
    for level in (1, 2, 6):
        rows.append(
            row(
                f"EXR half ZIP, level {level}{' (ours)' if level == 2 else ''}",
                path,
                lambda level=level: encode_exr({"Z": depth}, level=level),
                lambda: read_exr_rows(path),
                lambda: read_exr_rows(path, top=top, height=CROP),
                n,
            )
        )
    rows += openexr_rows(depth, folder, n)
    png16 = folder / "a16.png"
    levels = (depth.astype(np.float32) * 65535).astype(np.uint16)
    rows.append(
        row(
            "PNG 16 bit (not half float)",
            png16,
            lambda: cv2.imencode(".png", levels)[1].tobytes(),
            lambda: cv2.imread(str(png16), cv2.IMREAD_UNCHANGED),
            lambda: cv2.imread(str(png16), cv2.IMREAD_UNCHANGED)[top : top + CROP],
            n,
        )
    )
    raw = folder / "a.npy"

    def write_npy() -> bytes:
        buffer = io.BytesIO()
        np.save(buffer, depth)
        return buffer.getvalue()

    rows.append(
        row(
            "NPY, uncompressed",
            raw,
            write_npy,
            lambda: np.load(raw),
            lambda: np.array(np.load(raw, mmap_mode="r")[top : top + CROP]),
            n,
        )
    )
    return rows


def openexr_rows(depth: np.ndarray, folder: Path, n: int) -> list[str]:
    """The same through the OpenEXR package, where it is installed."""
    try:
        import OpenEXR
    except ImportError:
        return ["| OpenEXR package: not installed | | | | |"]
    rows = []
    for name in ("ZIP", "PIZ"):
        path = folder / f"lib{name}.exr"
        header = {"compression": getattr(OpenEXR, f"{name}_COMPRESSION"), "type": OpenEXR.scanlineimage}

        def write(path: Path = path, header: dict[str, object] = header) -> bytes:
            OpenEXR.File(dict(header), {"Z": depth}).write(str(path))
            return path.read_bytes()

        def read(path: Path = path) -> np.ndarray:
            with OpenEXR.File(str(path)) as file:
                return np.asarray(file.channels()["Z"].pixels)

        rows.append(
            row(f"EXR half {name}, OpenEXR package", path, write, read, lambda read=read: read()[801 : 801 + CROP], n)
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photo", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, one thread, commit {commit.stdout.strip()}\n")
    head = f"| format | MB | write ms | read ms | read {CROP} rows ms |\n|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"8-bit frame {WIDTH}x{HEIGHT}, {'photo' if arguments.photo else 'synthetic'}\n\n{head}")
        print("\n".join(frame_rows(test_frame(arguments.photo), folder, arguments.repeats)))
        print(f"\nhalf-float depth {WIDTH}x{HEIGHT}\n\n{head}")
        print("\n".join(map_rows(test_depth(), folder, arguments.repeats)))


if __name__ == "__main__":
    main()
