"""The HF-Refiner: brings back, from the full-resolution frame, the detail that the smooth colour field cannot."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.models.encoder import GROUPS, conv3x3


class RefinerBlock(nn.Module):
    """x + mix(GELU(GN(conv3x3(x)))).

    With a 1x1 `mix`, normalising, activating, mixing and adding happen pixel by pixel, which a kernel can do in one
    pass over memory.
    """

    def __init__(self, width: int, mix_kernel: int) -> None:
        super().__init__()
        self.conv = conv3x3(width, width)
        self.norm = nn.GroupNorm(GROUPS, width)
        self.mix = nn.Conv2d(width, width, mix_kernel, padding=mix_kernel // 2)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mix(F.gelu(self.norm(self.conv(x))))


class Stream(nn.Sequential):
    """One input of the refiner: 3x3 convolution, GroupNorm, GELU, residual blocks."""

    def __init__(self, channels_in: int, width: int, blocks: int, mix_kernel: int) -> None:
        super().__init__(
            conv3x3(channels_in, width),
            nn.GroupNorm(GROUPS, width),
            nn.GELU(),
            *(RefinerBlock(width, mix_kernel) for _ in range(blocks)),
        )


class Refiner(nn.Module):
    """Two streams at 1/scale of the frame's size, fused into a residual at full size."""

    def __init__(self, scale: int, width: int, stream_blocks: int, fusion_blocks: int, mix_kernel: int) -> None:
        super().__init__()
        detail_channels = 3 * scale * scale
        self.scale = scale
        self.detail = Stream(detail_channels, width, stream_blocks, mix_kernel)
        self.structure = Stream(3, width, stream_blocks, mix_kernel)
        self.join = nn.Conv2d(2 * width, width, 3, padding=1)
        self.fusion = nn.Sequential(*(RefinerBlock(width, mix_kernel) for _ in range(fusion_blocks)))
        self.project = nn.Conv2d(width, detail_channels, 3, padding=1)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)  # type: ignore[arg-type]

    def forward(
        self,
        frame: Tensor,  # [B, 3, H, W], the hazy frame
        restored: Tensor,  # [B, 3, H/scale, W/scale], the colour-corrected small frame
    ) -> Tensor:  # [B, 3, H, W], to be added to the frame
        detail = self.detail(F.pixel_unshuffle(frame, self.scale))
        structure = self.structure(restored)
        fused = self.fusion(self.join(torch.cat([detail, structure], dim=1)))
        return F.pixel_shuffle(self.project(fused), self.scale)
