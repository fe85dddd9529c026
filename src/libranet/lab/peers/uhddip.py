"""UHDDIP (Wang et al., TCSVT 2025): gradient and normal priors at an eighth of the size guide a low-cost network.

The official network gets surface normals from an outside estimator. There is none here: the normals of the brightness,
read as a height map, stand in for them.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.convnext import ChannelNorm
from libranet.network.padding import reflect_pad
from libranet.network.peer import Peer, PeerConfig

WIDTH, SCALE, HEADS, ROUNDS = 16, 8, 8, 3
FFN_HIDDEN = 42
POOL = 4
BLUR = (0.0545, 0.2442, 0.4026, 0.2442, 0.0545)  # a Gaussian of five taps, sigma 1


class NafBlock(nn.Module):
    """NAFNet's block: gates instead of activations."""

    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = ChannelNorm(WIDTH, eps=1e-6), ChannelNorm(WIDTH, eps=1e-6)
        self.enter = nn.Sequential(
            nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1, groups=2 * WIDTH)
        )
        self.attention = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(WIDTH, WIDTH, 1))
        self.leave = nn.Conv2d(WIDTH, WIDTH, 1)
        self.expand, self.reduce = nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)
        self.beta, self.gamma = (nn.Parameter(torch.zeros(WIDTH, 1, 1)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        hidden = _gate(self.enter(self.first_norm(x)))
        x = x + self.beta * self.leave(hidden * self.attention(hidden))
        return x + self.gamma * self.reduce(_gate(self.expand(self.second_norm(x))))


class CrossAttention(nn.Module):
    """Attention between channels: a prior asks the image features."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn_norm = ChannelNorm(WIDTH), ChannelNorm(WIDTH)
        self.query, self.key_value = nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, 2 * WIDTH, 1)
        self.local_query = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.local_key_value = nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1, groups=2 * WIDTH)
        self.temperature = nn.Parameter(torch.ones(HEADS, 1, 1))
        self.project = nn.Conv2d(WIDTH, WIDTH, 1)
        self.enter = nn.Sequential(
            nn.Conv2d(WIDTH, 2 * FFN_HIDDEN, 1),
            nn.Conv2d(2 * FFN_HIDDEN, 2 * FFN_HIDDEN, 3, padding=1, groups=2 * FFN_HIDDEN),
        )
        self.leave = nn.Conv2d(FFN_HIDDEN, WIDTH, 1)

    def forward(self, prior: Tensor, image: Tensor) -> Tensor:
        query = self.local_query(self.query(self.norm(prior)))
        key, value = self.local_key_value(self.key_value(image)).chunk(2, dim=1)
        q, k, v = (x.flatten(2).unflatten(1, (HEADS, -1)) for x in (query, key, value))
        q, k = (F.normalize(x.float(), dim=-1) for x in (q, k))
        weights = (q @ k.transpose(-1, -2) * self.temperature).softmax(dim=-1).to(v.dtype)
        prior = prior + self.project((weights @ v).flatten(1, 2).unflatten(2, prior.shape[-2:]))
        a, b = self.enter(self.ffn_norm(prior)).chunk(2, dim=1)
        return prior + self.leave(F.gelu(a) * b)


class PriorAttention(nn.Module):
    """Both priors ask the image features, which are normalised once."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = ChannelNorm(WIDTH)
        self.gradient, self.normal = CrossAttention(), CrossAttention()

    def forward(self, gradient: Tensor, normal: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        image = self.norm(image)
        return self.gradient(gradient, image), self.normal(normal, image)


class FilterSide(nn.Module):
    """What the mutual filter has for each of the two priors."""

    def __init__(self) -> None:
        super().__init__()
        self.compare, self.content = NafBlock(), NafBlock()
        self.features = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 3, padding=1))
        self.kernel = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 1), nn.ReLU(inplace=True), nn.Conv2d(WIDTH, 9, 1))
        self.modulate = nn.Conv2d(9, 9, 1)
        self.out = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)


