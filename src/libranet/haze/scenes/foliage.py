"""The look of crowns: leaves lit from outside, dark inside, glowing a little against the light."""

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.haze.scenes.light import Shade
from libranet.haze.scenes.noise import DetailTexture
from libranet.haze.scenes.trees import Trees


class Foliage:
    """Shades points of crowns."""

    def __init__(self, trees: Trees, shade: Shade, texture: DetailTexture) -> None:
        self.trees, self.shade, self.texture = trees, shade, texture

    def radiance(
        self,
        points: Tensor,  # [3, N]
        distance: Tensor,  # [N]
        lobe: Tensor,  # [N] which lobe
        pixel: float,
    ) -> Tensor:  # [3, N]
        lobes, shade = self.trees.lobes[:, lobe], self.trees.shade[:, lobe]
        middle, colour, radius, squash, key = shade[:3], shade[3:6], shade[6], shade[7], shade[8]
        local = points - middle
        stretched = torch.stack([local[0], local[1] * squash, local[2]])
        from_lobe = stretched - lobes[:3]
        outward = F.normalize(from_lobe, dim=0)
        depth = (from_lobe.norm(dim=0) / lobes[3]).clamp(0, 1)  # 1 on the outer shell, 0.8 on the inner
        from_middle = F.normalize(stretched, dim=0)
        footprint = pixel * distance * 1.3
        x, y, z = points
        a = self.texture.sample(x * 0.8 + y * 0.6 + key * 9, z * 0.8 - y * 0.62, 2.1, footprint)
        b = self.texture.sample(x * 0.6 - y * 0.8, z * 0.7 + y * 0.71 + key * 5, 5.3, footprint)
        leaf = torch.exp(0.45 * a[0] + 0.25 * a[2] + 0.25 * b[0])
        albedo = colour * leaf * torch.stack([1 + 0.10 * b[1], 1 + 0.0 * b[1], 1 - 0.10 * b[1]])
        normal = F.normalize(0.55 * outward + 0.45 * from_middle + 0.45 * torch.stack([a[0], a[1], b[1]]), dim=0)
        inner = ((depth - 0.8) / 0.2).clamp(0, 1)
        height = (stretched[1] / radius.clamp(min=0.1) * 0.5 + 0.5).clamp(0, 1)
        open_sky = (0.30 + 0.45 * inner + 0.25 * height) * (0.75 + 0.35 * (a[0] * 0.5 + 0.5).clamp(0, 1))
        return self.shade.lit(
            albedo.clamp(0.003, 0.8), normal, points + from_middle * 0.3, open_sky.clamp(0, 1), through=0.35, bias=0.6
        )
