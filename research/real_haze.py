"""Real haze before and after: sheets of the data pack's hazy photos and clips, the clips as strips over time.

python research/real_haze.py PACK -o FOLDER [--before OLD.safetensors] [--lines 360] [--docs docs/images]

FOLDER/photos.jpg and clips.jpg show all of PACK/hazy_photos and PACK/hazy_clips; they are for looking, not for
publishing. With --docs, real-haze.jpg and clips-over-time.svg of docs/real-haze.md are made again: the photos whose
source states a licence for them and the package's own clip; of the pack's clips, which have no licence, only curves.
The numbers of that page's tables are printed.
"""

import argparse
from pathlib import Path

import cv2
import matplotlib.pyplot as plt
import numpy as np

from libranet.engine import DehazeOptions, load_network
from libranet.engine.image_files import restore_images
from libranet.images import Image
from libranet.network import Network
from libranet.page import example_path

LICENSED = ("iei_road", "iei_rocks", "dvd_city")
"""IEI2019 is MIT, DVD is Apache-2.0; photos that their repositories took from the web have no licence of their own."""
MOMENTS = 5
"""Frames of each clip that a strip shows."""
WIDTH = 1500
"""Of every sheet."""
STYLES = ("k:", "C1--", "C0-")
"""Of the input, the earlier and the present weights; without earlier ones the second is of the present."""
LUMA = np.array([0.299, 0.587, 0.114])

Frames = list[np.ndarray]
"""Each [H, W, 3], RGB, uint8."""


