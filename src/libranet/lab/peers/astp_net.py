"""ASTP-Net (Visual Computer 2025): DehazeFormer over three frames, with neighbourhood attention and a haze memory.

The official network normalises the features after stages 1 and 2 by its temporal blocks, computes their attention, and
drops it. Here it is not computed, but its layers are kept: the counts are the official ones.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.dehazeformer import HEADS, WIDTHS, HazeFormer, Mix
from libranet.lab.peers.neighbourhood import NeighbourhoodAttention
from libranet.network.peer import PeerConfig

FRAMES = 3
KERNELS = {"t": (9, 9, 9), "s": (13, 13, 11), "b": (9, 9, 9)}
"""Sides of the neighbourhoods in the first three stages."""
DILATIONS, TEMPORAL_DILATIONS = (8, 4, 2), (4, 2, 1)
"""Of every second block of a stage, and of its temporal block."""
SLOTS, SLOT_WIDTH = 256, 48
GROUP = 12  # maps that a temporal block normalises together


class NeighbourhoodMix(Mix):
    """Attention to neighbours beside a depth-wise convolution."""

    def __init__(self, width: int, heads: int, kernel: int, dilation: int, *, gain: float) -> None:
        super().__init__(width, attention=True, gain=gain)
        self.neighbourhood = NeighbourhoodAttention(heads, kernel, dilation)

    def attend(self, qkv: Tensor) -> Tensor:
        return self.neighbourhood(*qkv.chunk(3, dim=1))


class TemporalBlock(nn.Module):
    """Attention of the middle frame to each of the three frames; the results are joined."""

    def __init__(self, width: int, heads: int, kernel: int, dilation: int) -> None:
        super().__init__()
        stacked = FRAMES * width
        self.norm = nn.GroupNorm(width // GROUP, width, eps=1e-6)
        self.query = nn.Conv2d(width, width, 1)
        self.key, self.value = nn.Conv2d(stacked, stacked, 1), nn.Conv2d(stacked, stacked, 1)
        self.neighbourhood = NeighbourhoodAttention(heads, kernel, dilation)
        self.project, self.unused = nn.Conv2d(stacked, width, 1), nn.Conv2d(stacked, width, 1)

    def normalise(self, x: Tensor) -> Tensor:  # [B, 3C, H, W] -> the same
        return self.norm(x.unflatten(1, (FRAMES, -1)).flatten(0, 1)).unflatten(0, (len(x), -1)).flatten(1, 2)

    def forward(self, x: Tensor) -> Tensor:  # [B, 3C, H, W] -> [B, C, H, W]
        x = self.normalise(x)
        query = self.query(x.chunk(FRAMES, dim=1)[FRAMES // 2])
        pairs = zip(self.key(x).chunk(FRAMES, dim=1), self.value(x).chunk(FRAMES, dim=1), strict=True)
        return self.project(torch.cat([self.neighbourhood(query, key, value) for key, value in pairs], dim=1))


class HazeMemory(nn.Module):
    """Reads learned slots by the features of the middle frame, and adds what it found; nothing at first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.enter = nn.GroupNorm(32, width, eps=1e-6), nn.Conv2d(width, SLOT_WIDTH, 1)
        self.slots = nn.Parameter(torch.randn(SLOTS, SLOT_WIDTH))
        self.leave = nn.Conv2d(SLOT_WIDTH, width, 1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:  # [B, C, H, W]
        query = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        slots = self.slots.to(query.dtype).expand(len(x), -1, -1)
        found = F.scaled_dot_product_attention(query, slots, slots).transpose(1, 2).unflatten(2, x.shape[-2:])
        return x + self.leave(found)


class AstpNet(HazeFormer):
    """The published network in one of its sizes. Its memory loss is left out."""

    def __init__(self, size: str) -> None:
        kernels = KERNELS[size]
        smallest = max(k * d * 2**stage for stage, (k, d) in enumerate(zip(kernels, DILATIONS, strict=True)))
        config = PeerConfig(f"astp-net-{size}", past=1, future=1, divisor=4, smallest=smallest)
        super().__init__(config, size, partial(_attention, kernels))
        self.temporal = nn.ModuleList(
            TemporalBlock(*layout) for layout in zip(WIDTHS[:3], HEADS, kernels, TEMPORAL_DILATIONS, strict=True)
        )
        self.memory = HazeMemory(WIDTHS[2])

    def join(self, stage: int, x: Tensor) -> Tensor:
        """Normalise after the first two stages; after the third bring three frames to one and read the memory."""
        if stage < 2:
            return self.temporal[stage].normalise(x)  # type: ignore[operator]
        return self.temporal[stage](x) + self.memory(x.chunk(FRAMES, dim=1)[FRAMES // 2])


def _attention(kernels: tuple[int, ...], stage: int, width: int, odd: bool, gain: float) -> Mix:
    return NeighbourhoodMix(width, HEADS[stage], kernels[stage], DILATIONS[stage] if odd else 1, gain=gain)
