"""DS-TFN (Visual Computer 2025): MAP-Net with a confidence branch, then a second network that refines its frames.

Built after the public code of that name. Nothing states that it is the paper's.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.convolutions import conv
from libranet.lab.peers.map_net import LEVELS, WIDTH, MapNet, Memory, backbone_and_neck, image_head
from libranet.network.padding import pad_to_multiple
from libranet.network.peer import PeerConfig, RecurrentPeer

DIVISOR = 32
CONFIDENCES = 3
FLOOR = 1e-10  # keeps a confidence above zero, for the logarithm in its loss


@dataclass(frozen=True)
class Past:
    """What a stream remembers."""

    memory: Memory  # of the first network
    confidence: tuple[Tensor, ...]  # [B, 32, H / 4, W / 4] each
    features: tuple[Tensor, ...]  # [B, 64, h, w] each, of the first network's frame


class Confidence(nn.Module):
    """Says how far the haze prior may stand in for the decoded scene. Only the last level acts on the frame."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.ModuleList(conv(4 * WIDTH, WIDTH) for _ in range(CONFIDENCES))
        self.confidence = nn.ModuleList(conv(WIDTH, 1) for _ in range(CONFIDENCES))
        self.error = nn.ModuleList(conv(WIDTH, 3) for _ in range(CONFIDENCES))  # serves a loss of the makers

    def forward(
        self,
        prior: Tensor,  # [B, 32, h, w]
        past: tuple[Tensor, ...],  # the last frame's hidden maps; none at the beginning
    ) -> tuple[Tensor, tuple[Tensor, ...]]:  # [B, 1, h, w], and this frame's hidden maps
        found: list[Tensor] = []
        for level, layer in enumerate(self.hidden):
            before = found[-1] if found else prior
            others = (past[level], past[level - 1]) if past else (before, prior)
            found.append(F.leaky_relu(layer(torch.cat([before, prior, *others], dim=1)), 0.1))
        return F.relu(self.confidence[-1](found[-1])) + FLOOR, tuple(found)


class Decoder(nn.Module):
    """Joins a level's features of this frame and the last one with the coarser result."""

    def __init__(self, leaving: int) -> None:
        super().__init__()
        width = 4 * WIDTH
        self.enter = nn.Conv2d(width, width, 1)  # the coarsest level has it and does not use it
        self.body = nn.Sequential(conv(width, width), nn.LeakyReLU(0.1), nn.Conv2d(width, leaving, 1))

    def forward(self, x: Tensor, coarser: Tensor | None) -> Tensor:
        if coarser is not None:
            x = self.enter(x) + F.interpolate(coarser, scale_factor=2, mode="nearest")
        return self.body(x)


class Refinement(nn.Module):
    """The second network: corrects a restored frame by its features and those of the restored frame before."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.neck = backbone_and_neck()
        self.decoders = nn.ModuleList(Decoder(4 * WIDTH if level else WIDTH) for level in range(LEVELS))
        self.upsampler = image_head()

    def forward(
        self,
        frame: Tensor,  # [B, 3, H, W], about [0, 1]: not normalised, as published
        past: tuple[Tensor, ...],  # the last frame's features; none at the beginning
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        features = tuple(layer(x) for layer, x in zip(self.neck, self.backbone(frame), strict=True))
        result: Tensor | None = None
        for level in reversed(range(LEVELS)):
            joined = torch.cat([features[level], (past or features)[level]], dim=1)
            result = self.decoders[level](joined, result)
        return frame + self.upsampler(result), features


class DsTfn(RecurrentPeer):
    """The published network, which sees the past only. It pads by itself: before either stage, as published."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("ds-tfn", past=2))
        self.first, self.confidence, self.second = MapNet(), Confidence(), Refinement()

    def step(self, frame: Tensor, state: Past | None) -> tuple[Tensor, Past]:
        past = state or Past(Memory(), (), ())
        height, width = frame.shape[-2:]
        padded = pad_to_multiple(frame, DIVISOR)
        encoded = self.first.encode(padded)
        scene, memory = self.first.decode(encoded, past.memory)
        prior = encoded[0][:, :WIDTH]
        share, hidden = self.confidence(prior, past.confidence)
        restored = padded + self.first.upsampler(scene * (1 - share) + prior * share)
        again = pad_to_multiple(restored[..., :height, :width], DIVISOR)
        refined, features = self.second(again, past.features)
        return refined[..., :height, :width], Past(memory, hidden, features)
