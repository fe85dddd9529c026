"""Toy pairs of frames and videos, and ways to spoil them."""

from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np

SIZE = (96, 64)


def scene(count: int, *, seed: int) -> list[np.ndarray]:
    """Coarse shapes with fine texture, which move by three pixels per frame."""
    random, size = np.random.default_rng(seed), (SIZE[0] + 3 * count, SIZE[1])
    grids = [random.random(cells) for cells in ((5, 9, 3), (24, 48, 3))]
    coarse, fine = (cv2.resize(grid, size, interpolation=cv2.INTER_CUBIC) for grid in grids)
    wide = (np.clip(0.6 * coarse + 0.4 * fine, 0, 1) * 255).astype(np.uint8)
    return [np.ascontiguousarray(wide[:, 3 * i : 3 * i + SIZE[0]]) for i in range(count)]


def put(folder: Path, frames: list[np.ndarray], *, first: int = 0, form: str = "{:05d}.png") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, frame in enumerate(frames, start=first):
        cv2.imwrite(str(folder / form.format(number)), frame[..., ::-1])


def put_video(path: Path, frames: list[np.ndarray], *, rate: int = 25) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": "4", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = SIZE[0], SIZE[1], "yuv444p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))


def swap(a: Path, b: Path) -> None:
    a.rename(a.with_name("swapped"))
    b.rename(a)
    a.with_name("swapped").rename(b)


def rewrite(folder: Path, change: Callable[[np.ndarray], np.ndarray]) -> None:
    for path in folder.rglob("*.png"):
        cv2.imwrite(str(path), change(cv2.imread(str(path))))


def shift_in_time(folder: Path, by: int) -> None:
    images = [path.read_bytes() for path in sorted(folder.iterdir())]
    for path, content in zip(sorted(folder.iterdir()), images[by:] + images[-1:] * by, strict=True):
        path.write_bytes(content)


def half_size(image: np.ndarray) -> np.ndarray:
    return cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
