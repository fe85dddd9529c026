"""Exact forward flow between two views of a world, and which points the second view does not show."""

import torch
from torch import Tensor

from libranet.scenes.rays import SKY
from libranet.scenes.render import View
from libranet.scenes.world import World


def flow_between(world: World, view: View, following: View) -> tuple[Tensor, Tensor]:
    """Flow [2, H, W] in pixels from `view` to `following`, and [H, W] True where a point is hidden or outside there."""
    camera, then = view.camera, following.camera
    device = view.distance.device
    x = torch.arange(camera.width, device=device, dtype=torch.float32) + 0.5
    y = torch.arange(camera.height, device=device, dtype=torch.float32)[:, None] + 0.5
    flows, hidden = [], []
    rows = max(1, (1 << 22) // camera.width)
    for top in range(0, camera.height, rows):
        band = slice(top, min(top + rows, camera.height))
        px, py = x + 0 * y[band], y[band] + 0 * x
        directions = camera.directions(px, py)
        sky = view.surface[band] == SKY
        distance = torch.where(sky, 1.0, view.distance[band])
        moved = torch.tensor([b - a for a, b in zip(camera.position, then.position, strict=True)], device=device)
        offsets = directions * distance - torch.where(sky, 0.0, moved.reshape(3, 1, 1))
        if world.solids.moving:
            number = (view.surface[band] - 1).long()
            solid = (number >= 0) & (number < len(world.solids.items))
            speed = world.solids.velocity[:, number.clamp(0, len(world.solids.items) - 1)] * solid
            step = speed * (following.time - view.time)
            offsets = offsets + torch.stack([step[0], torch.zeros_like(step[0]), step[1]])
        tx, ty, forward = then.project(offsets)
        flows.append(torch.stack([tx - px, ty - py]))
        expected = torch.where(sky, torch.inf, offsets.norm(dim=0))
        hidden.append(_hidden(torch.stack([tx, ty, forward]), expected, view.surface[band], following))
    return torch.cat(flows, dim=1), torch.cat(hidden)


def _hidden(
    target: Tensor,  # [3, h, w] image x, y and forward distance in the following view
    expected: Tensor,  # [h, w] distance there
    surface: Tensor,  # [h, w] what the point belongs to
    following: View,
) -> Tensor:  # [h, w] bool
    """A visible point lies within the distances of the four pixels around it; the nearest of them shows its surface."""
    x, y, forward = target
    height, width = following.distance.shape
    outside = (forward <= 1e-3) | (x < 0.5) | (y < 0.5) | (x > width - 0.5) | (y > height - 0.5)
    x, y = (x - 0.5).nan_to_num(0).clamp(0, width - 1.001), (y - 0.5).nan_to_num(0).clamp(0, height - 1.001)
    start = y.long() * width + x.long()
    table = following.distance.reshape(-1)
    around = torch.stack([table[start + k] for k in (0, 1, width, width + 1)])
    nearest, farthest = around.amin(dim=0), around.amax(dim=0)
    beyond = (expected > farthest * 1.01 + 0.05) | (expected < nearest * 0.98 - 0.05)
    pixel = y.round().long() * width + x.round().long()
    there = table[pixel]
    other = (following.surface.reshape(-1)[pixel] != surface) & ~(
        (there > 0.9 * expected - 0.3) & (there < 1.1 * expected + 0.3)
    )
    return outside | beyond | other
