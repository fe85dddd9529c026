"""Dark channel prior with a guided filter (He et al., CVPR 2009 and TPAMI 2011; guided filter ECCV 2010).

The radii of the papers fit images of about 600x400. So that a 4K frame is treated like its own thumbnail, the
transmission is estimated on a copy whose short side is at most `WORK_SIZE`, and the guided filter's coefficients, not
the transmission, are enlarged: the fine edges come from the full-size frame (fast guided filter, He and Sun 2015).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

# The papers' constants.
PATCH = 15  # side of the window of the dark channel, in pixels of the working copy
OMEGA = 0.95  # how much of the haze to take away; a little is left so that distance stays visible
BRIGHTEST = 1e-3  # share of the haziest pixels that the airlight is the mean of
GUIDE_RADIUS = 60  # of the guided filter's box, in pixels of the working copy
GUIDE_EPSILON = 1e-4  # regularisation of the guided filter
FLOOR = 0.1  # smallest transmission to divide by
WORK_SIZE = 540  # short side of the working copy; a smaller frame is worked on as it is


@torch.no_grad()
def dark_channel_dehaze(frame: Tensor) -> Tensor:  # [3, H, W] in [0, 1] -> [3, H, W] in [0, 1]
    """Remove the haze of one frame."""
    height, width = frame.shape[1:]
    step = max(1.0, min(height, width) / WORK_SIZE)
    size = (max(1, round(height / step)), max(1, round(width / step)))
    small = frame[None].float()
    if step > 1.0:
        small = F.interpolate(small, size=size, mode="bilinear", align_corners=False, antialias=True)

    airlight = estimate_airlight(small[0], dark_channel(small, PATCH)[0, 0], BRIGHTEST)
    rough = 1 - OMEGA * dark_channel(small / airlight[None, :, None, None], PATCH)
    slope, offset = guided_coefficients(_grey(small), rough, GUIDE_RADIUS, GUIDE_EPSILON)
    if step > 1.0:
        slope, offset = (
            F.interpolate(m, size=(height, width), mode="bilinear", align_corners=False) for m in (slope, offset)
        )
    transmission = (slope * _grey(frame[None].float()) + offset)[0].clamp(FLOOR, 1.0)
    a = airlight[:, None, None]
    return ((frame - a) / transmission + a).clamp(0.0, 1.0).to(frame.dtype)


def dark_channel(image: Tensor, patch: int) -> Tensor:  # [B, 3, h, w] -> [B, 1, h, w]
    """The smallest value of any colour within the patch around each pixel; the border is repeated outwards."""
    darkest, radius = image.amin(dim=1, keepdim=True), patch // 2
    rows = -F.max_pool2d(-F.pad(darkest, (radius, radius, 0, 0), mode="replicate"), (1, patch), stride=1)
    return -F.max_pool2d(-F.pad(rows, (0, 0, radius, radius), mode="replicate"), (patch, 1), stride=1)


def estimate_airlight(
    image: Tensor,  # [3, h, w]
    dark: Tensor,  # [h, w]
    share: float,
) -> Tensor:  # [3], at least 0.05
    """The mean colour of the pixels with the largest dark channel."""
    count = max(1, int(share * dark.numel()))
    places = dark.flatten().topk(count).indices
    return image.flatten(1)[:, places].mean(dim=1).clamp_min(0.05)


def guided_coefficients(
    guide: Tensor,  # [B, 1, h, w]
    target: Tensor,  # [B, 1, h, w]
    radius: int,
    epsilon: float,
) -> tuple[Tensor, Tensor]:  # [B, 1, h, w] twice
    """Slope and offset of the local linear model target = slope * guide + offset, averaged over their windows."""
    mean = _box_mean(torch.cat((guide, target, guide * guide, guide * target), dim=1), radius)
    g, t, gg, gt = mean.split(1, dim=1)
    slope = (gt - g * t) / (gg - g * g + epsilon)
    return tuple(_box_mean(torch.cat((slope, t - slope * g), dim=1), radius).split(1, dim=1))  # type: ignore[return-value]


def _box_mean(maps: Tensor, radius: int) -> Tensor:  # [B, C, h, w] -> [B, C, h, w]
    """Mean over a (2r+1)-square cut off at the border, from running sums, so that its cost does not grow with r."""
    for axis in (2, 3):
        length = maps.shape[axis]
        sums = F.pad(maps.double().cumsum(axis), (1, 0, 0, 0) if axis == 3 else (0, 0, 1, 0))
        places = torch.arange(length, device=maps.device)
        high, low = (places + radius + 1).clamp(max=length), (places - radius).clamp(min=0)
        counts = (high - low).view(-1, 1) if axis == 2 else (high - low)
        maps = (sums.index_select(axis, high) - sums.index_select(axis, low)) / counts
    return maps.float()


def _grey(image: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 1, H, W]
    weights = image.new_tensor((0.299, 0.587, 0.114))[None, :, None, None]
    return (image * weights).sum(dim=1, keepdim=True)
