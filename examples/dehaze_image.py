"""Dehaze a single image that belongs to no video."""

import av
import cv2

import libranet
from libranet.page import example_path

with av.open(str(example_path())) as video:
    hazy = next(video.decode(video=0)).to_ndarray(format="rgb24")  # [H, W, 3], uint8, RGB; any photo will do

clear = libranet.dehaze_image(hazy)  # a path works, too; uint8, uint16 and floating point in [0, 1] alike
cv2.imwrite("before_after.png", cv2.cvtColor(cv2.hconcat([hazy, clear]), cv2.COLOR_RGB2BGR))
print(f"before_after.png: contrast {hazy.std():.1f} -> {clear.std():.1f}")
