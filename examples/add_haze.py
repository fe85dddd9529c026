"""Add haze to a clear image with the scattering model, here over a rendered scene whose depth is known."""

import cv2
import torch

from libranet.haze.scattering import add_haze, transmission
from libranet.lab.scenes import render_clip

frame = next(iter(render_clip(seed=7, frames=1, width=320, height=180)))
clear, metres = frame.image[None], frame.depth[None]  # [1, 3, H, W] in [0, 1], [1, H, W]

row = [clear]
for visibility in (1000.0, 300.0, 100.0):  # metres at which 5 % of the light arrives
    t = transmission(metres, 3.0 / visibility)  # exp(-beta * depth)
    hazy = add_haze(clear, t, torch.tensor([0.76, 0.77, 0.79]))  # clear * t + airlight * (1 - t)
    print(f"visibility {visibility:.0f} m: mean transmission {t.mean():.2f}, contrast {hazy.std():.3f}")
    row.append(hazy)
image = torch.cat(row, dim=-1)[0].permute(1, 2, 0).mul(255).round().byte().numpy()
cv2.imwrite("haze_densities.png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
print("haze_densities.png: clear, then 1000, 300 and 100 m of visibility")
