"""DVD (Fan et al., CVPR 2024), second stage: the previous frame aligned to the current one, and both fused.

The network doubles the size of its input, so it gets the frames at half size. Its frozen first stage, trained without
pairs, is left out, as supervised comparisons may do.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.convolutions import Residual, conv, double
from libranet.lab.peers.deformable import DeformableConv, sample
from libranet.lab.peers.spynet import SpyNet
from libranet.network.peer import Peer, PeerConfig

WIDTH, HEADS, GROUPS = 64, 8, 8
SCALES = 3
SEARCH = 7  # side of the window, around where the flow points, that the alignment attends to
POOL = 4
LARGEST_OFFSET = 10.0


class Features(nn.Module):
    """Features of one frame at its size, a half and a quarter."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(conv(3, WIDTH), nn.LeakyReLU(0.1), *(Residual(WIDTH) for _ in range(5)))
        self.downs = nn.ModuleList(
            nn.Sequential(conv(WIDTH, WIDTH, stride=2), nn.LeakyReLU(0.1), conv(WIDTH, WIDTH), nn.LeakyReLU(0.1))
            for _ in range(SCALES - 1)
        )

    def forward(self, frame: Tensor) -> list[Tensor]:
        found = [self.first(frame)]
        for down in self.downs:
            found.append(down(found[-1]))
        return found


class CosineMatch(nn.Module):
    """Attention of the previous features to the current ones in a window around where the flow points."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.project = (nn.Conv2d(WIDTH, WIDTH, 1, bias=False) for _ in range(4))

    def forward(self, previous: Tensor, current: Tensor, flow: Tensor) -> Tensor:
        query = _heads(self.query(previous))
        key, value = self.key(current), self.value(current)
        radius = SEARCH // 2
        steps = [(x, y) for y in range(-radius, radius + 1) for x in range(-radius, radius + 1)]
        moved = [flow + flow.new_tensor(step).view(2, 1, 1) for step in steps]
        # One place of the window at a time: all 49 together would take 49 times the memory of a map.
        logits = torch.stack([(query * _heads(sample(key, place))).sum(dim=2) for place in moved])
        weights = logits.softmax(dim=0)  # [49, B, heads, H, W]
        mixed = torch.zeros_like(value)
        for weight, place in zip(weights, moved, strict=True):
            mixed = mixed + (sample(value, place).unflatten(1, (HEADS, -1)) * weight[:, :, None]).flatten(1, 2)
        return self.project(mixed)


class Align(nn.Module):
    """Brings the previous features to the current frame, coarse to fine, then once more."""

    def __init__(self) -> None:
        super().__init__()
        self.match = CosineMatch()
        self.enter = nn.ModuleList(conv(2 * WIDTH + 2, WIDTH) for _ in range(SCALES))
        self.merge = nn.ModuleList(conv(2 * WIDTH, WIDTH) for _ in range(SCALES - 1))
        self.leave = nn.ModuleList(conv(WIDTH, WIDTH) for _ in range(SCALES))
        self.deform = nn.ModuleList(DeformableConv(WIDTH, groups=GROUPS, largest=LARGEST_OFFSET) for _ in range(SCALES))
        self.fuse = nn.ModuleList(conv(2 * WIDTH, WIDTH) for _ in range(SCALES - 1))
        self.cascade = nn.Sequential(conv(2 * WIDTH, WIDTH), nn.LeakyReLU(0.1), conv(WIDTH, WIDTH), nn.LeakyReLU(0.1))
        self.last = DeformableConv(WIDTH, groups=GROUPS)

    def forward(self, previous: list[Tensor], current: list[Tensor], flows: list[Tensor]) -> Tensor:
        offset: Tensor | None = None
        aligned: Tensor | None = None
        for level in reversed(range(SCALES)):
            matched = self.match(previous[level], current[level], flows[level])
            hidden = _lrelu(self.enter[level](torch.cat([matched, current[level], flows[level]], dim=1)))
            if offset is not None:
                hidden = _lrelu(self.merge[level](torch.cat([hidden, 2 * double(offset)], dim=1)))
            offset = _lrelu(self.leave[level](hidden))
            taken = self.deform[level](previous[level], offset, flows[level])
            if aligned is not None:
                taken = self.fuse[level](torch.cat([taken, double(aligned)], dim=1))
            aligned = _lrelu(taken) if level else taken
        return self.last(aligned, self.cascade(torch.cat([aligned, current[0]], dim=1)))  # type: ignore[list-item]


class Fuse(nn.Module):
    """Attention of every aligned pixel to the whole current frame, pooled, then both joined."""

    def __init__(self) -> None:
        super().__init__()
        half = WIDTH // 2
        self.theta, self.phi, self.value = (nn.Conv2d(WIDTH, half, 1) for _ in range(3))
        self.deform = DeformableConv(half, groups=1)
        self.project = nn.Conv2d(half, WIDTH, 1)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)  # type: ignore[arg-type]
        self.join = conv(2 * WIDTH, WIDTH)

    def forward(self, aligned: Tensor, current: Tensor) -> Tensor:
        phi, value = (F.max_pool2d(layer(current), POOL) for layer in (self.phi, self.value))
        phi, value = self.deform(phi, phi), self.deform(value, value)
        # Contiguous channels, or torch holds the product of all places with all pooled places: 540 GB at 4K.
        query, key, values = (x.flatten(2).transpose(1, 2).contiguous() for x in (self.theta(aligned), phi, value))
        query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
        mixed = F.scaled_dot_product_attention(query[:, None], key[:, None], values[:, None], scale=1.0)[:, 0]
        result = aligned + self.project(mixed.transpose(1, 2).unflatten(2, aligned.shape[-2:]))
        return self.join(torch.cat([result, current], dim=1))


class Dvd(Peer):
    """The published second stage. `show` draws the aligned features for one of its losses and is unused here."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("dvd", past=1, divisor=8 * POOL // 2))
        self.flow, self.features = SpyNet(), Features()
        self.align, self.fuse = Align(), Fuse()
        self.trunk = nn.Sequential(*(Residual(WIDTH) for _ in range(10)))
        self.out = nn.Sequential(
            conv(WIDTH, 2 * WIDTH),
            nn.PixelShuffle(2),
            nn.LeakyReLU(0.1),
            conv(WIDTH // 2, WIDTH // 2),
            nn.LeakyReLU(0.1),
            conv(WIDTH // 2, 3),
        )
        self.show = conv(WIDTH, 3)

    def restore(self, frames: Tensor) -> Tensor:
        previous, current = (F.avg_pool2d(frame, 2) for frame in frames.unbind(1))
        flows = self.flow(current, previous, scales=SCALES)
        before, now = self.features(previous), self.features(current)
        fused = self.fuse(self.align(before, now, flows), now[0])
        return self.out(self.trunk(fused)) + double(current)


def _heads(x: Tensor) -> Tensor:  # [B, C, H, W] -> [B, heads, C / heads, H, W], unit vectors
    return F.normalize(x.unflatten(1, (HEADS, -1)), dim=2)


def _lrelu(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.1)
