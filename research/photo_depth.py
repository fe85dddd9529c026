"""Depth maps and sky masks for the training photos, made from the geometry written down in research/photo-geometry.txt.

python research/photo_depth.py --photos PHOTOS --out DIR [train_4k/some_photo ...]

Writes DIR/maps/<folder>__<stem>.png (8 bit, 360 lines, 0 near to 255 far, sky 255) and DIR/sky/<same>.png (0 or 255).
No depth network: a ground plane, lines where things touch the ground, outlines of objects, GrabCut for the sky.
"""

import argparse
import sys
from pathlib import Path

import cv2
import numpy as np
from photo_geometry import FOLDERS, Array, Outline, PhotoGeometryError, Scene, read_geometry

from libranet.atomic import atomic_file

PHOTO_ENDINGS = {".jpg", ".jpeg", ".png", ".webp"}
GEOMETRY = Path(__file__).with_name("photo-geometry.txt")
WORKING_LINES, SKY_LINES, MAP_LINES = 480, 300, 360
FARTHEST_GROUND, FAR_LAYER = 0.97, 0.95


def row_per_column(line: Array, width: int, height: int) -> Array:
    """The row [width], in pixels, of a line across the photo."""
    return np.interp(np.arange(width) / (width - 1) * 100, line[:, 0], line[:, 1]) / 100 * height


def filled(outline: Outline, width: int, height: int) -> Array:
    """The inside of an outline as a mask [height, width]."""
    mask = np.zeros((height, width), np.uint8)
    corners = np.round(outline.points / 100 * [width - 1, height - 1]).astype(np.int32)
    return cv2.fillPoly(mask, [corners], 1) > 0


def lowest_sky_rows(scene: Scene, width: int, height: int) -> Array:
    """Per column [width], the row under which nothing can be sky."""
    lowest = scene.skylimit
    if lowest is None:
        lowest = max(scene.horizon, scene.contact[:, 1].max() if scene.contact is not None else 0) + 2
    rows = np.full(width, height * lowest / 100)
    if scene.contact is not None:
        rows = np.minimum(rows, row_per_column(scene.contact, width, height) + 1)
    if scene.skyline is not None:
        rows = np.maximum(rows, row_per_column(scene.skyline, width, height) + 0.04 * height)
    return rows


def seeds_from_skyline(scene: Scene, skyline: Array, width: int, height: int) -> Array:
    """GrabCut's start around a hand-drawn skyline: free inside a narrow band, fixed elsewhere, objects doubtful."""
    row = np.arange(height)[:, None]
    border, band = row_per_column(skyline, width, height), height * 0.035
    guess = np.where(row < border, cv2.GC_PR_FGD, cv2.GC_PR_BGD)
    seeds = np.where(row < border - band, cv2.GC_FGD, np.where(row > border + band, cv2.GC_BGD, guess)).astype(np.uint8)
    for outline in scene.objects:
        seeds[filled(outline, width, height) & (seeds == cv2.GC_FGD)] = cv2.GC_PR_BGD
    return seeds


def seeds_from_colour(photo: Array, possible: Array, lowest: float) -> Array:
    """GrabCut's start without a skyline: bright, blue, smooth and high up speaks for sky."""
    height = len(photo)
    row = np.arange(height)[:, None]
    lab = cv2.cvtColor(photo, cv2.COLOR_BGR2LAB).astype(np.float32)
    light, blue = lab[..., 0] / 255, (128 - lab[..., 2]) / 40
    detail = np.abs(lab[..., 0] - cv2.GaussianBlur(lab[..., 0], (0, 0), 2))
    texture = cv2.GaussianBlur(detail, (0, 0), 2)
    ground = ~possible
    ground_light = np.median(light[ground]) if ground.sum() > 500 else np.percentile(light, 25)
    score = 2.5 * (light - ground_light - 0.12) / 0.25 + 1.2 * np.clip(blue, -0.5, 1.5) - texture / 3
    score = np.clip(score + 1.2 * (1 - row / max(1, lowest) * 1.6), -6, 6)
    guess = np.where(score > 0, cv2.GC_PR_FGD, cv2.GC_PR_BGD)
    seeds = np.where(possible, guess, cv2.GC_BGD).astype(np.uint8)
    seeds[(score > 2.5) & possible & (row < 0.12 * height) & (texture < 4)] = cv2.GC_FGD
    if (seeds == cv2.GC_BGD).sum() < 200:
        seeds[-3:] = cv2.GC_BGD
    return seeds


