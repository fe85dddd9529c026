"""See what the strength does: 0 returns the input bit for bit, 1 is the network's result, 1.5 exaggerates it."""

import av
import cv2
import numpy as np

from libranet import Dehazer
from libranet.page import example_path

with av.open(str(example_path())) as video:
    hazy = next(video.decode(video=0)).to_ndarray(format="rgb24")

network = Dehazer().network  # loaded once
row = []
for strength in (0.0, 0.5, 1.0, 1.5):
    clear = Dehazer(network, strength=strength).image(hazy)
    print(f"strength {strength}: mean {clear.mean():.1f}, contrast {clear.std():.1f}")
    row.append(cv2.resize(clear, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA))
    if strength == 0.0:
        assert np.array_equal(clear, hazy)
cv2.imwrite("strengths.png", cv2.cvtColor(cv2.hconcat(row), cv2.COLOR_RGB2BGR))
print("strengths.png: 0, 0.5, 1 and 1.5 side by side")
