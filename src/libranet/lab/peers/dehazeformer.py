"""DehazeFormer (Song et al., TIP 2023): window attention with a norm that hands its statistics on, sizes T, S and B."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.network.padding import ReflectConv, reflect_pad
from libranet.network.peer import Peer, PeerConfig

WINDOW = 8
WIDTHS, HEADS, MLP_RATIOS = (24, 48, 96, 48, 24), (2, 4, 6), (2, 4, 4, 2, 2)


@dataclass(frozen=True)
class Size:
    """What the three sizes differ in."""

    depths: tuple[int, ...]  # blocks of the five stages
    attention: tuple[float, ...]
    """The share of a stage's blocks, its last ones, that have attention."""


SIZES = {
    "t": Size((4, 4, 4, 2, 2), (0, 1 / 2, 1, 0, 0)),
    "s": Size((8, 8, 8, 4, 4), (1 / 4, 1 / 2, 3 / 4, 0, 0)),
    "b": Size((16, 16, 16, 8, 8), (1 / 4, 1 / 2, 3 / 4, 0, 0)),
}


class RescaleNorm(nn.Module):
    """Normalises over channels and pixels together, and predicts from the statistics how to undo it later."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width, 1, 1))
        self.beta = nn.Parameter(torch.zeros(width, 1, 1))
        self.scale, self.shift = nn.Conv2d(1, width, 1), nn.Conv2d(1, width, 1)
        nn.init.trunc_normal_(self.scale.weight, std=0.02)
        nn.init.ones_(self.scale.bias)  # type: ignore[arg-type]
        nn.init.trunc_normal_(self.shift.weight, std=0.02)
        nn.init.zeros_(self.shift.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        wide = x.float()  # half precision cannot hold sums over a 4K map
        mean = wide.mean(dim=(1, 2, 3), keepdim=True)
        std = ((wide - mean).square().mean(dim=(1, 2, 3), keepdim=True) + 1e-5).sqrt()
        normal = ((wide - mean) / std).to(x.dtype) * self.gamma + self.beta
        return normal, self.scale(std.to(x.dtype)), self.shift(mean.to(x.dtype))


class Mix(nn.Module):
    """Mixing over space: a depth-wise convolution. Subclasses add attention to it."""

    def __init__(self, width: int, *, attention: bool, gain: float) -> None:
        super().__init__()
        self.value, self.project = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.local = ReflectConv(width, width, 5, groups=width)
        self.query_key = nn.Conv2d(width, 2 * width, 1) if attention else None
        for conv in (self.value, self.project, self.local, self.query_key):
            if conv is not None:
                _initialise(conv, 1.0 if conv is self.query_key else gain)

    def forward(self, x: Tensor) -> Tensor:
        value = self.value(x)
        mixed = self.local(value)
        if self.query_key is not None:
            mixed = mixed + self.attend(torch.cat([self.query_key(x), value], dim=1))
        return self.project(mixed)

    def attend(self, qkv: Tensor) -> Tensor:  # [B, 3C, H, W] -> [B, C, H, W]
        """Mix values by attention."""
        raise NotImplementedError


class WindowAttention(Mix):
    """Attention inside 8x8 windows. Odd blocks shift the windows by half."""

    offsets: Tensor

    def __init__(self, width: int, heads: int, *, shifted: bool, gain: float) -> None:
        super().__init__(width, attention=True, gain=gain)
        self.heads, self.shifted = heads, shifted
        self.position = nn.Sequential(nn.Linear(2, 256), nn.ReLU(inplace=True), nn.Linear(256, heads))
        self.register_buffer("offsets", _log_offsets(), persistent=False)

    def attend(self, qkv: Tensor) -> Tensor:
        """Attend inside windows of the map, continued by reflection to whole ones."""
        height, width = qkv.shape[-2:]
        before = WINDOW // 2 if self.shifted else 0
        right, bottom = ((-(before + size)) % WINDOW for size in (width, height))
        padded = reflect_pad(qkv, before, right, before, bottom)
        rows, columns = padded.shape[-2] // WINDOW, padded.shape[-1] // WINDOW
        windows = padded.unflatten(3, (columns, WINDOW)).unflatten(2, (rows, WINDOW))  # [B, 3C, r, 8, c, 8]
        windows = windows.unflatten(1, (3, self.heads, -1)).permute(1, 0, 4, 6, 2, 5, 7, 3).flatten(5, 6).flatten(1, 3)
        q, k, v = windows.unbind(0)  # [B r c, heads, 64, d]
        bias = self.position(self.offsets).permute(2, 0, 1).to(q.dtype)  # [heads, 64, 64]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])
        out = out.unflatten(2, (WINDOW, WINDOW)).unflatten(0, (-1, rows, columns))  # [B, r, c, heads, 8, 8, d]
        out = out.permute(0, 3, 6, 1, 4, 2, 5).flatten(5, 6).flatten(3, 4).flatten(1, 2)
        return out[..., before : before + height, before : before + width]


class Block(nn.Module):
    """A residual block: mixing over space, then over channels. With attention, a norm comes first."""

    def __init__(self, width: int, mix: Mix, ratio: int, *, gain: float) -> None:
        super().__init__()
        self.norm = None if mix.query_key is None else RescaleNorm(width)
        self.mix = mix
        self.mlp = nn.Sequential(
            nn.Conv2d(width, ratio * width, 1), nn.ReLU(inplace=True), nn.Conv2d(ratio * width, width, 1)
        )
        for layer in (self.mlp[0], self.mlp[2]):
            _initialise(layer, gain)

    def forward(self, x: Tensor) -> Tensor:
        if self.norm is None:
            x = x + self.mix(x)
        else:
            normal, scale, shift = self.norm(x)
            x = x + self.mix(normal) * scale + shift
        return x + self.mlp(x)


class SelectiveFusion(nn.Module):
    """A weighted sum of two maps; softmax weights per channel from the mean of their sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = max(width // 8, 4)
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(width, hidden, 1, bias=False),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, 2 * width, 1, bias=False),
        )

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        first, second = self.weigh(a + b).unflatten(1, (2, -1)).softmax(dim=1).unbind(1)
        return a * first + b * second


