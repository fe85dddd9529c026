"""Dehaze frames that a program already has: NumPy arrays or torch tensors."""

import av
import torch

from libranet import Dehazer
from libranet.page import example_path

with av.open(str(example_path())) as video:
    frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)][:6]  # [H, W, 3], uint8

# A recorded video: each frame waits for the two after it, then comes back in its own type, dtype and shape.
dehazer = Dehazer()
clear = list(dehazer.restore(frames))
print(f"NumPy: {len(clear)} frames, {clear[0].shape} {clear[0].dtype}")

# Torch tensors, [3, H, W] in [0, 1], keep their dtype and device. `dehazer.network` is loaded once for both.
tensors = [torch.from_numpy(frame).permute(2, 0, 1) / 255 for frame in frames[:3]]
dehazer = Dehazer(dehazer.network, strength=0.8)
clear = list(dehazer.restore(tensors))
print(f"torch: {len(clear)} frames, {tuple(clear[0].shape)} {clear[0].dtype}")