def main(arguments: list[str] | None = None) -> None:
    """Restore everything, draw the sheets, print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pack", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--before", help="earlier weights, shown between the input and those of the package")
    parser.add_argument("--lines", type=int, default=360, help="of the clips' shorter side")
    parser.add_argument("--docs", type=Path, help="folder of the images that may be shown")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    current = load_network(device="cpu")
    loaded = [load_network(options.before, device="cpu"), current] if options.before else [current]
    networks = {network.weights.version: network for network in loaded}

    photos = {}
    for path in sorted((options.pack / "hazy_photos").glob("*.jpg")):
        hazy = cv2.imread(str(path))[..., ::-1].copy()
        photos[path.stem] = all_versions([hazy], networks, rate=25.0)
        print_numbers(path.stem, photos[path.stem])
    rows = [
        [labelled(frames[0], WIDTH // 3, f"{name}: {version}") for version, frames in versions.items()]
        for name, versions in photos.items()
    ]
    write_sheet(rows, options.out / "photos.jpg")

    rows, curves = [], {}
    for path in sorted((options.pack / "hazy_clips").glob("*.mp4")):
        frames, rate = read_clip(path, options.lines)
        versions = all_versions(frames, networks, rate=rate)
        print_numbers(path.stem, versions)
        rows += strips(path.stem, versions)
        curves[path.stem] = (rate, {version: [brightness(f) for f in done] for version, done in versions.items()})
    write_sheet(rows, options.out / "clips.jpg")

    if options.docs is not None:
        example, rate = read_clip(example_path(), 540)
        shown = all_versions(example, {current.weights.version: current}, rate=rate)
        pairs = [list(photos[name].values()) for name in LICENSED]
        tiles = [[labelled(middle(pair[at][0]), WIDTH // 3, "") for pair in pairs] for at in (0, -1)]
        write_sheet([*tiles, *strips("", shown)], options.docs / "real-haze.jpg")
        draw_curves(curves, options.docs / "clips-over-time.svg")


def read_clip(path: Path, lines: int) -> tuple[Frames, float]:
    """Read all frames of a clip with so many pixels on the shorter side, and their rate."""
    capture = cv2.VideoCapture(str(path))
    frames = []
    while (found := capture.read())[0]:
        scale = lines / min(found[1].shape[:2])
        width, height = (round(length * scale / 2) * 2 for length in found[1].shape[1::-1])
        frames.append(cv2.resize(found[1], (width, height), interpolation=cv2.INTER_AREA)[..., ::-1].copy())
    if not frames:
        raise SystemExit(f"cannot read {path} as a video: check the folder")
    return frames, capture.get(cv2.CAP_PROP_FPS)


def all_versions(frames: Frames, networks: dict[str, Network], *, rate: float) -> dict[str, Frames]:
    """The frames as they are and as `libranet dehaze` restores them with each network."""
    versions = {"hazy": frames}
    for name, network in networks.items():
        given = [(Image(frame), index / rate) for index, frame in enumerate(frames)]
        versions[name] = [image.samples for image, _ in restore_images(given, network, DehazeOptions(), rate=rate)]
    return versions


def strips(name: str, versions: dict[str, Frames]) -> list[list[np.ndarray]]:
    """One row of tiles for each version, evenly spread over the clip."""
    rows = []
    for version, frames in versions.items():
        at = np.linspace(0, len(frames) - 1, MOMENTS).round().astype(int)
        texts = [f"{name}: {version}" if name and not place else "" for place in range(MOMENTS)]
        rows.append([labelled(frames[i], WIDTH // MOMENTS, text) for i, text in zip(at, texts, strict=True)])
    return rows


def middle(image: np.ndarray) -> np.ndarray:
    """Cut the middle of the shape 4:3 out of an image at most that wide."""
    height = image.shape[1] * 3 // 4
    top = (image.shape[0] - height) // 2
    return image[top : top + height]


def labelled(image: np.ndarray, width: int, text: str) -> np.ndarray:
    """Bring an image to a width, or to half of it where it is upright, and write on it."""
    scale = width / image.shape[1] / (2 if image.shape[0] > image.shape[1] else 1)
    small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    if text:
        cv2.rectangle(small, (0, 0), (9 * len(text), 22), (0, 0, 0), cv2.FILLED)
        cv2.putText(small, text, (6, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 255), 1, cv2.LINE_AA)
    return small


def write_sheet(rows: list[list[np.ndarray]], path: Path) -> None:
    """Write rows of tiles as one JPEG."""
    wide = [np.hstack(row)[:, :WIDTH] for row in rows]
    sheet = np.vstack([np.pad(row, ((0, 0), (0, WIDTH - row.shape[1]), (0, 0)), constant_values=255) for row in wide])
    cv2.imwrite(str(path), sheet[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 82])
    print(f"{path}: {sheet.shape[1]}x{sheet.shape[0]}", flush=True)


def brightness(frame: np.ndarray) -> float:
    """Mean luma, of 255."""
    return float((frame @ LUMA).mean())


def print_numbers(name: str, versions: dict[str, Frames]) -> None:
    """Mean, range of the mean over time, standard deviation of luma, and mean colour against grey."""
    cells = [name]
    for frames in versions.values():
        means = [brightness(frame) for frame in frames]
        contrast = np.mean([(frame @ LUMA).std() for frame in frames])
        red, green, blue = np.mean([frame.mean((0, 1)) for frame in frames], axis=0)
        cast = f"{red - green:+.0f} {blue - green:+.0f}"
        cells.append(f"{np.mean(means):.0f}, {np.ptp(means):.1f}, {contrast:.1f}, {cast}")
    print("| " + " | ".join(cells) + " |", flush=True)


def draw_curves(curves: dict[str, tuple[float, dict[str, list[float]]]], path: Path) -> None:
    """Draw the mean brightness of every clip over time, before and after."""
    figure, places = plt.subplots(3, 4, figsize=(11, 6.2), sharey=True)
    flat = places.flatten()
    for axes, (name, (rate, lines)) in zip(flat, curves.items(), strict=False):
        for (version, values), style in zip(lines.items(), STYLES, strict=False):
            axes.plot(np.arange(len(values)) / rate, values, style, label=version)
        axes.set_title(name, fontsize=9)
        axes.set_ylim(0, 255)
    for axes in flat[len(curves) :]:
        axes.axis("off")
    figure.legend(*flat[0].get_legend_handles_labels(), loc="lower right", bbox_to_anchor=(0.95, 0.12))
    figure.supxlabel("seconds", fontsize=9)
    figure.supylabel("mean brightness, of 255", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
