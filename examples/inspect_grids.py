"""Look inside: the bilateral grids, the colour matrix of every pixel, and the transmission it stands for."""

import av
import cv2
import torch

from libranet import load_model
from libranet.engine.views import haze_heat_map
from libranet.frames import FrameFormat
from libranet.frames.format import RGB8
from libranet.network import start_stream, stream_restore
from libranet.page import example_path

with av.open(str(example_path())) as video:
    frame = next(video.decode(video=0)).to_ndarray(format="rgb24")
hazy = torch.from_numpy(frame).permute(2, 0, 1)[None] / 255  # [1, 3, H, W]

network = load_model()
result, _ = stream_restore(network, hazy, start_stream(network, lookahead=0))
print(f"chromatic grids, guided by red and by green: {tuple(result.grids.chromatic.shape)}")
print(f"temporal grid, centre plane: {tuple(result.grids.temporal.shape)}")
print(f"one 3x3 matrix A and one offset b per pixel: {tuple(result.matrix.shape)}, {tuple(result.offset.shape)}")
print(
    f"A at the centre of the frame:\n{result.matrix[0, :, :, result.matrix.shape[3] // 2, result.matrix.shape[4] // 2]}"
)
t = result.transmission()  # [1, 1, h, w] in [0, 1]: det(A)^(-1/3)
print(f"transmission from {t.min():.2f} to {t.max():.2f}, mean {t.mean():.2f}")
(heat_map,) = haze_heat_map(t, FrameFormat(hazy.shape[3], hazy.shape[2], RGB8))  # [H, W, 3] uint8
cv2.imwrite("haze.png", cv2.cvtColor(heat_map.numpy(), cv2.COLOR_RGB2BGR))
print("haze.png: dark is clear air, bright is dense haze")
