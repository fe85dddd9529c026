"""Render training images with exact depth into folders, so that a recipe can run again without rendering.

python research/render_images.py scenes|rooms -o FOLDER --depth DEPTHS --count 120 [--first 0] [--seed 1000]

Writes FOLDER/<name>.webp and DEPTHS/<FOLDER's name>__<name>.png (8 bit, 180 lines, 0 near to 255 far), as the trainer
reads them. Images that exist are kept: a run can be resumed, and --first splits the work between machines.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np
import torch
from rooms import render_room

from libranet.atomic import atomic_file
from libranet.errors import InputError, LibraNetError
from libranet.training.image_bank import ASPECT, ClearImage, normalise_depth, render_scenes

DEPTH_LINES = 180
FARTHEST_WALL = 235
"""Depth of the farthest parts of a room: training takes 250 and more for sky, and a far wall is not sky."""


@dataclass(frozen=True)
class Job:
    """One image to render."""

    draw: Callable[[int, int, int], ClearImage]
    number: int
    seed: int
    lines: int
    quality: int
    image: Path
    depth: Path


def draw_scene(number: int, seed: int, lines: int) -> ClearImage:
    (image,) = render_scenes(1, 1, seed=seed, lines=lines, device=torch.device("cpu"), first=number)
    return image


def draw_room(number: int, seed: int, lines: int) -> ClearImage:
    room = render_room(seed + number, width=round(lines * ASPECT), height=lines)
    image = (room.image * 255).round().byte().permute(1, 2, 0).numpy()
    depth = normalise_depth(room.depth.numpy(), farthest=FARTHEST_WALL)
    return ClearImage(f"room-{number}", image, depth)


KINDS = {"scenes": (draw_scene, "scene-{}-0"), "rooms": (draw_room, "room-{}")}


def render(job: Job) -> None:
    """Render and write one image. Its depth is written first, so that an image on disk is always complete."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    image = job.draw(job.number, job.seed, job.lines)
    assert image.depth is not None  # every rendered image has it
    depth = cv2.resize(image.depth, (round(DEPTH_LINES * ASPECT), DEPTH_LINES), interpolation=cv2.INTER_AREA)
    write(job.depth, ".png", depth, [cv2.IMWRITE_PNG_COMPRESSION, 9])
    write(job.image, ".webp", image.image[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, job.quality])


def write(path: Path, ending: str, image: np.ndarray, options: list[int]) -> None:
    _, data = cv2.imencode(ending, image, options)
    with atomic_file(path) as temporary:
        temporary.write_bytes(data.tobytes())


def render_all(jobs: list[Job], workers: int) -> Iterator[None]:
    """Render all jobs; yields once per finished image."""
    if workers == 1:
        yield from map(render, jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(render, jobs)


def run(options: argparse.Namespace) -> int:
    """Render the missing images; returns their number."""
    for name, least in (("count", 1), ("first", 0), ("seed", 0), ("workers", 1), ("lines", 16)):
        if getattr(options, name) < least:
            raise InputError(f"--{name} must be at least {least}, got {getattr(options, name)}")
    if not 1 <= options.quality <= 100:
        raise InputError(f"--quality must be from 1 to 100, got {options.quality}")
    draw, name = KINDS[options.kind]
    folder, depths = options.out.resolve(), options.depth.resolve()
    for path in (folder, depths):
        path.mkdir(parents=True, exist_ok=True)
    jobs = []
    for number in range(options.first, options.first + options.count):
        stem = name.format(number)
        image, depth = folder / f"{stem}.webp", depths / f"{folder.name}__{stem}.png"
        if not (image.is_file() and depth.is_file()):
            jobs.append(Job(draw, number, options.seed, options.lines, options.quality, image, depth))
    start = time.monotonic()
    for done, _ in enumerate(render_all(jobs, options.workers), start=1):
        left = (time.monotonic() - start) / done * (len(jobs) - done)
        print(f"\r{done}/{len(jobs)} {options.kind}, {left:.0f} s left ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return len(jobs)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for the images")
    parser.add_argument("--depth", type=Path, required=True, help="folder for their depth maps")
    parser.add_argument("--first", type=int, default=0, help="number of the first image (default: 0)")
    parser.add_argument("--count", type=int, required=True, help="number of images")
    parser.add_argument("--seed", type=int, default=1000, help="added to an image's number (default: 1000)")
    parser.add_argument("--lines", type=int, default=720, help="height in pixels (default: 720)")
    parser.add_argument("--quality", type=int, default=80, help="WebP quality, 1 to 100 (default: 80)")
    parser.add_argument("--workers", type=int, default=1, help="number of processes (default: 1)")
    options = parser.parse_args(arguments)
    try:
        made = run(options)
    except (LibraNetError, OSError) as error:
        sentence = error.sentence if isinstance(error, LibraNetError) else error
        print(f"render_images: {sentence}", file=sys.stderr)
        return 2
    print(f"{made} {options.kind} rendered to {options.out}, {options.count - made} existed already")
    return 0


if __name__ == "__main__":
    sys.exit(main())
