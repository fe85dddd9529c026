"""Figures of external validity, with the shipped weights and no GPU: several methods on real haze and a test clip.

python research/external_figures.py bars HAZY_CLIPS      NIQE and BRISQUE relative to the hazy clips, with their values
python research/external_figures.py boxes HAZY_PHOTOS    what YOLOv8s finds in a photo whose licence allows showing it
python research/external_figures.py strip                eight frames of the package's clip of real fog
python research/external_figures.py heat TEST_PHOTOS     change between two frames of a clip of the open set

Each writes docs/images/external-NAME.jpg (-o names another folder). The folders are hazy_clips and hazy_photos of the
data pack, and data/paper/test (research/pack_open_set.py). Run `libranet weights pull` for niqe-matlab, brisque and
yolov8s first.
"""

import argparse
import tempfile
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import torch
from matplotlib import colormaps

from libranet.data.frames import RgbImage, read_rgb
from libranet.evaluation.clips import EvalClip, open_dataset, to_array
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.restorers import open_restorer
from libranet.evaluation.results import ResultStore
from libranet.evaluation.runner import evaluate
from libranet.evaluation.scores import prepare_scores
from libranet.evaluation.summary import estimate, summarise_clip
from libranet.lab.analysis.heatmap import frame_change
from libranet.lab.analysis.plotting import new_figure
from libranet.lab.held_back import plan_open_set, write_held_back_clips
from libranet.lab.perception.detectors import open_detector
from libranet.lab.perception.objects import COCO_CLASSES

ROOT = Path(__file__).parents[1]
METHODS = {"hazy": "identity", "CLAHE": "clahe", "dark channel": "dcp", "LiBrA-Net": "libranet"}
COLOURS = {"CLAHE": "#6b7078", "dark channel": "#d08a2e", "LiBrA-Net": "#3b6fb6"}
PHOTO, PART = "iei_road", (0.35, 0.8, 0.3, 0.8)  # of IEI2019, MIT; rows and columns that are shown
BARS_FRAMES = 3  # of each clip
FRAMES, APART = 8, 6  # of the strip, and how many frames of the clip lie between them
HEAT_CLIP, HEAT_SIZE = "0090-ky_ordinary_road", (1280, 720)
WIDTH = 320  # of a tile
GAP = 4


def restore(clip: EvalClip, method: str, frames: int) -> list[RgbImage]:
    """The first frames of a clip as a method restores them."""
    source = clip.open()
    taken = islice(clip.read(source, device="cpu"), frames + 2)  # windows look two frames ahead
    return [to_array(image) for image in islice(open_restorer(METHODS[method]).restore(source, taken), frames)]


def bars(folder: Path) -> RgbImage:
    """NIQE and BRISQUE of every method, in percent of the hazy clip's; lower is better."""
    clips = open_dataset(folder)
    rows = [open_restorer(f"{name.replace(' ', '-')}={spec}") for name, spec in METHODS.items()]
    scores = prepare_scores(choose_metrics("niqe,brisque"), paired=False)
    with tempfile.TemporaryDirectory() as work:
        results = evaluate(
            clips, rows, scores, ResultStore(Path(work)), subject="LiBrA-Net", limit_frames=BARS_FRAMES, panels=False
        )
    found = {(s.model, s.clip): s.values for s in map(summarise_clip, results)}
    figure = new_figure(7.2, 2.6)
    for place, metric in zip(figure.subplots(1, 2), ("niqe", "brisque"), strict=True):
        for index, row in enumerate(rows):
            values = [found[row.name, clip.name][metric] for clip in clips]
            hazy = [found["hazy", clip.name][metric] for clip in clips]
            change = estimate([100 * (value / before - 1) for value, before in zip(values, hazy, strict=True)])
            print(
                f"{metric} {row.name}: {estimate(values).mean:.2f}, {change.mean:+.1f} ± {change.half_width or 0:.1f} %"
            )
            if index:
                name = row.name.replace("-", " ") if row.name != "LiBrA-Net" else row.name
                place.bar(name, change.mean, yerr=change.half_width, color=COLOURS[name], width=0.6, capsize=3)
        place.axhline(0, color="black", linewidth=0.8)
        place.set(title=metric.upper(), ylabel="change to hazy (%)")
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3]  # type: ignore[attr-defined]


