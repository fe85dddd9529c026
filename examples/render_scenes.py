"""Render an outdoor clip and a room: images with exact depth, flow and occlusion, from nothing but a seed."""

import cv2
import numpy as np

from libranet.lab.scenes import SKY_DEPTH, render_clip, render_room

for index, frame in enumerate(render_clip(seed=7, frames=2, width=320, height=180, fps=5.0)):
    ground = frame.depth[frame.depth < SKY_DEPTH]
    motion = frame.flow.norm(dim=0).mean()  # [2, H, W] -> pixels to the next frame
    print(f"frame {index}: depth up to {ground.max():.0f} m, mean motion {motion:.1f} px")
    print(f"  {frame.occluded.float().mean():.1%} of the pixels are hidden in the next frame")

room = render_room(seed=5000, width=320, height=180)
print(f"room: depth from {room.depth.min():.1f} to {room.depth.max():.1f} m")
both = np.concatenate([image.permute(1, 2, 0).numpy() for image in (frame.image, room.image)], axis=1)
cv2.imwrite("scenes.png", cv2.cvtColor((both * 255).round().astype(np.uint8), cv2.COLOR_RGB2BGR))
print("scenes.png: both")
