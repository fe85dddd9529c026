"""MAP-Net (Xu et al., CVPR 2023): a haze prior with a memory of all past frames, and scene features aligned over three.

The official network multiplies horizontal flow by the height of a map and vertical flow by its width. That is kept.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.convnext import WIDTHS, ChannelNorm, ConvNextTiny
from libranet.lab.peers.convolutions import Residual, conv, double
from libranet.lab.peers.swin import relative_index
from libranet.losses.perceptual import ImageNetNormalise
from libranet.network.peer import PeerConfig, RecurrentPeer

LEVELS, WIDTH, BINS, RANGES = 4, 32, 32, 3
KERNELS = (9, 7, 5, 3)  # depth-wise kernel of the offset network, level by level
MEMORY_LEVELS = (2, 3)  # levels whose prior is read from the memory
MEMORY_FRAMES = 32
"""Frames that the memory of prior tokens holds. The official one grows without end."""
ATTENTION_WINDOW = 7


@dataclass(frozen=True)
class Memory:
    """What a stream remembers, level by level; lists have the newest frame first."""

    scenes: tuple[tuple[Tensor, ...], ...] = ((),) * LEVELS  # [B, 32, h, w] each, at most three
    priors: tuple[tuple[Tensor, ...], ...] = ((),) * LEVELS  # likewise, the enhanced priors
    tokens: tuple[tuple[Tensor, ...], ...] = ((),) * LEVELS  # [B, 32 tokens, 32] each


def upsampler() -> nn.Sequential:
    return nn.Sequential(conv(WIDTH, 4 * WIDTH), nn.PixelShuffle(2))


class NearIdentity(Residual):
    """A residual block, near the identity at first."""

    def __init__(self) -> None:
        super().__init__(WIDTH)
        for layer in (self.body[0], self.body[2]):
            nn.init.kaiming_normal_(layer.weight)  # type: ignore[arg-type]
            layer.weight.data.mul_(0.1)  # type: ignore[operator, union-attr]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]


def guided_fusion() -> nn.Sequential:
    """Make the layers that join two maps."""
    return nn.Sequential(conv(2 * WIDTH, WIDTH), nn.LeakyReLU(0.1), NearIdentity(), NearIdentity())


class PriorLayer(nn.Module):
    """Predicts transmission and airlight of a level, and enhances its features by the memory."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self.up = self.mix = None
        if level < LEVELS - 1:
            self.up = upsampler()
            self.mix = nn.Sequential(conv(WIDTH, WIDTH), nn.ReLU(), conv(WIDTH, WIDTH), nn.ReLU())
        self.transmission = nn.Sequential(conv(WIDTH, WIDTH), nn.LeakyReLU(0.1), nn.Conv2d(WIDTH, BINS, 1))
        self.airlight = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(WIDTH, WIDTH, 1), nn.LeakyReLU(0.1), nn.Conv2d(WIDTH, 1, 1), nn.Sigmoid()
        )
        self.remembers = level in MEMORY_LEVELS

    def forward(
        self, prior: Tensor, coarser: Tensor | None, past: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the features, the enhanced features, and this frame's tokens where the level has a memory."""
        features = prior
        if self.up is not None and self.mix is not None:
            features = self.mix(prior + self.up(coarser))
        if not self.remembers:
            return features, features, None
        shares = self.transmission(features).softmax(dim=1).flatten(2)  # [B, bins, h w]
        flat = features.flatten(2)  # [B, 32, h w]
        tokens = shares @ flat.transpose(1, 2) / flat.shape[-1]  # [B, bins, 32]
        memory = torch.cat([tokens, *past], dim=1)
        enhanced = F.scaled_dot_product_attention(flat.transpose(1, 2), memory, memory)
        return features, enhanced.transpose(1, 2).unflatten(2, features.shape[-2:]), tokens


class Align(nn.Module):
    """Samples past maps where a small network says, and attends to them inside windows."""

    index: Tensor

    def __init__(self, kernel: int) -> None:
        super().__init__()
        inputs = 2 * WIDTH + 3
        self.offset = nn.Sequential(
            nn.Conv2d(inputs, inputs, kernel, padding=kernel // 2, groups=inputs),
            ChannelNorm(inputs),
            nn.GELU(),
            nn.Conv2d(inputs, 3, 1, bias=False),
        )
        side = 2 * ATTENTION_WINDOW - 1
        self.bias = nn.Parameter(torch.zeros(side * side))
        self.query, self.key_value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.first_norm, self.second_norm = ChannelNorm(WIDTH), ChannelNorm(WIDTH)
        self.feed_forward = nn.Sequential(
            nn.Conv2d(WIDTH, 2 * WIDTH, 1),
            nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1, groups=2 * WIDTH),
            nn.GELU(),
            nn.Conv2d(2 * WIDTH, WIDTH, 1),
        )
        self.register_buffer("index", relative_index(ATTENTION_WINDOW), persistent=False)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(
        self,
        scene: Tensor,  # [B, 32, h, w]
        past: Tensor,  # [B, 32, r, h, w]
        positions: Tensor | None,  # [B, 3, h, w] in [0, 1]: x, y, z
    ) -> tuple[Tensor, Tensor]:
        """Return the aligned map and the positions that it was sampled at."""
        span, height, width = past.shape[2:]
        reference = _centres(scene)
        positions = reference if positions is None else positions
        warped = warp(past, positions, reference)
        scale = positions.new_tensor([height, width, span]).view(3, 1, 1)  # x by the height, as published
        flow = ((positions - reference) * scale).to(scene.dtype).expand(len(scene), -1, -1, -1)
        offset = self.offset(torch.cat([scene, warped, flow], dim=1)).float()
        positions = positions + offset / positions.new_tensor([width, height, span]).view(3, 1, 1)
        value = warp(past, positions, reference)
        attended = scene + self.first_norm(self._attend(scene, value))
        return attended + self.second_norm(self.feed_forward(attended)), positions

    def _attend(self, scene: Tensor, value: Tensor) -> Tensor:
        size = ATTENTION_WINDOW
        height, width = scene.shape[-2:]
        padding = (0, -width % size, 0, -height % size)
        query, source = (
            F.pad(x, padding).unflatten(3, (-1, size)).unflatten(2, (-1, size)).permute(0, 2, 4, 3, 5, 1)
            for x in (scene, value)
        )
        shape = query.shape  # [B, rows, columns, 7, 7, 32]
        query, source = (x.flatten(3, 4).flatten(0, 2) for x in (query, source))  # [N, 49, 32]
        key, values = self.key_value(source).chunk(2, dim=-1)
        bias = self.bias[self.index].to(query.dtype)
        mixed = F.scaled_dot_product_attention(self.query(query), key, values, attn_mask=bias[None])
        mixed = self.project(mixed).reshape(shape).permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)
        return mixed[..., :height, :width]