class MutualFilter(nn.Module):
    """Each prior predicts small kernels that filter the other, where the two are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.gradient, self.normal = FilterSide(), FilterSide()
        self.alpha = nn.Parameter(torch.tensor(4.5))
        self.enlarge = nn.Sequential(nn.Conv2d(WIDTH, WIDTH * POOL**2, 3, padding=1, bias=False), nn.PixelShuffle(POOL))
        self.project = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, gradient: Tensor, normal: Tensor, image: Tensor) -> Tensor:
        height, width = gradient.shape[-2:]
        bottom, right = -height % (2 * POOL), -width % (2 * POOL)
        a, b = (F.avg_pool2d(reflect_pad(x, 0, right, 0, bottom), POOL) for x in (gradient, normal))
        near_a, near_b = (_neighbours(side.compare(x)) for side, x in ((self.gradient, a), (self.normal, b)))
        alike = F.cosine_similarity(near_a.flatten(1, 2), near_b.flatten(1, 2), dim=1)[:, None]
        content_a, content_b = self.gradient.content(a), self.normal.content(b)
        mixed = self._filter(self.gradient, a, content_b, alike) + self._filter(self.normal, b, content_a, alike)
        return self.project(self.enlarge(mixed)[..., :height, :width]) + image

    def _filter(self, side: FilterSide, prior: Tensor, other: Tensor, alike: Tensor) -> Tensor:
        kernel = side.kernel(side.features(prior))
        kernel = side.modulate(kernel * alike + kernel).tanh() / self.alpha
        kernel = kernel / (kernel.abs().sum(dim=1, keepdim=True) + 1e-4).clamp_min(1.0)
        return side.out((_neighbours(other) * kernel[:, None]).sum(dim=2) + other)


class Round(nn.Module):
    """One pass over the full size, the low size and the priors."""

    def __init__(self) -> None:
        super().__init__()
        self.full = nn.Sequential(NafBlock(), NafBlock())
        self.reduce = nn.Conv2d(WIDTH, WIDTH, SCALE, stride=SCALE, bias=False)
        self.gradient, self.normal = NafBlock(), NafBlock()
        self.attention, self.filter = PriorAttention(), MutualFilter()
        self.low = nn.Sequential(*(NafBlock() for _ in range(4)))
        self.enlarge = nn.Sequential(
            nn.Conv2d(WIDTH, WIDTH * SCALE**2, 3, padding=1, bias=False), nn.PixelShuffle(SCALE)
        )
        self.join = nn.Conv2d(2 * WIDTH, WIDTH, 1)

    def forward(
        self, x: Tensor, gradient: Tensor, normal: Tensor, *, last: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the full-size features, both priors, and the enlarged low-size features."""
        full = self.full(x)
        image = self.reduce(full)
        gradient, normal = self.attention(self.gradient(gradient), self.normal(normal), image)
        low = self.low(self.filter(gradient, normal, image))
        enlarged = self.enlarge(low + gradient + normal if last else low)
        return self.join(torch.cat([enlarged, full], dim=1)), gradient, normal, enlarged


class GradientPrior(nn.Module):
    """Sobel magnitude of the blurred frame, summed over colours.

    The filters are fixed. The official count includes them, 112 numbers: besides these a zero bias for each, and eight
    3x3 filters with biases that take no part in the result (`unused`).
    """

    def __init__(self) -> None:
        super().__init__()
        sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
        self.blur_x = nn.Conv2d(1, 1, (1, 5))
        self.blur_y = nn.Conv2d(1, 1, (5, 1))
        self.sobel = nn.Conv2d(1, 2, 3)
        self.unused = nn.Conv2d(1, 8, 3)
        blur = torch.tensor(BLUR)
        fixed = (blur.view(1, 1, 1, 5), blur.view(1, 1, 5, 1), torch.stack([sobel, sobel.T])[:, None])
        for conv, weight in zip((self.blur_x, self.blur_y, self.sobel), fixed, strict=True):
            conv.weight.data.copy_(weight)
            nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
        self.requires_grad_(False)

    def forward(self, frame: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 1, H, W]
        flat = frame.flatten(0, 1)[:, None]
        smooth = self.blur_y(self.blur_x(reflect_pad(flat, 2, 2, 2, 2)))
        slopes = self.sobel(reflect_pad(smooth, 1, 1, 1, 1))
        return (slopes.square().sum(dim=1) + 1e-8).sqrt().unflatten(0, (-1, 3)).sum(dim=1, keepdim=True)


class UhdDip(Peer):
    """The published network; the head of its auxiliary loss is there and unused."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("uhddip", divisor=SCALE))
        self.gradient = GradientPrior()
        self.embed = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.gradient_stem = nn.Sequential(
            nn.Conv2d(1, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, SCALE, stride=SCALE, bias=False)
        )
        self.normal_stem = nn.Sequential(
            nn.Conv2d(3, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, SCALE, stride=SCALE, bias=False)
        )
        self.rounds = nn.ModuleList(Round() for _ in range(ROUNDS))
        self.auxiliary = nn.Sequential(NafBlock(), NafBlock(), nn.Conv2d(WIDTH, 3, 3, padding=1))
        self.out = nn.Sequential(NafBlock(), NafBlock(), NafBlock(), nn.Conv2d(WIDTH, 3, 3, padding=1))

    def restore(self, frames: Tensor) -> Tensor:
        frame = frames[:, 0]
        x = self.embed(frame)
        gradient = self.gradient_stem(self.gradient(frame))
        normal = self.normal_stem(brightness_normals(frame))
        for index, part in enumerate(self.rounds):
            x, gradient, normal, _ = part(x, gradient, normal, last=index == ROUNDS - 1)
        return self.out(x) + frame


def brightness_normals(frame: Tensor) -> Tensor:  # [B, 3, H, W] in [0, 1] -> [B, 3, H, W] in [0, 1]
    """Normals of the brightness as a height map, coded as normal maps are: (n + 1) / 2."""
    grey = reflect_pad(frame.mean(dim=1, keepdim=True), 1, 1, 1, 1)
    x = grey[..., 1:-1, 2:] - grey[..., 1:-1, :-2]
    y = grey[..., 2:, 1:-1] - grey[..., :-2, 1:-1]
    return F.normalize(torch.cat([-x, -y, torch.ones_like(x)], dim=1), dim=1) * 0.5 + 0.5


def _neighbours(x: Tensor) -> Tensor:  # [B, C, H, W] -> [B, C, 9, H, W]
    return F.unfold(x, 3, padding=1).unflatten(1, (x.shape[1], 9)).unflatten(3, x.shape[-2:])


def _gate(x: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=1)
    return a * b
