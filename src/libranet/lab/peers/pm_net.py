"""PM-Net (Liu et al., ACM MM 2022): phases of the spectrum help a frame to read from a memory of the frame before.

The fact sheet gives the sizes of its large parts, and the rest follows from them: every part below adds up to the
official count. Not settled by counts, and chosen here: the phase of the memory is that of the past hazy frame, and the
first frame of a stream is its own past. Layers that the official network has and does not use are kept as `unused`.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.convolutions import conv
from libranet.lab.peers.mix_transformer import MixTransformer
from libranet.network.peer import PeerConfig, RecurrentPeer

IMAGE_WIDTHS, PHASE_WIDTHS = (64, 128, 320, 512), (16, 32, 50, 80)
KEY_WIDTH, VALUE_WIDTH = 256, 512
WIDTH = 256  # maps of the head
LEVEL_BLOCKS, LATE_BLOCKS = 16, 4
SQUEEZE = 16


@dataclass(frozen=True)
class Past:
    """What a stream remembers."""

    hazy: Tensor  # [B, 3, H, W]
    restored: Tensor  # [B, 3, H, W]


class Encoder(nn.Module):
    """A Mix Transformer on a frame of half the size: features at 1/8, 1/16, 1/32 and 1/64."""

    def __init__(self, widths: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.halve = nn.Conv2d(3, 3, 2, stride=2)
        self.transformer = MixTransformer(widths)
        self.unused = nn.ModuleList(nn.Conv2d(2 * width, width, 3, padding=1) for width in widths[:-1])

    def forward(self, x: Tensor) -> list[Tensor]:
        return self.transformer(self.halve(x))


class Memory(nn.Module):
    """Reads values of the past frame at 1/64, by image and by phase, from image and from phase: four reads."""

    def __init__(self) -> None:
        super().__init__()
        image, phase = IMAGE_WIDTHS[-1], PHASE_WIDTHS[-1]
        self.query, self.phase_query = conv(image, KEY_WIDTH), conv(phase, KEY_WIDTH)
        self.key, self.phase_key = conv(image, KEY_WIDTH), conv(phase, KEY_WIDTH)
        self.own_value, self.past_value = conv(image, VALUE_WIDTH), conv(image, VALUE_WIDTH)
        self.join = conv(2 * VALUE_WIDTH, image)

    def forward(
        self,
        frame: Tensor,  # [B, 512, h, w]
        phase: Tensor,  # [B, 80, h, w]
        past: Tensor,  # [B, 512, h, w]
        past_phase: Tensor,  # [B, 80, h, w]
    ) -> Tensor:  # [B, 512, h, w]
        queries = (_tokens(self.query(frame)), _tokens(self.phase_query(phase)))
        keys = (_tokens(self.key(past)), _tokens(self.phase_key(past_phase)))
        value = _tokens(self.past_value(past))
        found = torch.zeros_like(value)
        for query, key in itertools.product(queries, keys):
            found = found + F.scaled_dot_product_attention(query, key, value)
        read = found[:, 0].transpose(1, 2).unflatten(2, frame.shape[-2:])
        return frame + self.join(torch.cat([read, self.own_value(frame)], dim=1))


class Block(nn.Module):
    """A residual block with attention to channels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(WIDTH, WIDTH), nn.ReLU(inplace=True), conv(WIDTH, WIDTH))
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(WIDTH, WIDTH // SQUEEZE, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(WIDTH // SQUEEZE, WIDTH, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        found = self.body(x)
        return x + found * self.weigh(found)


class Head(nn.Module):
    """Brings four levels to 1/8, joins them, and enlarges the result to the frame."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.ModuleList(nn.Linear(width, WIDTH) for width in IMAGE_WIDTHS)
        self.levels = nn.ModuleList(
            nn.Sequential(*(Block() for _ in range(LEVEL_BLOCKS)), *(_doubling() for _ in range(level)))
            for level in range(len(IMAGE_WIDTHS))
        )
        self.join = nn.Sequential(
            nn.Conv2d(len(IMAGE_WIDTHS) * WIDTH, WIDTH, 1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU(inplace=True)
        )
        self.enlarge = nn.Sequential(
            *(Block() for _ in range(LATE_BLOCKS)),
            _doubling(),
            _doubling(),
            *(Block() for _ in range(LATE_BLOCKS)),
            _doubling(),
        )
        self.out = nn.Conv2d(WIDTH, 3, 1)
        self.unused = nn.Conv2d(WIDTH // 2, 3, 1)

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        found = [
            level(enter(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
            for x, enter, level in zip(features, self.enter, self.levels, strict=True)
        ]
        return self.out(self.enlarge(self.join(torch.cat(found, dim=1))))


class PmNet(RecurrentPeer):
    """The published network. As a stream it takes the frame before and what it made of it."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("pm-net", past=1, divisor=64))
        self.pair = conv(6, 3)
        self.image, self.past_image = Encoder(IMAGE_WIDTHS), Encoder(IMAGE_WIDTHS)
        self.phase, self.past_phase = Encoder(PHASE_WIDTHS), Encoder(PHASE_WIDTHS)
        self.memory = Memory()
        self.head = Head()

    def step(self, frame: Tensor, state: Past | None) -> tuple[Tensor, Past]:
        past = state or Past(frame, frame)
        features = self.image(frame)
        features[-1] = self.memory(
            features[-1],
            self.phase(_phase(frame))[-1],
            self.past_image(self.pair(torch.cat([past.hazy, past.restored], dim=1)))[-1],
            self.past_phase(_phase(past.hazy))[-1],
        )
        restored = frame + self.head(features)
        return restored, Past(frame, restored)


def _tokens(x: Tensor) -> Tensor:  # [B, C, h, w] -> [B, 1, h w, C]
    return x.flatten(2).transpose(1, 2).contiguous()[:, None]


def _doubling() -> nn.Sequential:
    return nn.Sequential(conv(WIDTH, 4 * WIDTH), nn.PixelShuffle(2), nn.ReLU(inplace=True))


def _phase(frame: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 3, H, W] in [0, pi]
    """The absolute phase of the spectrum. In float32: half has no transform of every size."""
    return torch.fft.fft2(frame.float()).angle().abs().to(frame.dtype)