def boxes(folder: Path) -> RgbImage:
    """Boxes of vehicles and people in a photo, with how sure the detector is."""
    photo, detector = read_rgb(folder / f"{PHOTO}.jpg"), open_detector(Path("yolov8s"))
    with tempfile.TemporaryDirectory() as work:
        cv2.imwrite(f"{work}/hazy.png", photo[..., ::-1])
        (clip,) = open_dataset(Path(work))
        restored = {method: restore(clip, method, 1)[0].copy() for method in METHODS}
    tiles = []
    for method, image in restored.items():
        found, sure, classes = detector.detect(torch.from_numpy(image).permute(2, 0, 1).float() / 255)
        kept = [index for index, kind in enumerate(classes.tolist()) if int(kind) in COCO_CLASSES.values()]
        for index in kept:
            left, top, right, bottom = map(round, found[index].tolist())
            cv2.rectangle(image, (left, top), (right, bottom), (255, 200, 0), 2)
            place = (left, top - 6 - 18 * (index % 2))  # those of neighbours do not cover each other
            cv2.putText(image, f"{sure[index]:.2f}", place, 0, 0.6, (255, 200, 0), 2, cv2.LINE_AA)
        names = {number: name for name, number in COCO_CLASSES.items()}
        print(f"{method}: {', '.join(f'{names[int(classes[i])]} {sure[i]:.2f}' for i in kept)}")
        top, bottom, left, right = (
            round(x * side) for x, side in zip(PART, (*[len(image)] * 2, *[image.shape[1]] * 2), strict=True)
        )
        tiles.append(labelled(fit(image[top:bottom, left:right], 400, 300), method))
    return joined(tiles, axis=1)


def strip() -> RgbImage:
    """Eight frames of the package's clip, a row per method."""
    (clip,) = open_dataset(ROOT / "src" / "libranet" / "page" / "foggy.mp4")
    count = min(FRAMES * APART, len(clip))
    rows = []
    for method in METHODS:
        shown = restore(clip, method, count)[:: max(1, count // FRAMES)][:FRAMES]
        tiles = [fit(image, WIDTH // 2, WIDTH * 9 // 32) for image in shown]
        rows.append(joined([labelled(tiles[0], method), *tiles[1:]], axis=1))
    return joined(rows, axis=0)


def heat(photos: Path) -> RgbImage:
    """A frame, the restored frames, and how much each changes to the next one."""
    planned = [clip for clip in plan_open_set(photos, size=HEAT_SIZE) if clip.name == HEAT_CLIP]
    with tempfile.TemporaryDirectory() as work:
        write_held_back_clips(Path(work), planned, frames=4)
        (clip,) = open_dataset(Path(work))
        assert clip.clear is not None
        frames = {method: restore(clip, method, 2) for method in METHODS}
        frames["clear"] = [np.asarray(clip.clear.read(index)) for index in range(2)]
    changes = {name: frame_change(*(image / np.float32(255) for image in pair[::-1])) for name, pair in frames.items()}
    top = float(np.percentile(changes["clear"], 99.5))
    columns = []
    for name, (_, image) in frames.items():
        print(f"{name}: mean change {changes[name].mean():.4f}")
        drawn = (colormaps["magma"](np.clip(changes[name] / top, 0, 1))[..., :3] * 255).astype(np.uint8)
        tiles = [labelled(fit(image, WIDTH, WIDTH * 9 // 16), name), fit(drawn, WIDTH, WIDTH * 9 // 16)]
        columns.append(joined(tiles, axis=0))
    return joined(columns, axis=1)


def fit(image: RgbImage, width: int, height: int) -> RgbImage:
    """Reduce an image to cover a tile, and cut its middle out."""
    scale = max(width / image.shape[1], height / image.shape[0])
    size = (max(round(image.shape[1] * scale), width), max(round(image.shape[0] * scale), height))
    small = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
    top, left = (small.shape[0] - height) // 2, (small.shape[1] - width) // 2
    return small[top : top + height, left : left + width]


def labelled(tile: RgbImage, text: str) -> RgbImage:
    tile = np.ascontiguousarray(tile)
    for colour, thick in (((0, 0, 0), 3), ((255, 255, 255), 1)):
        cv2.putText(tile, text, (6, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.5, colour, thick, cv2.LINE_AA)
    return tile


def joined(tiles: list[RgbImage], axis: int) -> RgbImage:
    """Tiles in a row or column with white between them."""
    shape = list(tiles[0].shape)
    shape[axis] = GAP
    white = np.full(shape, 255, np.uint8)
    return np.concatenate([part for tile in tiles for part in (white, tile)][1:], axis=axis)


def main() -> None:
    """Draw one figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=("bars", "boxes", "strip", "heat"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    draw = {"bars": bars, "boxes": boxes, "heat": heat}
    image = strip() if options.figure == "strip" else draw[options.figure](options.folder)
    path = options.output / f"external-{options.figure}.jpg"
    cv2.imwrite(str(path), np.ascontiguousarray(image[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, 82])
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