class SceneLayer(nn.Module):
    """Decodes the scene of a level from its own features and from aligned features of up to three past frames."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self.up = upsampler() if level < LEVELS - 1 else None
        self.guide = guided_fusion() if level in MEMORY_LEVELS else None
        self.align = Align(KERNELS[level])
        self.beta = nn.Parameter(torch.ones(()))
        self.fuse = guided_fusion()
        self.auxiliary = nn.Sequential(conv(WIDTH, WIDTH), nn.LeakyReLU(0.1), nn.Conv2d(WIDTH, 3, 1))

    def forward(
        self,
        scene: Tensor,
        prior: Tensor,
        coarser: Tensor | None,
        positions: list[Tensor] | None,
        past_scenes: tuple[Tensor, ...],
        past_priors: tuple[Tensor, ...],
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the decoded map and the positions of the three ranges."""
        if self.up is not None:
            scene = scene + self.up(coarser)
        if self.guide is not None:
            scene = self.guide(torch.cat([prior, scene], dim=1))
        past_scenes, past_priors = past_scenes or (scene,), past_priors or (prior,)
        aligned, scores, found = [], [], []
        for span in range(1, RANGES + 1):
            start = None if positions is None else double(positions[span - 1])
            a, places = self.align(scene, _stack(past_scenes, span), start)
            b = warp(_stack(past_priors, span), places, _centres(scene))
            scores.append(((scene * a).sum(dim=1) + self.beta * (prior * b).sum(dim=1)) / WIDTH**0.5)
            aligned.append(a)
            found.append(places)
        weights = torch.stack(scores).softmax(dim=0)
        mixed = torch.stack([w[:, None] * a for w, a in zip(weights, aligned, strict=True)]).sum(dim=0)
        return self.fuse(torch.cat([mixed, scene], dim=1)), found


def backbone_and_neck() -> tuple[ConvNextTiny, nn.ModuleList]:
    """Make the layers that turn a frame into 64 maps at 1/4, 1/8, 1/16 and 1/32 of its size."""
    return ConvNextTiny(), nn.ModuleList(nn.Conv2d(width, 2 * WIDTH, 1) for width in WIDTHS)


