"""UHDformer (Wang et al., AAAI 2024): blocks at an eighth of the size that take features from the full size."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.convnext import ChannelNorm
from libranet.network.peer import Peer, PeerConfig

WIDTH, HEADS, SCALE = 16, 8, 8
GROUPS, BLOCKS = 5, 3
KEPT = 4  # channels that a matching transfer keeps from each of the two poolings


class FullBlock(nn.Module):
    """A residual block at full size, nearly the identity at first."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.expand, self.reduce = nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)
        self.gamma = nn.Parameter(torch.full((WIDTH, 1, 1), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gamma * self.reduce(F.gelu(self.expand(self.conv(x))))


class HighFeatures(nn.Module):
    """The features of the full size that every block may draw from."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(FullBlock() for _ in range(3))
        self.mix = nn.Conv2d(3 * WIDTH, 3 * WIDTH, 1)
        self.modulate = nn.Conv2d(3 * WIDTH, 6 * WIDTH, 3, padding=1, groups=3 * WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = []
        for block in self.blocks:
            x = block(x)
            found.append(x)
        features = torch.cat(found, dim=1)
        weight, offset = self.modulate(self.mix(features)).chunk(2, dim=1)
        return weight.softmax(dim=1) * features + offset, x


class MatchingTransfer(nn.Module):
    """Replaces low-size channels by the pooled full-size channels that they resemble most."""

    def __init__(self) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(3 * WIDTH, WIDTH, 1)
        self.gate = nn.Sequential(
            nn.Conv2d(2 * KEPT, 4 * WIDTH, 1),
            nn.Conv2d(4 * WIDTH, 4 * WIDTH, 3, padding=1, groups=4 * WIDTH),
            nn.GELU(),
            nn.Conv2d(4 * WIDTH, 2 * KEPT, 1),
        )
        self.project = nn.Conv2d(2 * KEPT, WIDTH, 1)

    def forward(self, x: Tensor, high: Tensor) -> Tensor:
        reduced = self.reduce(high)
        pooled = (F.max_pool2d(reduced, SCALE), F.avg_pool2d(reduced, SCALE))
        matched = torch.cat([self._match(x, features) for features in pooled], dim=1)
        return self.project(matched * self.gate(matched))

    def _match(self, x: Tensor, features: Tensor) -> Tensor:  # [B, 16, h, w] twice -> [B, 4, h, w]
        with torch.no_grad():  # half precision cannot hold sums of squares over a map
            distances = torch.cdist(x.detach().float().flatten(2), features.detach().float().flatten(2))
            nearest, partner = distances.min(dim=2)
            kept = nearest.topk(KEPT, dim=1, largest=False).indices.sort(dim=1).values
            chosen = partner.gather(1, kept)
        return features.gather(1, chosen[:, :, None, None].expand(-1, -1, *features.shape[-2:]))


class Attention(nn.Module):
    """Attention between channels whose queries are matched with the full size."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Conv2d(WIDTH, 3 * WIDTH, 1)
        self.local = nn.Conv2d(3 * WIDTH, 3 * WIDTH, 3, padding=1, groups=3 * WIDTH)
        self.transfer = MatchingTransfer()
        self.temperature = nn.Parameter(torch.ones(HEADS, 1, 1))
        self.project = nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor, high: Tensor) -> Tensor:
        q, k, v = self.local(self.qkv(x)).chunk(3, dim=1)
        q = self.transfer(q, high)
        q, k, v = (t.flatten(2).unflatten(1, (HEADS, -1)) for t in (q, k, v))  # [B, heads, 2, h w]
        q, k = (F.normalize(t.float(), dim=-1) for t in (q, k))
        weights = (q @ k.transpose(-1, -2) * self.temperature).softmax(dim=-1)
        mixed = (weights.to(v.dtype) @ v).flatten(1, 2).unflatten(2, x.shape[-2:])
        return self.project(mixed)


class FeedForward(nn.Module):
    """A feed-forward layer with a matching transfer in its middle."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(WIDTH, 64, 1), nn.Conv2d(64, WIDTH, 3, padding=1, groups=WIDTH))
        self.transfer = MatchingTransfer()
        self.leave = nn.Sequential(nn.Conv2d(WIDTH, 64, 3, padding=1, groups=WIDTH), nn.Conv2d(64, WIDTH, 1))

    def forward(self, x: Tensor, high: Tensor) -> Tensor:
        return self.leave(self.transfer(self.enter(x), high))


class Block(nn.Module):
    """Attention and feed-forward at an eighth of the size."""

    def __init__(self) -> None:
        super().__init__()
        self.high_norm = ChannelNorm(3 * WIDTH)
        self.first_norm, self.second_norm = ChannelNorm(WIDTH), ChannelNorm(WIDTH)
        self.attention, self.feed_forward = Attention(), FeedForward()

    def forward(self, x: Tensor, high: Tensor) -> Tensor:
        high = self.high_norm(high)
        x = x + self.attention(self.first_norm(x), high)
        return x + self.feed_forward(self.second_norm(x), high)


class UhdFormer(Peer):
    """The published network."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("uhdformer", divisor=SCALE))
        self.embed = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.high = HighFeatures()
        self.reduce = nn.Conv2d(WIDTH, WIDTH, SCALE, stride=SCALE, bias=False)
        self.groups = nn.ModuleList(nn.ModuleList(Block() for _ in range(BLOCKS)) for _ in range(GROUPS))
        self.enlarge = nn.Sequential(
            nn.Conv2d(WIDTH, WIDTH * SCALE**2, 3, padding=1, bias=False), nn.PixelShuffle(SCALE)
        )
        self.fuse = nn.Conv2d(2 * WIDTH, WIDTH, 1)
        self.out = nn.Sequential(FullBlock(), FullBlock(), nn.Conv2d(WIDTH, 3, 3, padding=1))

    def restore(self, frames: Tensor) -> Tensor:
        frame = frames[:, 0]
        embedded = self.embed(frame)
        high, detail = self.high(embedded)
        start = x = self.reduce(embedded)
        for group in self.groups:
            residual = x
            for block in group:  # type: ignore[attr-defined]
                residual = block(residual, high)
            x = x + 0.2 * residual
        enlarged = self.enlarge(x + start)
        return self.out(self.fuse(torch.cat([enlarged, detail], dim=1))) + frame
