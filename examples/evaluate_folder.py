"""Measure PSNR, SSIM and flicker of a model on a folder of pairs: hazy/ beside clear/, one sub-folder per clip."""

from pathlib import Path

import cv2
import numpy as np
import torch

from libranet import Dehazer
from libranet.evaluation.clips import open_dataset
from libranet.metrics import psnr, sigma_psnr, ssim

# A tiny paired set, so that the example needs no data: a textured frame, panned, and the same with even haze.
scene = cv2.resize(np.random.default_rng(0).integers(0, 255, (24, 40, 3), np.uint8), (320, 192))
for index in range(4):
    clear = scene[:160, 8 * index : 8 * index + 256]
    for name, image in (("clear", clear), ("hazy", clear // 2 + 110)):
        path = Path("pairs", name, "clip", f"{index:04d}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), image)


def tensor(frame: np.ndarray) -> torch.Tensor:  # [3, H, W] in [0, 1]
    return torch.from_numpy(frame).permute(2, 0, 1) / 255


for clip in open_dataset("pairs"):
    hazy, clear = zip(*clip.frames(), strict=True)
    dehazer = Dehazer()
    restored = [out for frame in hazy for out in dehazer.push(frame)] + dehazer.flush()
    for name, frames in (("hazy", hazy), ("restored", restored)):
        values = [psnr(tensor(a), tensor(b)) for a, b in zip(frames, clear, strict=True)]
        similarity = np.mean([ssim(tensor(a), tensor(b)) for a, b in zip(frames, clear, strict=True)])
        print(f"{clip.name}, {name}: {np.mean(values):.2f} dB ± {sigma_psnr(values):.2f}, SSIM {similarity:.3f}")
