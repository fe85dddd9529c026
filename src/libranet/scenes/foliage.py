"""The look of crowns: leaves lit from outside, dark inside, glowing a little against the light."""

import torch
from torch import Tensor

from libranet.scenes.light import Shade
from libranet.scenes.noise import normalised
from libranet.scenes.trees import Trees


class Foliage:
    """Shades points of crowns."""

    def __init__(self, trees: Trees, shade: Shade) -> None:
        self.trees, self.shade = trees, shade

    def radiance(
        self,
        points: Tensor,  # [3, N]
        distance: Tensor,  # [N]
        lobe: Tensor,  # [N] which lobe
        pixel: float,
    ) -> Tensor:  # [3, N]
        lobes, shade = self.trees.lobes[:, lobe], self.trees.shade[:, lobe]
        middle, colour, radius, squash = shade[:3], shade[3:6], shade[6], shade[7]
        local = points - middle
        stretched = torch.stack([local[0], local[1] * squash, local[2]])
        from_lobe = stretched - lobes[:3]
        outward = normalised(from_lobe)
        depth = (from_lobe.norm(dim=0) / lobes[3]).clamp(0, 1)  # 1 on the outer shell, less on the inner ones
        from_middle = normalised(stretched)
        footprint = pixel * distance * 1.3
        x, y, z = points
        leaves = self.trees.leaves
        a, b = leaves.sample(x, y, z, 0.9) * (1.4 - footprint * 16.0).clamp(0, 1)
        c, e = leaves.sample(z, x, y, 4.3) * (1.4 - footprint * 3.5).clamp(0, 1)
        leaf = torch.exp(0.30 * a + 0.30 * b + 0.32 * c)
        albedo = colour * leaf * torch.stack([1 + 0.10 * e, torch.ones_like(e), 1 - 0.10 * e])
        normal = normalised(0.55 * outward + 0.45 * from_middle + 0.45 * torch.stack([a, b, c]))
        inner = ((depth - 0.72) / 0.28).clamp(0, 1)
        height = (stretched[1] / radius.clamp(min=0.1) * 0.5 + 0.5).clamp(0, 1)
        open_sky = (0.22 + 0.53 * inner + 0.25 * height) * (0.75 + 0.35 * (a * 0.5 + 0.5).clamp(0, 1))
        return self.shade.lit(
            albedo.clamp(0.003, 0.8), normal, points + from_middle * 0.3, open_sky.clamp(0, 1), through=0.35, bias=0.6
        )
