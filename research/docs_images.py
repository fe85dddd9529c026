"""Make the images of README.md, docs/gallery.md and docs/model-card.md that show results of the base network again.

python research/docs_images.py PACK [-o docs/images]

PACK is the data pack. before-after.jpg is the view with which the clip of the package begins, larger; strengths.jpg and
haze-map.jpg are what the examples write; more-before-after.jpg shows three photos of real fog, and a photo that no
training sees under medium grey haze.
"""

import argparse
import contextlib
import runpy
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from fetch_photos import ARCHIVE
from make_demo_clip import FIRST_VIEW, fetch_photo
from photo_depth import GEOMETRY, depth_and_sky, read_photo
from photo_geometry import read_geometry

from libranet import Dehazer
from libranet.haze.scattering import REGIMES, add_haze, transmission

ROOT = Path(__file__).parents[1]
LARGE = (1200, 675)
TILE = (430, 268)
GAP = 8
FOG = ("iei_road", "iei_rocks", "dvd_city")
COAST, REGIME = "val_4k/mi_skunze_coast", "medium-grey"
EXAMPLES = {"choose_strength.py": ("strengths.png", "strengths.jpg"), "inspect_grids.py": ("haze.png", "haze-map.jpg")}


def main() -> None:
    """Make all four."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pack", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--archive", default=ARCHIVE)
    options = parser.parse_args()
    dehazer = Dehazer(device="cpu")

    left, top, width = (round(value) for value in FIRST_VIEW)
    view = fetch_photo(options.archive)[top : top + width * LARGE[1] // LARGE[0], left : left + width]
    forest = cv2.resize(view, LARGE, interpolation=cv2.INTER_AREA)
    write(options.out / "before-after.jpg", joined([forest, dehazer.image(forest)], axis=1))

    hazy = [read(options.pack / "hazy_photos" / f"{name}.jpg") for name in FOG] + [hazy_coast(options.pack)]
    pairs = [np.hstack([small(image), small(dehazer.image(image))]) for image in hazy]
    rows = [joined(pairs[at : at + 2], axis=1) for at in (0, 2)]
    write(options.out / "more-before-after.jpg", joined(rows, axis=0))

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for script, (made, name) in EXAMPLES.items():
            runpy.run_path(str(ROOT / "examples" / script))
            write(options.out.absolute() / name, read(Path(made)))


def hazy_coast(pack: Path) -> np.ndarray:
    """Put haze over a clear photo with the depth that its geometry gives."""
    path = (pack / "photos" / COAST).with_suffix(".jpg")
    depth, _ = depth_and_sky(read_photo(path), read_geometry(GEOMETRY)[COAST])
    clear = cv2.resize(read(path), (960, 540), interpolation=cv2.INTER_AREA)
    frame = torch.from_numpy(clear).permute(2, 0, 1)[None] / 255
    far = torch.from_numpy(cv2.resize(depth, (960, 540)))[None] / 255
    regime = next(regime for regime in REGIMES if regime.name == REGIME)
    hazy = add_haze(frame, transmission(far, regime.beta), torch.tensor(regime.airlight))
    return np.ascontiguousarray((hazy[0].permute(1, 2, 0) * 255).round().byte().numpy())


def small(image: np.ndarray) -> np.ndarray:
    """The middle of an image in the shape and size of a tile."""
    scale = max(TILE[0] / image.shape[1], TILE[1] / image.shape[0])
    reduced = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    left, top = (reduced.shape[1] - TILE[0]) // 2, (reduced.shape[0] - TILE[1]) // 2
    return reduced[top : top + TILE[1], left : left + TILE[0]]


def joined(images: list[np.ndarray], *, axis: int) -> np.ndarray:
    """Two images with a white gap between them."""
    shape = list(images[0].shape)
    shape[axis] = GAP
    return np.concatenate([images[0], np.full(shape, 255, np.uint8), images[1]], axis=axis)


def read(path: Path) -> np.ndarray:
    """Read an image, RGB."""
    image = cv2.imread(str(path))
    if image is None:
        raise SystemExit(f"cannot read {path} as an image: check the folder")
    return image[..., ::-1].copy()


def write(path: Path, image: np.ndarray) -> None:
    """Write an RGB image as a JPEG."""
    cv2.imwrite(str(path), image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])
    print(f"{path}: {image.shape[1]}x{image.shape[0]}")


if __name__ == "__main__":
    main()
