"""How good weights are on still images, in every kind of haze that the model card names beside its 4K clips.

    PYTHONPATH=src:benchmarks:research python3 benchmarks/stills.py [--pairs FOLDER]
        [--photos FOLDER --depth FOLDER --sky FOLDER] [--rooms 20] [--model CHECKPOINT]

--pairs     hazy/NAME and clear/NAME, as they are; the last two of every five choose no checkpoint and also count alone
--photos    clear photos with depth maps and sky masks, both named `<folder of photos>__PHOTO.png`: all nine regimes
            over the maps and over the depth that `libranet synth --depth prior` draws, and dull, uneven, darker haze
            as on photos of a grey morning
--rooms     rendered rooms that training never saw, in uniform haze of three airlights, two darker than the walls
"in light"  haze mixed into the light, before the camera's tone curve, as in nature; datasets mix stored values

Clear images are tested too: they should stay as they are. Prints, per kind: PSNR of the input and of the restored
image, how much too bright the restored image is on average, and the mean shift of the sky's colour.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.haze.scattering import REGIMES, add_haze, transmission
from libranet.metrics import psnr
from libranet.network import load_model
from libranet.runtime import rgb_frames, rgb_of
from libranet.runtime.plain import PlainBackend
from libranet.synth.depth_estimators import LayoutPrior
from libranet.synth.depth_maps import DepthRange

SMALL, MIDDLE = (480, 270), (640, 360)
MIN_SKY = 0.02
"""Share of the image from which on a sky counts."""
FIRST_ROOM = 9000
"""Seed of the first room; training has those from 5000 to 5109."""
ROOM_LIGHTS = (0.5, 0.65, 0.85)
TONE_CURVE = 2.2
"""Exponent that takes a camera's stored values to light."""
THINNER = 0.7
"""Factor on the optical depth of a grey morning in light, where haze hides more than in stored values."""


@dataclass(frozen=True)
class Still:
    """One hazy image and its clear version."""

    kinds: tuple[str, ...]
    hazy: np.ndarray  # [H, W, 3] float32 in [0, 1], in steps of 1/255
    clear: np.ndarray  # [H, W, 3] float32 in [0, 1]
    sky: np.ndarray | None = None  # [H, W] bool


def read(path: Path, size: tuple[int, int] | None = None) -> np.ndarray:  # [H, W, 3] float32 in [0, 1], RGB
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        sys.exit(f"cannot read {path} as an image: check the folder")
    if size is not None:
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return image[..., ::-1].astype(np.float32) / 255


def hazed(clear: np.ndarray, optical: np.ndarray, airlight: np.ndarray, *, curve: float = 1.0) -> np.ndarray:
    """Add haze with an optical depth per pixel, rounded to bytes as a camera does."""
    frame, depth = torch.from_numpy(clear).permute(2, 0, 1)[None], torch.from_numpy(optical).float()[None]
    hazy = add_haze(frame**curve, transmission(depth, 1.0), torch.from_numpy(airlight).float() ** curve) ** (1 / curve)
    return ((hazy[0] * 255).round() / 255).permute(1, 2, 0).numpy()


def pairs(folder: Path) -> Iterator[Still]:
    for number, hazy in enumerate(sorted((folder / "hazy").iterdir())):
        kinds = ("pairs", "pairs that choose nothing" if number % 5 > 2 else "the other pairs")
        clear = read(folder / "clear" / hazy.name)
        yield Still(kinds, read(hazy), clear)
        yield Still(("pairs, the clear ones",), clear, clear)


def photos(folder: Path, depths: Path, skies: Path) -> Iterator[Still]:
    rng = np.random.default_rng(0)
    for number, path in enumerate(sorted(folder.glob("*.jpg"))):
        name = f"{folder.name}__{path.stem}.png"
        clear = read(path, SMALL)
        sky = cv2.erode(read(skies / name, SMALL)[..., 0], np.ones((9, 9), np.uint8)) > 0.5
        for kind, depth in (("maps", read(depths / name, SMALL)[..., 0]), ("prior", prior_depth(clear, number))):
            for regime in REGIMES:
                kinds = (f"regimes over {kind}", *((f"- {regime.name}",) if kind == "maps" else ()))
                yield Still(kinds, hazed(clear, regime.beta * depth, np.array(regime.airlight)), clear, sky)
        vivid = read(path, MIDDLE)
        for _ in range(3):
            yield from grey_morning(vivid, rng)
        yield Still(("photos, clear",), clear, clear, sky)


def prior_depth(clear: np.ndarray, seed: int) -> np.ndarray:  # [H, W] in [0, 1]
    """Depth as `libranet synth --depth prior` draws and refines it."""
    image = (clear * 255).round().astype(np.uint8)
    prior = LayoutPrior(seed)
    nearness = prior.estimate(image)
    depth = DepthRange.from_estimates([nearness], prior.quantity).normalise(nearness)
    return np.asarray(cv2.ximgproc.guidedFilter(image, depth, 4, 25.0).clip(0, 1))


