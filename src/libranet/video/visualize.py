"""Images for people to look at: before and after in one frame, haze as a heat map, contact sheets."""

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

TRANSMISSION_STEP = 4
"""The transmission is estimated at a quarter of the size, which also averages noise away."""
AIRLIGHT_SHARE = 0.002
"""Share of the pixels, those with the brightest dark channel, whose mean is the airlight."""
_BACKGROUND = 24
_TALLEST_CELL = 720


def split_view(
    before: Tensor,  # [1, 3, H, W] in [0, 1]
    after: Tensor,  # [1, 3, H, W] in [0, 1]
) -> Tensor:  # [1, 3, H, W]
    """Join the left half of one image and the right half of the other, with a thin line and labels."""
    height, width = before.shape[-2:]
    middle, half_line = width // 2, max(1, width // 960)
    joined = after.clone()
    joined[..., :middle] = before[..., :middle]
    joined[..., middle - half_line : middle + half_line] = 1.0
    if _has_room_for_text(height, width):
        size = _text_size(height)
        _stamp(joined, "hazy", (middle - size, size), size, right=True)
        _stamp(joined, "dehazed", (middle + size, size), size)
    return joined


def haze_heat_map(
    transmission: Tensor,  # [1, 1, h, w] in [0, 1]
    size: tuple[int, int],  # (H, W)
) -> Tensor:  # [1, 3, H, W] in [0, 1]
    """Draw transmission as a heat map: dark where the air is clear, bright where haze is dense, with a scale."""
    haze = 1.0 - F.interpolate(transmission, size=size, mode="bilinear", align_corners=False)[0, 0]
    table = torch.from_numpy(_color_table()).to(haze.device)
    heat_map = table[(haze * 255).round().long().clamp(0, 255)].permute(2, 0, 1)[None].contiguous()
    if _has_room_for_text(*size):
        _stamp_scale(heat_map, table)
    return heat_map


def removed_haze_transmission(
    before: Tensor,  # [1, 3, H, W] in [0, 1]
    after: Tensor,  # [1, 3, H, W] in [0, 1]
) -> Tensor:  # [1, 1, h, w] in [0, 1]
    """Estimate the transmission t of the haze that a restoration removed, from this frame alone.

    Hazy = clear * t + airlight * (1 - t). With the airlight estimated from the hazy image, t is the least-squares
    solution over the three channels.
    """
    hazy, clear = (F.avg_pool2d(image, TRANSMISSION_STEP, ceil_mode=True) for image in (before, after))
    airlight = estimate_airlight(hazy)[..., None, None]
    numerator = ((airlight - hazy) * (airlight - clear)).sum(dim=1, keepdim=True)
    denominator = (airlight - clear).square().sum(dim=1, keepdim=True)
    # Where the clear image is as bright as the haze (the sky), t is unknown; the small constant makes it 0.
    return (numerator / (denominator + 2e-3)).clamp(0.0, 1.0)


def estimate_airlight(
    hazy: Tensor,  # [1, 3, h, w] in [0, 1]
) -> Tensor:  # [1, 3]
    """Estimate the colour of the densest haze: the mean of the pixels with the brightest dark channel."""
    dark = -F.max_pool2d(-hazy.amin(dim=1, keepdim=True), 7, stride=1, padding=3)
    count = max(1, int(AIRLIGHT_SHARE * dark.numel()))
    chosen = dark.flatten().topk(count).indices
    return hazy.flatten(2)[..., chosen].mean(dim=-1)