def image_head() -> nn.Sequential:
    """Make the layers that turn 32 maps at a quarter of the size into a correction of the frame, zero at first."""
    doublings = (layer for _ in range(2) for layer in (upsampler(), nn.LeakyReLU(0.1)))
    head = nn.Sequential(
        conv(WIDTH, WIDTH), nn.LeakyReLU(0.1), *doublings, conv(WIDTH, WIDTH), nn.LeakyReLU(0.1), conv(WIDTH, 3)
    )
    for parameter in head[-1].parameters():
        nn.init.zeros_(parameter)
    return head


class MapNet(RecurrentPeer):
    """The published network, which sees the past only. The heads for its auxiliary losses are there and unused."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("map-net", past=2, divisor=32))
        self.backbone, self.neck = backbone_and_neck()
        self.priors = nn.ModuleList(PriorLayer(level) for level in range(LEVELS))
        self.scenes = nn.ModuleList(SceneLayer(level) for level in range(LEVELS))
        self.upsampler = image_head()
        self.normalise = ImageNetNormalise()

    def step(self, frame: Tensor, state: Memory | None) -> tuple[Tensor, Memory]:
        decoded, memory = self.decode(self.encode(frame), state or Memory())
        return frame + self.upsampler(decoded), memory

    def encode(self, frame: Tensor) -> list[Tensor]:
        """Make the 64 maps of every level: 32 for the haze prior, then 32 for the scene."""
        found = self.backbone(self.normalise(frame))
        return [layer(x) for layer, x in zip(self.neck, found, strict=True)]

    def decode(self, features: list[Tensor], memory: Memory) -> tuple[Tensor, Memory]:
        """Decode the finest scene features, [B, 32, H / 4, W / 4], and remember this frame."""
        prior: Tensor | None = None
        decoded: Tensor | None = None
        positions: list[Tensor] | None = None
        scenes, priors, tokens = list(memory.scenes), list(memory.priors), list(memory.tokens)
        for level in reversed(range(LEVELS)):
            prior_input, scene_input = features[level].chunk(2, dim=1)
            prior, enhanced, new_tokens = self.priors[level](prior_input, prior, memory.tokens[level])
            decoded, positions = self.scenes[level](
                scene_input, enhanced, decoded, positions, memory.scenes[level], memory.priors[level]
            )
            scenes[level] = (decoded, *memory.scenes[level])[:RANGES]  # type: ignore[assignment]
            priors[level] = (enhanced, *memory.priors[level])[:RANGES]
            if new_tokens is not None:
                tokens[level] = (new_tokens, *memory.tokens[level])[:MEMORY_FRAMES]
        assert decoded is not None
        return decoded, Memory(tuple(scenes), tuple(priors), tuple(tokens))


def warp(
    past: Tensor,  # [B, 32, r, h, w]
    positions: Tensor,  # [B, 3, h, w] in [0, 1]
    reference: Tensor,  # [3, h, w]: the pixel centres
) -> Tensor:  # [B, 32, h, w]
    """Sample r stacked maps at positions in x, y and z. In float32: large maps need finer positions than half."""
    span, height, width = past.shape[2:]
    scale = positions.new_tensor([height, width, span]).view(3, 1, 1)
    flow = (positions - reference).expand(len(past), -1, -1, -1) * scale
    x = torch.arange(width, device=past.device) + flow[:, 0]
    y = torch.arange(height, device=past.device)[:, None] + flow[:, 1]
    x = 2 * x / max(width - 1, 1) - 1
    y = 2 * y / max(height - 1, 1) - 1
    z = (span / 2 + flow[:, 2]) * 2 / span - 1
    places = torch.stack([x, y, z], dim=-1)[:, None]
    return F.grid_sample(past.float(), places, align_corners=True)[:, :, 0].to(past.dtype)


def _centres(like: Tensor) -> Tensor:  # [3, h, w]
    height, width = like.shape[-2:]
    ys = (torch.arange(height, device=like.device) + 0.5) / height
    xs = (torch.arange(width, device=like.device) + 0.5) / width
    y, x = torch.meshgrid(ys, xs, indexing="ij")
    return torch.stack([x, y, torch.full_like(x, 0.5)])


def _stack(maps: tuple[Tensor, ...], span: int) -> Tensor:  # [B, 32, span, h, w], nearest first
    return torch.stack([maps[min(index, len(maps) - 1)] for index in range(span)], dim=2)
