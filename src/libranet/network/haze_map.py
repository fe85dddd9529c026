"""How dense the haze is: transmission of a frame, from the frame and its restored version.

A small network of its own, taught with synthetic haze whose transmission is known. It looks at ratios to the colour of
the haze and at two classic estimates, and works with any network that restored the frame. Half of the result is the
dark channel's: the two are wrong in different places, and the classic one knows no training data.
"""

from functools import cache
from importlib.resources import files

import torch
import torch.nn.functional as F
from safetensors.torch import load
from torch import Tensor, nn

LONG_SIDE = 192
"""Pixels of the longer side of a map. Haze is smooth, and a map of this size costs a millisecond."""
AIRLIGHT_SHARE = 0.002
"""Share of the pixels, those with the brightest dark channel, whose mean is the airlight."""
SEEN = 0.12
"""Transmission at which noise of a camera, enlarged by the clearing, is as strong as weak texture."""
_WINDOW = 9
_WIDTHS = (16, 24, 32, 48)


def estimate_airlight(
    hazy: Tensor,  # [B, 3, h, w] in [0, 1]
) -> Tensor:  # [B, 3]
    """Estimate the colour of the densest haze: the mean of the pixels with the brightest dark channel."""
    dark = -F.max_pool2d(-hazy.amin(dim=1, keepdim=True), 7, stride=1, padding=3)
    count = max(1, int(AIRLIGHT_SHARE * dark[0].numel()))
    chosen = dark.flatten(1).topk(count).indices[:, None].expand(-1, 3, -1)
    return hazy.flatten(2).gather(2, chosen).mean(dim=-1)


def confidence(
    transmission: Tensor,  # in [0, 1]
) -> Tensor:  # in [0, 1]
    """Return the share of what is shown at a place that was seen there, and is not enlarged noise."""
    power = transmission.square()
    return power / (power + SEEN**2)


class HazeMap(nn.Module):
    """Estimates transmission: convolutions on four scales, and one number for the whole frame."""

    def __init__(self) -> None:
        super().__init__()
        first, *deeper = _WIDTHS
        self.entry = nn.Conv2d(9, first, 3, padding=1)
        self.down = nn.ModuleList(
            nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in zip(_WIDTHS[:-1], deeper, strict=True)
        )
        self.whole = nn.Linear(_WIDTHS[-1], _WIDTHS[-1])
        self.middle = nn.Conv2d(_WIDTHS[-1], _WIDTHS[-1], 3, padding=2, dilation=2)
        self.up = nn.ModuleList(nn.Conv2d(b, a, 1) for a, b in zip(_WIDTHS[:-1], deeper, strict=True))
        self.fuse = nn.ModuleList(nn.Conv2d(a, a, 3, padding=1) for a in _WIDTHS[:-1])
        self.exit = nn.Conv2d(first, 1, 3, padding=1)

    def forward(
        self,
        hazy: Tensor,  # [B, 3, h, w] in [0, 1]
        clear: Tensor,  # [B, 3, h, w] in [0, 1]
    ) -> Tensor:  # [B, 1, h', w'] in [0, 1], the longer side `LONG_SIDE`
        """Estimate the transmission of frames from what they are and what they became."""
        learnt, classic = self.logits(hazy, clear)
        return torch.sigmoid((learnt + classic) / 2)

    def logits(self, hazy: Tensor, clear: Tensor) -> tuple[Tensor, Tensor]:  # each [B, 1, h', w']
        """Return the network's own estimate, which training improves, and the dark channel's."""
        scale = LONG_SIDE / max(hazy.shape[-2:])
        size = [max(8, round(side * scale)) for side in hazy.shape[-2:]]
        hazy, clear = (F.interpolate(x.float(), size, mode="area") for x in (hazy, clear))
        features = _features(hazy, clear)
        x = F.silu(self.entry(features))
        levels = []
        for down in self.down:
            levels.append(x)
            x = F.silu(down(x))
        x = x + self.whole(x.mean(dim=(2, 3)))[:, :, None, None]
        x = x + F.silu(self.middle(x))
        for up, fuse, level in zip(reversed(self.up), reversed(self.fuse), reversed(levels), strict=True):
            x = level + F.interpolate(up(x), level.shape[-2:], mode="bilinear", align_corners=False)
            x = x + F.silu(fuse(x))
        return self.exit(x), torch.logit(1.0 - features[:, 6:7], eps=0.02)


def _features(
    hazy: Tensor,  # [B, 3, h, w] in [0, 1]
    clear: Tensor,  # [B, 3, h, w] in [0, 1]
) -> Tensor:  # [B, 9, h, w]
    """Colours over the airlight, the dark channels of both, and the transmission that the clearing itself implies."""
    light = estimate_airlight(hazy)[:, :, None, None].clamp_min(0.1)
    hazy, clear = hazy / light, clear / light
    missing, left = 1 - hazy, 1 - clear
    implied = _mean((missing * left).sum(dim=1, keepdim=True)) / (_mean(left.square().sum(dim=1, keepdim=True)) + 1e-3)
    dark = [_mean(_least(x.amin(dim=1, keepdim=True))) for x in (hazy, clear)]
    return torch.cat([hazy, clear, *dark, implied], dim=1).clamp(-1, 2)


def _mean(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, _WINDOW, stride=1, padding=_WINDOW // 2, count_include_pad=False)


def _least(x: Tensor) -> Tensor:
    return -F.max_pool2d(-x, _WINDOW, stride=1, padding=_WINDOW // 2)


@cache
def haze_map(device: torch.device) -> HazeMap:
    network = HazeMap()
    weights = load((files("libranet.weights") / "haze-map.safetensors").read_bytes())
    network.load_state_dict({name: value.float() for name, value in weights.items()})
    return network.to(device).eval().requires_grad_(requires_grad=False)
