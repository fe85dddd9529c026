"""Brings the data of recipes/libranet-base.toml to the size that training uses, in one folder.

python research/prepare_base.py --photos DIR [DIR ...] --rooms DIR --depth MAPS [--density DIR] [--pairs DIR]
    [--vgg FILE] -o OUT

--photos    folders of folders of clear photos; every folder whose name begins with train_ is taken
--rooms     rendered rooms (research/render_images.py)
--depth     depth maps of both (research/photo_depth.py, research/render_images.py)
--density   grey density maps of haze
--pairs     hazy/NAME and clear/NAME: the first of every four is looked at during training; nothing is trained on it
--vgg       VGG-16 (libranet weights pull lpips-vgg16), of which the perceptual term needs three blocks

Files that are there already are kept.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import safetensors.torch

from libranet.atomic import write_atomically
from libranet.errors import InputError, LibraNetError

PHOTO_LINES, DEPTH_LINES, DENSITY_LINES = 720, 180, 64
PHOTO_QUALITY = 66
ENDINGS = {".jpg", ".jpeg", ".png", ".webp"}
INFERRED_LICENCE = "mw_"
"""Photos of the data pack whose licence is only inferred from their names: new weights do not learn from them."""
LOOKED_AT = 4
"""One pair in so many is looked at during training."""
VGG_LAYERS = (0, 2, 5, 7, 10, 12, 14)
"""Convolutions of VGG-16's first three blocks."""


def images_in(folder: Path) -> list[Path]:
    """The images of a folder, in order."""
    if not folder.is_dir():
        raise InputError(f"no folder at {folder}")
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)


def shrink(source: Path, target: Path, lines: int, options: list[int], *, grey: bool = False) -> None:
    """Write an image with at most so many lines."""
    image = cv2.imread(str(source), cv2.IMREAD_GRAYSCALE if grey else cv2.IMREAD_COLOR)
    if image is None:
        raise InputError(f"cannot read {source} as an image: remove it or replace it")
    height, width = image.shape[:2]
    if height > lines:
        image = cv2.resize(image, (round(width * lines / height), lines), interpolation=cv2.INTER_AREA)
    write(target, image, options)


def write(target: Path, image: np.ndarray, options: list[int]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, cv2.imencode(target.suffix, image, options)[1].tobytes())


def jobs(options: argparse.Namespace) -> Iterator[tuple[Path, Path, int, list[int], bool]]:
    """What has to be written: source, target, lines, how, and whether it is grey."""
    out, webp, png = options.out, [cv2.IMWRITE_WEBP_QUALITY, PHOTO_QUALITY], [cv2.IMWRITE_PNG_COMPRESSION, 9]
    taken = [options.rooms] if options.rooms else []
    for folder in options.photos:
        taken += sorted(part for part in folder.iterdir() if part.is_dir() and part.name.startswith("train_"))
    names = set()
    for folder in taken:
        for path in images_in(folder):
            if path.name.startswith(INFERRED_LICENCE):
                continue
            names.add(f"{folder.name}__{path.stem}")
            yield path, out / folder.name / f"{path.stem}.webp", PHOTO_LINES, webp, False
    for path in images_in(options.depth):
        if path.stem in names:
            yield path, out / "depth" / path.name, DEPTH_LINES, png, True
    for path in images_in(options.density) if options.density else []:
        yield path, out / "density" / f"{path.stem}.png", DENSITY_LINES, png, True


def copy_others(options: argparse.Namespace) -> None:
    """Copy pairs as they are, and the part of VGG-16 that is used, in half precision."""
    for kind in ("hazy", "clear") if options.pairs else ():
        for path in images_in(options.pairs / kind)[::LOOKED_AT]:
            target = options.out / "dev" / kind / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, path.read_bytes())
    if options.vgg:
        weights = safetensors.torch.load_file(options.vgg)
        names = [f"features.{layer}.{part}" for layer in VGG_LAYERS for part in ("weight", "bias")]
        kept = {name: weights[name].half().contiguous() for name in names}
        write_atomically(options.out / "vgg16.safetensors", safetensors.torch.save(kept))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path, nargs="+", required=True)
    for name in ("rooms", "density", "pairs", "vgg"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--depth", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    made = 0
    try:
        for source, target, lines, how, grey in jobs(options):
            if not target.is_file():
                shrink(source, target, lines, how, grey=grey)
                made += 1
                print(f"\r{made} images ", end="", file=sys.stderr, flush=True)
        copy_others(options)
    except (LibraNetError, OSError) as error:
        print(f"prepare_base: {error}", file=sys.stderr)
        return 2
    print(f"{made} images written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
