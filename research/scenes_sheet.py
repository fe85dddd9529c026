"""Draw a contact sheet of procedural scenes: `python research/scenes_sheet.py OUT.jpg [SEED ...]`.

The last row shows one frame with its depth (near is bright), flow (hue is direction) and occlusion mask (white).
"""

import sys
from pathlib import Path

import cv2
import numpy as np

from libranet.lab.scenes import SceneFrame, render_clip

COLUMNS, WIDTH, HEIGHT = 4, 320, 180
SEEDS = [*range(117, 120), *range(121, 125), *(100, 106, 112, 114, 127, 128, 132, 134, 137, 138, 140, 142, 143, 145)]
SEEDS += [108, 110, 133]


def to_bgr(frame: SceneFrame) -> np.ndarray:
    return np.ascontiguousarray((frame.image.permute(1, 2, 0).numpy()[..., ::-1] * 255).round().astype(np.uint8))


def modalities(frame: SceneFrame) -> list[np.ndarray]:
    nearness = 1 - np.log(frame.depth.numpy().clip(2, 3000) / 2) / np.log(1500)
    depth = cv2.applyColorMap((nearness * 255).astype(np.uint8), cv2.COLORMAP_INFERNO)
    dx, dy = frame.flow.numpy()
    size = np.hypot(dx, dy)
    hue = (np.degrees(np.arctan2(dy, dx)) % 360 / 2).astype(np.uint8)
    strength = (255 * (size / np.quantile(size, 0.9)).clip(0, 1) ** 0.5).astype(np.uint8)
    flow = cv2.cvtColor(np.stack([hue, strength, np.full_like(hue, 255)], axis=-1), cv2.COLOR_HSV2BGR)
    hidden = np.repeat((frame.occluded.numpy() * 255).astype(np.uint8)[..., None], 3, axis=-1)
    return [to_bgr(frame), depth, flow, hidden]


def main() -> None:
    out = Path(sys.argv[1])
    seeds = [int(s) for s in sys.argv[2:]] or SEEDS
    frames = [next(iter(render_clip(seed, frames=1, width=WIDTH, height=HEIGHT))) for seed in seeds]
    tiles = [to_bgr(frame) for frame in frames]
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % COLUMNS) + modalities(frames[min(3, len(frames) - 1)])
    rows = [np.hstack(tiles[i : i + COLUMNS]) for i in range(0, len(tiles), COLUMNS)]
    cv2.imwrite(str(out), np.vstack(rows), [cv2.IMWRITE_JPEG_QUALITY, 78])


if __name__ == "__main__":
    main()
