"""How far each CPU backend is from the plain network in float32: PSNR on still pairs and on clips of 3840x2160.

    PYTHONPATH=src:benchmarks python3 benchmarks/cpu_quality.py [--pairs FOLDER]
        [--photos FOLDER --depth FOLDER --sky FOLDER] [--frames 3] [--every N] [--networks base,small]
        [--backends cpu-fp32,cpu-bf16] [--json FILE]

--pairs     hazy/NAME and clear/NAME, restored one by one
--photos    each photo becomes a 4K clip by a camera move over its depth map, as in `benchmarks/weights.py`, in one of
            the nine regimes, in turn, and is restored as a stream with its filter over time
--every     of every N pairs and photos, only the first

Frames are 8-bit RGB, in and out. Columns: PSNR of the plain network, the mean and the worst change of it by the
backend, and the distance of the backend's frames from the plain network's, rms and largest, in steps of 1/255.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from libranet.frames import FrameFormat, Frames
from libranet.frames.format import RGB8
from libranet.haze.scattering import REGIMES, add_haze, transmission
from libranet.metrics import psnr
from libranet.network import NO_FILTER, GridFilter, Network
from libranet.runtime import load_network, make_backend
from libranet.runtime.choose import BACKENDS, why_not_kernels
from machine import describe_machine
from stills import pairs
from weights import make_clip

Clip = tuple[np.ndarray, np.ndarray]
"""Hazy and clear frames, uint8 [N, H, W, 3]."""


def as_bytes(image: np.ndarray) -> np.ndarray:
    return (image * 255).round().astype(np.uint8)


def still_pairs(folder: Path, every: int) -> Iterator[Clip]:
    chosen = [still for still in pairs(folder) if "pairs" in still.kinds][::every]
    for still in chosen:
        yield as_bytes(still.hazy)[None], as_bytes(still.clear)[None]


def large_clips(photos: Path, depth: Path, sky: Path, frames: int, every: int) -> Iterator[Clip]:
    for number, photo in enumerate(sorted(photos.glob("*.jpg"))):
        if number % every:
            continue
        arrays, regime = make_clip(photo, number, depth, sky, frames), REGIMES[number % len(REGIMES)]
        hazy = []
        for clear, far in zip(arrays["clear"], arrays["depth"], strict=True):
            frame = torch.from_numpy(clear).permute(2, 0, 1)[None].float() / 255
            through = transmission(torch.from_numpy(far).float().clamp(0, 1)[None, None], regime.beta)
            hazy.append(as_bytes(add_haze(frame, through, torch.tensor(regime.airlight))[0].permute(1, 2, 0).numpy()))
        yield np.stack(hazy), arrays["clear"]


def restore(network: Network, hazy: np.ndarray, backend: str, grid_filter: GridFilter) -> np.ndarray:
    stream = make_backend(network, backend=backend, grid_filter=grid_filter)
    shape = FrameFormat(hazy.shape[2], hazy.shape[1], RGB8)
    ready = []
    for frame in hazy:
        ready += [r.after[0].numpy().copy() for r in stream.push(Frames((torch.from_numpy(frame)[None],), shape))]
    return np.stack(ready + [r.after[0].numpy().copy() for r in stream.flush()])


def quality(restored: np.ndarray, clear: np.ndarray) -> float:
    frames = [torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 for images in (restored, clear)]
    return float(np.mean([psnr(a, b) for a, b in zip(*frames, strict=True)]))


def compare(
    networks: dict[str, Network], backends: list[str], clips: Iterator[Clip], grid_filter: GridFilter
) -> dict[str, dict[str, float]]:
    """Restore every clip by every backend; one row for each network and backend."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for number, (hazy, clear) in enumerate(clips):
        for name, network in networks.items():
            plain = restore(network, hazy, "plain", grid_filter)
            reference = quality(plain, clear)
            for backend in backends:
                restored = restore(network, hazy, backend, grid_filter)
                distance = np.abs(restored.astype(np.int16) - plain)
                square, largest = float(np.square(distance.astype(np.float32)).mean()), float(distance.max())
                change = quality(restored, clear) - reference
                found.setdefault(f"{name}, {backend}", []).append((reference, change, square, largest))
        print(f"{number + 1} done", flush=True)
    rows = {}
    for name, values in found.items():
        reference, change, square, largest = np.array(values).T
        rows[name] = {
            "clips": len(values),
            "plain_db": float(reference.mean()),
            "change_db": float(change.mean()),
            "worst_db": float(change.min()),
            "rms": float(np.sqrt(square.mean())),
            "largest": float(largest.max()),
        }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("pairs", "photos", "depth", "sky", "json"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--frames", type=int, default=3)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--networks", default="base,small")
    parser.add_argument("--backends", default="", help="all that are here by default")
    options = parser.parse_args()
    here = [name for name in BACKENDS if name.startswith("cpu") and why_not_kernels(name) is None]
    backends = [backend for backend in here if backend in (options.backends.split(",") if options.backends else here)]
    networks = {name: load_network(name, device="cpu", precision="fp32") for name in options.networks.split(",")}
    results = {}
    if options.pairs:
        results["pairs"] = compare(networks, backends, still_pairs(options.pairs, options.every), NO_FILTER)
    if options.photos:
        clips = large_clips(options.photos, options.depth, options.sky, options.frames, options.every)
        results[f"4K clips of {options.frames} frames"] = compare(networks, backends, clips, GridFilter())
    for title, rows in results.items():
        print(f"\n### {title}\n\n| | clips | plain, dB | change, dB | worst, dB | rms | largest |")
        print("|---|---|---|---|---|---|---|")
        for name, row in rows.items():
            print(
                f"| {name} | {row['clips']} | {row['plain_db']:.3f} | {row['change_db']:+.3f} | {row['worst_db']:+.3f} "
                f"| {row['rms']:.2f} | {row['largest']:.0f} |"
            )
    if options.json:
        options.json.write_text(json.dumps({"machine": describe_machine(), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