def contact_sheet(
    pairs: list[tuple[np.ndarray, np.ndarray, str]],  # before and after, uint8 [H, W, 3] RGB, and a caption
    *,
    title: str,
    cell_width: int = 640,
) -> np.ndarray:  # uint8 [H, W, 3] RGB
    """Lay out before and after in two columns, one row per moment."""
    height, width = pairs[0][0].shape[:2]
    cell_width = max(320, min(cell_width, round(_TALLEST_CELL * width / height)))
    cell = (cell_width, max(1, round(height * cell_width / width)))
    gap, head, caption = 12, 56, 30
    rows = []
    for before, after, text in pairs:
        strip = _blank(caption, 2 * cell_width + gap)
        _write(strip, text, (2, 21), 16, (200, 200, 200))
        pair = [_fit(before, cell), _blank(cell[1], gap), _fit(after, cell)]
        rows += [strip, np.concatenate(pair, axis=1), _blank(gap, strip.shape[1])]
    top = _blank(head, 2 * cell_width + gap)
    _write(top, title, (2, 24), 20, (255, 255, 255))
    _write(top, "before", (2, 50), 16, (150, 150, 150))
    _write(top, "after", (cell_width + gap + 2, 50), 16, (150, 150, 150))
    sheet = np.concatenate([top, *rows], axis=0)
    return np.pad(sheet, ((gap, 0), (gap, gap), (0, 0)), constant_values=_BACKGROUND)


def _fit(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    shrinking = image.shape[1] > size[0]
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA if shrinking else cv2.INTER_LINEAR)


def _blank(height: int, width: int) -> np.ndarray:
    return np.full((height, width, 3), _BACKGROUND, np.uint8)


def _write(image: np.ndarray, text: str, at: tuple[int, int], size: int, color: tuple[int, int, int]) -> None:
    cv2.putText(image, text, at, cv2.FONT_HERSHEY_DUPLEX, size / 32, color, 1, cv2.LINE_AA)


def _has_room_for_text(height: int, width: int) -> bool:
    return height >= 160 and width >= 240


def _text_size(height: int) -> int:
    """Pixels from baseline to capital height."""
    return int(min(64, max(12, height // 40)))


def _stamp(
    image: Tensor,  # [1, 3, H, W], changed in place
    text: str,
    corner: tuple[int, int],  # left (or right) and top
    size: int,
    *,
    right: bool = False,
) -> int:
    """Write white letters on a darkened strip and return the column behind it."""
    scale, thickness = size / 22, max(1, round(size / 14))
    (width, _), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_DUPLEX, scale, thickness)
    (_, height), baseline = cv2.getTextSize("Hy", cv2.FONT_HERSHEY_DUPLEX, scale, thickness)  # one height for all words
    pad = size // 2
    label = np.zeros((height + baseline + 2 * pad, width + 2 * pad), np.uint8)
    cv2.putText(label, text, (pad, height + pad), cv2.FONT_HERSHEY_DUPLEX, scale, 255, thickness, cv2.LINE_AA)
    left = corner[0] - label.shape[1] if right else corner[0]
    left, top = max(0, left), corner[1]
    area = image[..., top : top + label.shape[0], left : left + label.shape[1]]
    ink = torch.from_numpy(label[: area.shape[-2], : area.shape[-1]]).to(image) / 255
    area.mul_(0.45).mul_(1 - ink).add_(ink)
    return left + label.shape[1]


def _stamp_scale(image: Tensor, table: Tensor) -> None:
    """Draw a strip of the heat map's colours between labels for its ends."""
    height, width = image.shape[-2:]
    size = _text_size(height)
    long, border = max(64, width // 8), max(1, size // 12)
    top = height - 4 * size
    left = _stamp(image, "clear air", (size, top), size) + size // 2
    strip = table[torch.linspace(0, 255, long).long()].T[None, :, None]  # [1, 3, 1, long]
    image[..., top + size // 2 - border : top + 3 * size // 2 + border, left - border : left + long + border] = 1.0
    image[..., top + size // 2 : top + 3 * size // 2, left : left + long] = strip
    _stamp(image, "dense haze", (left + long + size // 2, top), size)


def _color_table() -> np.ndarray:  # [256, 3], RGB in [0, 1]
    ramp = np.arange(256, dtype=np.uint8)[:, None]
    return cv2.applyColorMap(ramp, cv2.COLORMAP_INFERNO)[:, 0, ::-1].astype(np.float32) / 255