AttentionMaker = Callable[[int, int, bool, float], Mix]
"""Makes the mixing of a block with attention from its stage, width, whether it is every second block, and gain."""


class HazeFormer(Peer):
    """Five stages, down and up again. The first three are as many times wider as there are frames, stacked in time."""

    def __init__(self, config: PeerConfig, size: str, attention: AttentionMaker) -> None:
        super().__init__(config)
        depths, shares = SIZES[size].depths, SIZES[size].attention
        gain = (8 * sum(depths)) ** -0.25
        frames = config.past + 1 + config.future
        fine, coarse, deep = (frames * width for width in WIDTHS[:3])
        self.embed = ReflectConv(3 * frames, fine, 3)
        self.merges = nn.ModuleList(nn.Conv2d(a, b, 2, stride=2) for a, b in ((fine, coarse), (coarse, deep)))
        self.stages = nn.ModuleList()
        for stage, width in enumerate((fine, coarse, deep, *WIDTHS[3:])):
            plain = round(depths[stage] * (1 - shares[stage]))
            mixes = [Mix(width, attention=False, gain=gain) for _ in range(plain)]
            mixes += [attention(stage, width, i % 2 == 1, gain) for i in range(plain, depths[stage])]
            self.stages.append(nn.Sequential(*(Block(width, mix, MLP_RATIOS[stage], gain=gain) for mix in mixes)))
        self.splits = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, 4 * b, 1), nn.PixelShuffle(2)) for a, b in pairwise(WIDTHS[2:])
        )
        self.skips = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in zip((coarse, fine), WIDTHS[3:], strict=True))
        self.fusions = nn.ModuleList(SelectiveFusion(width) for width in WIDTHS[3:])
        self.out = ReflectConv(WIDTHS[-1], 4, 3)

    def join(self, stage: int, x: Tensor) -> Tensor:
        """What happens to the features after one of the first three stages."""
        return x

    def restore(self, frames: Tensor) -> Tensor:
        """Restore the centre frame: the network predicts K and B of J = K I - B + I, on values from -1 to 1."""
        frames = frames * 2 - 1
        image = frames[:, self.config.past]
        fine = self.join(0, self.stages[0](self.embed(frames.flatten(1, 2))))
        coarse = self.join(1, self.stages[1](self.merges[0](fine)))
        x = self.join(2, self.stages[2](self.merges[1](coarse)))
        for index, skip in enumerate((coarse, fine)):
            x = self.splits[index](x)
            x = self.fusions[index](x, self.skips[index](skip)) + x
            x = self.stages[3 + index](x)
        k, b = self.out(x).split([1, 3], dim=1)
        return (k * image - b + image) * 0.5 + 0.5


class DehazeFormer(HazeFormer):
    """The published network in one of its sizes."""

    def __init__(self, size: str) -> None:
        super().__init__(PeerConfig(f"dehazeformer-{size}", divisor=4), size, _window_attention)


def _window_attention(stage: int, width: int, odd: bool, gain: float) -> Mix:
    return WindowAttention(width, HEADS[stage], shifted=odd, gain=gain)


def _log_offsets() -> Tensor:  # [64, 64, 2]
    """Offsets between the pixels of a window, compressed by a logarithm that keeps the sign."""
    axis = torch.arange(WINDOW)
    places = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).flatten(0, 1).float()
    offsets = places[:, None] - places[None]
    return offsets.sign() * (1 + offsets.abs()).log()


def _initialise(conv: nn.Module, gain: float) -> None:
    assert isinstance(conv, nn.Conv2d)
    inputs, outputs = nn.init._calculate_fan_in_and_fan_out(conv.weight)
    nn.init.trunc_normal_(conv.weight, std=gain * (2 / (inputs + outputs)) ** 0.5)
    nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