def clean_sky(sky: Array, lowest: float, *, fill_holes: bool) -> Array:
    """Keep the parts that touch the top or are large and high; fill small holes that do not reach the ground."""
    height, area = len(sky), sky.size
    _, labels, parts, _ = cv2.connectedComponentsWithStats(sky.astype(np.uint8), connectivity=8)
    top, size = parts[:, cv2.CC_STAT_TOP], parts[:, cv2.CC_STAT_AREA]
    keep = ((top <= max(2, 0.02 * height)) & (size > 80)) | ((size > 0.01 * area) & (top < 0.5 * lowest))
    keep[0] = False  # label 0 is what is not sky
    sky = keep[labels]
    if fill_holes:
        _, labels, parts, _ = cv2.connectedComponentsWithStats((~sky).astype(np.uint8), connectivity=4)
        bottom = parts[:, cv2.CC_STAT_TOP] + parts[:, cv2.CC_STAT_HEIGHT]
        hole = (bottom < 0.9 * lowest) & (parts[:, cv2.CC_STAT_AREA] < 0.004 * area)
        hole[0] = False
        sky = sky | hole[labels]
    return sky


def find_sky(photo: Array, scene: Scene) -> Array:
    """The sky of a photo [H, W, 3] (8 bit BGR) as a mask [H, W]."""
    height, width = photo.shape[:2]
    nothing = np.zeros((height, width), bool)
    if not scene.has_sky:
        return nothing
    small = shrink(photo, SKY_LINES)
    h, w = small.shape[:2]
    limits = lowest_sky_rows(scene, w, h)
    possible = np.arange(h)[:, None] < limits
    if scene.skyline is not None:
        seeds = seeds_from_skyline(scene, scene.skyline, w, h)
    else:
        seeds = seeds_from_colour(small, possible, limits.max())
        if is_foreground(seeds).sum() < 200:
            return nothing
    if is_foreground(seeds).any() and not is_foreground(seeds).all():
        cv2.setRNGSeed(scene.seed)  # GrabCut clusters colours from a random start: same photo, same mask
        cv2.grabCut(small, seeds, (0, 0, 1, 1), np.zeros((1, 65)), np.zeros((1, 65)), 4, cv2.GC_INIT_WITH_MASK)
    sky = clean_sky(is_foreground(seeds) & possible, limits.max(), fill_holes=scene.skyline is None).astype(np.uint8)
    large = cv2.resize(sky.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
    nearby = cv2.resize(cv2.dilate(sky, np.ones((7, 7))), (width, height)) > 0
    return nearby & (cv2.ximgproc.guidedFilter(photo, large, 6, 40.0) > 0.5)


def is_foreground(seeds: Array) -> Array:
    return (seeds == cv2.GC_FGD) | (seeds == cv2.GC_PR_FGD)


def superpixels(photo: Array) -> Array:
    """Labels [H, W] of small regions that follow the photo's edges."""
    lab = cv2.cvtColor(photo, cv2.COLOR_BGR2LAB)
    slic = cv2.ximgproc.createSuperpixelSLIC(lab, cv2.ximgproc.SLICO, max(10, min(photo.shape[:2]) // 30))
    slic.iterate(6)
    slic.enforceLabelConnectivity(20)
    return slic.getLabels()


def snap(mask: Array, labels: Array) -> Array:
    """The superpixels that lie in the mask by more than half."""
    inside = np.bincount(labels.ravel(), mask.ravel().astype(float))
    return (inside / np.maximum(np.bincount(labels.ravel()), 1) > 0.5)[labels]


def raw_depth(photo: Array, scene: Scene) -> Array:
    """Depth [H, W] of ground, standing things, far layers and objects, before smoothing and without the sky."""
    height, width = photo.shape[:2]
    horizon = scene.horizon / 100 * height
    row = np.broadcast_to(np.arange(height, dtype=np.float32)[:, None], (height, width))
    labels = superpixels(photo)

    def ground(at: Array | float) -> Array:
        disparity = (at - horizon) / (height - 1 - horizon)
        return scene.near + (1 - scene.near) * np.clip(1 - disparity, 0, FARTHEST_GROUND)

    depth = ground(row)
    if scene.contact is not None:
        contact = row_per_column(scene.contact, width, height)[None]
        depth = np.where(snap(row < contact, labels), ground(contact), depth)
        depth = np.where(row > contact + 0.04 * height, ground(row), depth)  # no superpixel reaches far below the line
    if scene.far is not None:
        above = snap(row < row_per_column(scene.far, width, height), labels)
        depth = np.where(above, np.maximum(depth, scene.near + (1 - scene.near) * FAR_LAYER), depth)
    for outline in scene.objects:
        value = ground(outline.place / 100 * height) if outline.stands else outline.place
        depth = np.where(snap(filled(outline, width, height), labels), value, depth)
    return depth.astype(np.float32)


def spread_under(sky: Array, depth: Array) -> Array:
    """Give sky pixels the depth of the nearest other pixel, so that a filter does not mix the sky in."""
    if not sky.any() or sky.all():
        return depth
    _, nearest = cv2.distanceTransformWithLabels(sky.astype(np.uint8), cv2.DIST_L2, 3, labelType=cv2.DIST_LABEL_PIXEL)
    table = np.zeros(nearest.max() + 1, np.float32)
    table[nearest[~sky]] = depth[~sky]
    return table[nearest]


def depth_and_sky(photo: Array, scene: Scene) -> tuple[Array, Array]:
    """The map and the mask, both 8 bit [360, W'], of a photo [H, W, 3] (8 bit BGR, working size)."""
    sky = find_sky(photo, scene)
    depth = spread_under(sky, raw_depth(photo, scene))
    depth = np.clip(cv2.ximgproc.guidedFilter(photo, depth, 10, 150.0), 0, 1)
    depth[sky] = 1
    size = (round(photo.shape[1] * MAP_LINES / photo.shape[0]), MAP_LINES)
    mask = cv2.resize(sky.astype(np.float32), size, interpolation=cv2.INTER_AREA) > 0.5
    depth = cv2.resize(depth, size, interpolation=cv2.INTER_AREA)
    depth[mask] = 1
    return np.round(depth * 255).astype(np.uint8), mask.astype(np.uint8) * 255


def shrink(photo: Array, lines: int) -> Array:
    """The photo with its shorter side resized to so many pixels."""
    height, width = photo.shape[:2]
    scale = lines / min(height, width)
    return cv2.resize(photo, (round(width * scale), round(height * scale)), interpolation=cv2.INTER_AREA)


def read_photo(path: Path) -> Array:
    """A photo at working size, [H, W, 3] 8 bit BGR with 480 pixels on the shorter side."""
    half = cv2.IMREAD_REDUCED_COLOR_2 if path.parent.name.endswith("_4k") else cv2.IMREAD_COLOR
    photo = cv2.imread(str(path), half)
    if photo is None:
        raise PhotoGeometryError(f"cannot read {path} as an image; remove it or replace it.")
    return shrink(photo, WORKING_LINES)


def find_photos(root: Path, names: list[str]) -> dict[str, Path]:
    """The photos under the known folders by `<folder>/<stem>`; with names, these alone."""
    files = [path for folder in FOLDERS for path in sorted((root / folder).glob("*"))]
    photos = {f"{path.parent.name}/{path.stem}": path for path in files if path.suffix.lower() in PHOTO_ENDINGS}
    if not photos:
        raise PhotoGeometryError(f"expected photos in {', '.join(FOLDERS)} under {root}, found none.")
    missing = [name for name in names if name not in photos]
    if missing:
        raise PhotoGeometryError(f"no photo named {missing[0]} under {root}; names look like {next(iter(photos))}.")
    return {name: photos[name] for name in names} if names else photos


def write_png(path: Path, image: Array) -> None:
    """Write the whole file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _, data = cv2.imencode(".png", image, [cv2.IMWRITE_PNG_COMPRESSION, 9])
    with atomic_file(path) as partial:
        partial.write_bytes(data.tobytes())


def build(photos: dict[str, Path], scenes: dict[str, Scene], out: Path) -> tuple[int, int]:
    """Write map and mask of every annotated photo; return how many were written and how many skipped."""
    annotated = [name for name in photos if name in scenes]
    for number, name in enumerate(annotated, start=1):
        print(f"\r{number}/{len(annotated)} {name:<60.60}", end="", file=sys.stderr, flush=True)
        depth, sky = depth_and_sky(read_photo(photos[name]), scenes[name])
        file_name = name.replace("/", "__") + ".png"
        write_png(out / "maps" / file_name, depth)
        write_png(out / "sky" / file_name, sky)
    print(file=sys.stderr)
    return len(annotated), len(photos) - len(annotated)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path, required=True, help=f"folder that holds {', '.join(FOLDERS)}")
    parser.add_argument("--out", type=Path, required=True, help="folder for maps/ and sky/")
    parser.add_argument("--geometry", type=Path, default=GEOMETRY, help="default: research/photo-geometry.txt")
    parser.add_argument("names", nargs="*", help="<folder>/<stem> of single photos (default: all)")
    options = parser.parse_args(arguments)
    try:
        scenes = read_geometry(options.geometry)
        written, skipped = build(find_photos(options.photos, options.names), scenes, options.out)
    except (PhotoGeometryError, OSError) as error:
        print(f"photo_depth: {error}", file=sys.stderr)
        return 2
    print(f"{written} maps and masks in {options.out}; {skipped} photos without annotation skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
