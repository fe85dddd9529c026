"""How much haze a restoration took away, told from the picture before and the picture after.

Hazy = clear * t + light * (1 - t). With the light estimated from the hazy picture, before and after give t.
"""

import torch.nn.functional as F
from torch import Tensor

STEP = 4
"""The estimate is made at a quarter of the size, which also averages noise away."""
BRIGHTEST = 0.002
"""Share of the picture, where even the darkest channel is bright, that stands for the light of the haze."""


def implied_transmission(
    before: Tensor,  # [1, 3, H, W] in [0, 1]
    after: Tensor,  # [1, 3, H, W] in [0, 1]
) -> Tensor:  # [1, 1, h, w] in [0, 1]
    """The t that explains the change best, in least squares over the three channels. It depends on this frame alone."""
    hazy, clear = (F.avg_pool2d(picture, STEP, ceil_mode=True) for picture in (before, after))
    light = airlight(hazy)[..., None, None]
    numerator = ((light - hazy) * (light - clear)).sum(dim=1, keepdim=True)
    denominator = (light - clear).square().sum(dim=1, keepdim=True)
    # Where the clear picture is as bright as the haze (the sky), t is unknown; the small constant makes it 0.
    return (numerator / (denominator + 2e-3)).clamp(0.0, 1.0)


def airlight(
    hazy: Tensor,  # [1, 3, h, w] in [0, 1]
) -> Tensor:  # [1, 3]
    """The colour of the densest haze: the mean of the pixels whose neighbourhood has no dark channel."""
    dark = -F.max_pool2d(-hazy.amin(dim=1, keepdim=True), 7, stride=1, padding=3)
    count = max(1, int(BRIGHTEST * dark.numel()))
    chosen = dark.flatten().topk(count).indices
    return hazy.flatten(2)[..., chosen].mean(dim=-1)
