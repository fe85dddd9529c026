"""Clear photos and rendered scenes with their depth, kept on the device for the whole run."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.data.frames import read_rgb
from libranet.errors import InputError
from libranet.extension import lab
from libranet.haze.images import SKY_DEPTH, SKY_LEVEL, ImageBank, ImageFacts

PHOTO_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}
ASPECT = 16 / 9
"""Shape of the canvas that every image is laid on; narrower images leave its right side empty."""
FINE, COARSE = 1.0, 2 / 3
"""Sizes at which images are kept, in units of the configured number of lines: crops take the nearer one."""
DEPTH_SCALE = 0.5  # size at which depth is kept, likewise
DENSITY_SIZE = 24  # side to which density maps are brought: a sample shows a ninth of one or more
BRIGHT_PERCENTILE = 90
MIN_SKY = 0.02  # share of the image from which on a sky counts


@dataclass(frozen=True)
class ClearImage:
    """One clear image before it is laid on the canvas."""

    name: str
    image: np.ndarray  # [H, W, 3] uint8 RGB
    depth: np.ndarray | None  # [h, w] uint8, 0 near, 255 far


def load_bank(
    images: Iterable[ClearImage], *, lines: int, device: torch.device, density: Tensor | None = None
) -> ImageBank:
    """Lay images on canvases of one size and put them on the device, beside density maps of haze."""
    with ThreadPoolExecutor() as pool:
        laid = list(pool.map(lambda image: _lay(image, lines), images))
    if not laid:
        raise InputError("no clear images to train on: give folders of photos, or a number of scenes")

    def stack(name: str) -> Tensor:
        return torch.from_numpy(np.stack([canvases[name] for canvases, _ in laid])).permute(0, 3, 1, 2).contiguous()

    return ImageBank(
        fine=stack("fine").to(device),
        coarse=stack("coarse").to(device),
        depth=stack("depth").to(device),
        facts=ImageFacts(**{f.name: torch.tensor([facts[f.name] for _, facts in laid]) for f in fields(ImageFacts)}),
        density=torch.zeros(0, DENSITY_SIZE, DENSITY_SIZE) if density is None else density,
    )


def find_photos(folders: Iterable[str | Path], depth_folder: str | Path) -> list[tuple[Path, Path | None]]:
    """Every photo of the folders, with its depth map where there is one."""
    paths: list[Path] = []
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise InputError(f"no photos at {folder}: check the recipe's [photos] folders")
        named = sorted(path for path in folder.iterdir() if path.suffix.lower() in PHOTO_SUFFIXES)
        found = [path for path in named if not path.name.startswith(".")]  # macOS leaves ._photo.jpg behind
        if not found:
            raise InputError(f"expected JPEG, PNG or WebP photos in {folder}, found none")
        paths += found
    maps = [Path(depth_folder) / f"{path.parent.name}__{path.stem}.png" if depth_folder else None for path in paths]
    return [(path, map_ if map_ and map_.is_file() else None) for path, map_ in zip(paths, maps, strict=True)]


def read_photos(folders: Iterable[str | Path], depth_folder: str | Path) -> list[ClearImage]:
    def read(found: tuple[Path, Path | None]) -> ClearImage:
        path, map_ = found
        depth = None if map_ is None else cv2.imread(str(map_), cv2.IMREAD_GRAYSCALE)
        return ClearImage(path.stem, read_rgb(path), depth)

    with ThreadPoolExecutor() as pool:
        return list(pool.map(read, find_photos(folders, depth_folder)))


def read_density(folder: str | Path) -> Tensor:  # [M, DENSITY_SIZE, DENSITY_SIZE] in [0, 1]
    """Read grey density maps, each spread over [0, 1]; an empty name gives none."""
    if not folder:
        return torch.zeros(0, DENSITY_SIZE, DENSITY_SIZE)
    paths = sorted(Path(folder).glob("*.png"))
    if not paths:
        raise InputError(f"no PNG density maps in {folder}: check the recipe's photos.density")
    maps = []
    for path in paths:
        image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        if image is None:
            raise InputError(f"cannot read {path} as an image: remove it or replace it")
        small = cv2.resize(image, (DENSITY_SIZE, DENSITY_SIZE), interpolation=cv2.INTER_AREA).astype(np.float32)
        low, high = np.percentile(small, (2, 98))
        maps.append(np.clip((small - low) / max(high - low, 1.0), 0, 1).astype(np.float32))
    return torch.from_numpy(np.stack(maps))


def render_scenes(
    count: int, views: int, *, seed: int, lines: int, device: torch.device, first: int = 0
) -> Iterable[ClearImage]:
    """Render procedural scenes with their exact depth, `views` frames each."""
    for scene in range(first, first + count):
        width = round(lines * ASPECT)
        # Frames one second apart differ enough to be worth having.
        clip = lab("scenes").render_clip(seed + scene, frames=views, width=width, height=lines, fps=1.0, device=device)
        for view, frame in enumerate(clip):
            image = (frame.image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu().numpy()
            yield ClearImage(f"scene-{scene}-{view}", image, normalise_depth(frame.depth.cpu().numpy()))


def normalise_depth(metres: np.ndarray, *, farthest: int = 255) -> np.ndarray:  # [H, W] uint8
    """Metric depth to 0..`farthest`: the sky and what is beyond the 95th percentile of the ground are farthest."""
    ground = metres[metres < SKY_DEPTH * 0.99]
    if ground.size == 0:
        return np.full(metres.shape, farthest, np.uint8)
    near, far = np.percentile(ground, 1), max(np.percentile(ground, 95), 1.0)
    # Distances span orders of magnitude; the square root spreads the near ones.
    unit = np.sqrt(np.clip((metres - near) / max(far - near, 1e-6), 0, 1))
    return (unit * farthest).round().astype(np.uint8)


def _lay(source: ClearImage, lines: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Bring an image to the canvas's height, crop what is wider, leave free what is narrower.

    Returns:
        Canvases [H, W, C] and facts, by their names in `ImageBank` and `ImageFacts`.
    """
    canvas_width = round(lines * ASPECT)
    height, width = source.image.shape[:2]
    used = min(round(width * lines / height), canvas_width)

    def lay(image: np.ndarray, scale: float) -> np.ndarray:
        rows, columns = round(lines * scale), round(canvas_width * scale)
        full = max(round(image.shape[1] * rows / image.shape[0]), 1)
        resized = cv2.resize(image, (full, rows), interpolation=cv2.INTER_AREA).reshape(rows, full, -1)
        start = max((full - columns) // 2, 0)
        cropped = resized[:, start : start + columns]
        return np.pad(cropped, ((0, 0), (0, columns - cropped.shape[1]), (0, 0)), mode="edge")

    depth = np.zeros((2, 2), np.uint8) if source.depth is None else source.depth
    depth = cv2.resize(depth, (width // 2, height // 2), interpolation=cv2.INTER_LINEAR)
    fine = lay(source.image, FINE)
    bright = float(np.percentile(fine[:, :used].max(axis=2), BRIGHT_PERCENTILE)) / 255
    canvases = {"fine": fine, "coarse": lay(source.image, COARSE), "depth": lay(depth, DEPTH_SCALE)}
    facts = {"width": used / canvas_width, "has_depth": source.depth is not None, "brightness": bright}
    return canvases, facts | _find_sky(source)


def _find_sky(source: ClearImage) -> dict[str, Any]:
    """An image's sky: its mean colour, and two rows as shares of the height."""
    sky = np.zeros((1, 1), bool) if source.depth is None else source.depth > SKY_LEVEL
    if sky.mean() < MIN_SKY:
        return {"sky": [0.0] * 3, "skyline": 0.0, "open_sky": 0.0}
    small = cv2.resize(source.image, sky.shape[::-1], interpolation=cv2.INTER_AREA)
    colour = small[sky].mean(axis=0, dtype=np.float32) / 255
    rows = sky.mean(axis=1)
    lowest, blocked = int(np.flatnonzero(rows > 0.01).max()) + 1, np.flatnonzero(rows < 0.98)
    open_rows = int(blocked[0]) if blocked.size else len(rows)
    return {"sky": colour.tolist(), "skyline": lowest / len(rows), "open_sky": open_rows / len(rows)}