def grey_morning(vivid: np.ndarray, rng: np.random.Generator) -> Iterator[Still]:
    """A duller, darker version of a photo in uneven haze, whose light is darker than UHV-4K's."""
    height, width = vivid.shape[:2]
    grey = vivid.mean(2, keepdims=True)
    clear = (grey + (vivid - grey) * rng.uniform(0.5, 0.9)) ** rng.uniform(1.0, 1.5) * rng.uniform(0.75, 1)
    airlight = rng.uniform(0.58, 0.8) * np.array([0.985, 1.0, 1.03])
    clouds = cv2.resize(rng.random((4, 6)).astype(np.float32), (width, height), interpolation=cv2.INTER_CUBIC)
    ramp = np.linspace(1, 0.55, height, dtype=np.float32)[:, None]
    optical = rng.uniform(0.5, 1.3) * ramp * (0.65 + 0.7 * clouds)
    clear = clear.astype(np.float32)
    yield Still(("grey morning",), hazed(clear, optical, airlight), clear)
    yield Still(("grey morning, in light",), hazed(clear, THINNER * optical, airlight, curve=TONE_CURVE), clear)


def rooms(count: int) -> Iterator[Still]:
    from rooms import render_room  # in research/, which those who import this module need not have on their path

    rng = np.random.default_rng(0)
    for number in range(count):
        room = render_room(FIRST_ROOM + number, width=2 * MIDDLE[0], height=2 * MIDDLE[1])
        clear, metres = (
            cv2.resize(array.numpy(), MIDDLE, interpolation=cv2.INTER_AREA)
            for array in (room.image.permute(1, 2, 0), room.depth)
        )
        for light in ROOM_LIGHTS:
            airlight = light * (1 + rng.normal(0, 0.02, 3))
            optical = -np.log(rng.uniform(0.2, 0.65)) * (0.8 + 0.2 * metres / metres.max())
            yield Still((f"rooms, airlight {light}",), hazed(clear, optical, airlight), clear)
            yield Still((f"rooms, {light}, in light",), hazed(clear, optical, airlight, curve=TONE_CURVE), clear)


def sky_shift(restored: Tensor, clear: Tensor, sky: Tensor) -> float | None:  # [3, H, W] twice, [H, W] bool
    """How far the sky's mean colour is from the true one, mean over the channels; None where there is hardly a sky."""
    if sky.float().mean() <= MIN_SKY:
        return None
    return float((restored - clear)[:, sky].mean(1).abs().mean())


def measure(backend: PlainBackend, still: Still) -> dict[str, float]:
    hazy, clear = (torch.from_numpy(image).permute(2, 0, 1) for image in (still.hazy, still.clear))
    (ready,) = [*backend.push(rgb_frames(hazy[None])), *backend.flush()]  # one frame is a whole stream
    restored = rgb_of(ready)
    row = {"hazy": psnr(hazy, clear), "ours": psnr(restored, clear), "bright": float((restored - clear).mean())}
    if still.sky is not None and (shift := sky_shift(restored, clear, torch.from_numpy(still.sky))) is not None:
        row["sky"] = shift
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("pairs", "photos", "depth", "sky"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--rooms", type=int, default=0)
    parser.add_argument("--model", type=Path, help="a checkpoint; the package's by default")
    options = parser.parse_args()
    if options.photos and not (options.depth and options.sky):
        parser.error("--photos needs --depth and --sky; research/photo_depth.py makes both")

    backend = PlainBackend(load_model(options.model))
    sources = [pairs(options.pairs)] if options.pairs else []
    sources += [photos(options.photos, options.depth, options.sky)] if options.photos else []
    sources += [rooms(options.rooms)] if options.rooms else []
    found: dict[str, list[dict[str, float]]] = {}
    for number, still in enumerate(still for source in sources for still in source):
        row = measure(backend, still)
        for kind in still.kinds:
            found.setdefault(kind, []).append(row)
        print(f"\r{number + 1} stills ", end="", file=sys.stderr, flush=True)
    print(f"\r{'kind':<26} {'stills':>6} {'hazy':>6} {'ours':>6} {'bright':>7} {'sky shift':>9}")
    for kind, rows in found.items():
        hazy, ours, bright = (np.mean([row[key] for row in rows]) for key in ("hazy", "ours", "bright"))
        skies = [row["sky"] for row in rows if "sky" in row]
        sky = f"{np.mean(skies):9.4f}" if skies else ""
        print(f"{kind:<26} {len(rows):6} {hazy:6.2f} {ours:6.2f} {bright:7.3f} {sky}")


if __name__ == "__main__":
    main()
