"""Look inside: the bilateral grids, the colour matrix of every pixel, and how dense the haze is."""

import av
import cv2
import torch

from libranet import estimate_haze, load_model
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
haze = estimate_haze(frame, network)
print(f"transmission from {haze.transmission.min():.2f} to {haze.transmission.max():.2f}")
cv2.imwrite("haze.png", cv2.applyColorMap((255 * (1 - haze.transmission)).astype("uint8"), cv2.COLORMAP_INFERNO))
print("haze.png: dark is clear air, bright is dense haze")
