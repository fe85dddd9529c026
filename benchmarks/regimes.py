"""Hazy PSNR of the nine regimes on procedural scenes and on photos: the measurement that the table was chosen by.

python benchmarks/regimes.py [--scenes 16] [--photos FOLDER ...] [--every 4]
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
import torch

from libranet.data.frames import read_rgb
from libranet.haze.scattering import AIRLIGHTS, PAPER_HAZY_PSNR, REGIMES, TIERS, add_haze, transmission
from libranet.lab.scenes import SKY_DEPTH, render_clip
from libranet.sequences import list_images
from libranet.synth.depth_estimators import LayoutPrior
from libranet.synth.depth_maps import DepthRange
from machine import describe_machine

WIDTH, HEIGHT = 480, 270


def psnr_by_regime(clear: torch.Tensor, depth: torch.Tensor) -> list[float]:  # [3, H, W], [H, W] -> one per regime
    values = []
    for regime in REGIMES:
        hazy = add_haze(clear[None], transmission(depth[None, None], regime.beta), torch.tensor([regime.airlight]))
        values.append(-10 * float((hazy[0] - clear).square().mean().log10()))
    return values


def scenes(count: int) -> np.ndarray:
    rows = []
    for seed in range(count):
        frame = next(iter(render_clip(seed, frames=1, width=WIDTH, height=HEIGHT)))
        metres = np.where(frame.depth.numpy() >= 0.999 * SKY_DEPTH, np.float32(np.inf), frame.depth.numpy())
        depth = DepthRange.from_metres([metres]).normalise(metres)
        rows.append(psnr_by_regime(frame.image, torch.from_numpy(depth)))
    return np.array(rows)


def photos(folders: list[Path], every: int) -> np.ndarray:
    rows = []
    for seed, path in enumerate(path for folder in folders for path in list_images(folder)[::every]):
        image = np.asarray(cv2.resize(read_rgb(path), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA))
        raw = LayoutPrior(seed).estimate(image)
        depth = DepthRange.from_estimates([raw], "disparity").normalise(raw)
        clear = torch.from_numpy(image).permute(2, 0, 1).float() / 255
        rows.append(psnr_by_regime(clear, torch.from_numpy(depth)))
    return np.array(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=16)
    parser.add_argument("--photos", type=Path, nargs="*", default=[])
    parser.add_argument("--every", type=int, default=4, help="take every n-th photo")
    arguments = parser.parse_args()
    groups = {f"{arguments.scenes} scenes": scenes(arguments.scenes)}
    if arguments.photos:
        found = photos(arguments.photos, arguments.every)
        groups[f"{len(found)} photos"] = found
    print(", ".join(f"{key} {value}" for key, value in describe_machine().items()) + "\n")
    lights = [name for name, _ in AIRLIGHTS]
    print("| source | tier | " + " | ".join(lights) + " | mean |\n|---|---|" + "---|" * (len(lights) + 1))
    for name, values in groups.items():
        table = values.mean(0).reshape(len(TIERS), len(AIRLIGHTS))
        for (tier, _), row in zip(TIERS, table, strict=True):
            print(f"| {name} | {tier} | " + " | ".join(f"{value:.2f}" for value in row) + f" | {row.mean():.2f} |")
        print(f"| {name} | all | | | | **{values.mean():.2f}** |")
    mean = np.mean([values.mean() for values in groups.values()])
    print(f"\nmean over the sources, in equal parts: {mean:.2f} dB (the paper: {PAPER_HAZY_PSNR} dB)")


if __name__ == "__main__":
    main()
