"""Dehaze frames that a program already has, as NumPy arrays or torch tensors, one at a time.

python examples/dehaze_frames.py [weights.safetensors]
"""

import sys

import numpy as np
import torch

from libranet import Dehazer


def camera(count: int) -> list[np.ndarray]:
    """Stands for your own source of frames: [H, W, 3], uint8, RGB."""
    scene = np.random.default_rng(0).integers(90, 230, (240, 320, 3), dtype=np.uint8)
    return [np.roll(scene, 2 * index, axis=1) for index in range(count)]


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else None

    # A recorded video: each frame waits for the two after it, and comes back in its own type.
    dehazer = Dehazer(model, strength=0.8)
    clear = [frame for hazy in camera(10) for frame in dehazer.push(hazy)] + dehazer.flush()
    print(f"recorded: {len(clear)} frames, {clear[0].shape} {clear[0].dtype}")

    # A live source: every frame comes back at once.
    live = Dehazer(dehazer.network, live=True)
    for hazy in camera(3):
        (frame,) = live.push(hazy)
        print(f"live: {frame.shape} {frame.dtype}, mean changed by {frame.mean() - hazy.mean():+.2f}")

    # Torch tensors keep their dtype and device; a single picture needs no stream.
    picture = torch.from_numpy(camera(1)[0]).permute(2, 0, 1).float() / 255  # [3, H, W] in [0, 1]
    print(f"picture: {tuple(Dehazer(dehazer.network).image(picture).shape)}")


if __name__ == "__main__":
    main()
