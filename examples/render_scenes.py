"""Render an outdoor clip: images with exact depth, flow and occlusion, from nothing but a seed."""

import cv2

from libranet.lab.scenes import SKY_DEPTH, render_clip

for index, frame in enumerate(render_clip(seed=7, frames=2, width=320, height=180, fps=5.0)):
    ground = frame.depth[frame.depth < SKY_DEPTH]
    motion = frame.flow.norm(dim=0).mean()  # [2, H, W] -> pixels to the next frame
    print(f"frame {index}: depth up to {ground.max():.0f} m, mean motion {motion:.1f} px")
    print(f"  {frame.occluded.float().mean():.1%} of the pixels are hidden in the next frame")
    pixels = (frame.image * 255).round().byte().permute(1, 2, 0).numpy()
    cv2.imwrite(f"scene-{index}.png", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
