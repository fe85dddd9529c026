"""Dehaze an image with OpenVINO: `python openvino_image.py net.xml hazy.png clear.png`.

net.xml is a file of `libranet export --format openvino`. LiBrA-Net itself is not needed here.
"""

import sys

import cv2
import numpy as np
import openvino

# OpenVINO computes in bfloat16 where the CPU has it; "f32" keeps every digit, at about half the speed.
network = openvino.Core().compile_model(sys.argv[1], "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
hazy = cv2.imread(sys.argv[2])  # [H, W, 3], uint8, blue first
frame = np.float32(hazy[..., ::-1]).transpose(2, 0, 1)[None] / 255  # [1, 3, H, W] in [0, 1], red first
image = network({"frame": frame})["image"]
cv2.imwrite(sys.argv[3], (image[0].transpose(1, 2, 0)[..., ::-1] * 255).round().astype(np.uint8))
