"""Images for people to look at: before and after in one frame, haze as a heat map, contact sheets."""

import cv2
import numpy as np
import torch.nn.functional as F
from torch import Tensor

from libranet.frames import FrameFormat
from libranet.video.canvas import Canvas

Planes = tuple[Tensor, ...]
"""A frame's planes, each [h, w], or one [h, w, 3] of a packed layout."""

TRANSMISSION_STEP = 4
"""The transmission is estimated at a quarter of the size, which also averages noise away."""
AIRLIGHT_SHARE = 0.002
"""Share of the pixels, those with the brightest dark channel, whose mean is the airlight."""
_BACKGROUND = 24
_WHITE = (1.0, 1.0, 1.0)
_TALLEST_CELL = 720


def split_view(
    before: Planes,
    after: Planes,
    format_: FrameFormat,
) -> Planes:
    """Join the left half of one frame and the right half of the other, with a thin line and labels."""
    middle, half_line = format_.width // 2, max(1, format_.width // 960)
    canvas = Canvas([plane.clone() for plane in after], format_)
    canvas.paste_columns(Canvas(before, format_), 0, middle)
    canvas.fill(0, format_.height, middle - half_line, middle + half_line, _WHITE)
    if _has_room_for_text(format_.height, format_.width):
        size = _text_size(format_.height)
        canvas.stamp("hazy", (middle - size, size), size, right=True)
        canvas.stamp("dehazed", (middle + size, size), size)
    return canvas.planes


def haze_heat_map(
    transmission: Tensor,  # [1, 1, h, w] in [0, 1]
    format_: FrameFormat,
) -> Planes:
    """Draw transmission as a heat map: dark where the air is clear, bright where haze is dense, with a scale."""
    planes = format_.empty(1, device=transmission.device)
    canvas = Canvas([plane[0] for plane in planes], format_)
    canvas.draw_heat(1.0 - transmission.float())
    if _has_room_for_text(format_.height, format_.width):
        _stamp_scale(canvas)
    return canvas.planes


def removed_haze_transmission(
    hazy: Tensor,  # [1, 3, h, w] in [0, 1], reduced by `TRANSMISSION_STEP`
    clear: Tensor,  # [1, 3, h, w] in [0, 1]
) -> Tensor:  # [1, 1, h, w] in [0, 1]
    """Estimate the transmission t of the haze that a restoration removed, from this frame alone.

    Hazy = clear * t + airlight * (1 - t). With the airlight estimated from the hazy image, t is the least-squares
    solution over the three channels.
    """
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


def _stamp_scale(canvas: Canvas) -> None:
    """Draw a strip of the heat map's colours between labels for its ends."""
    size = _text_size(canvas.height)
    long, border = max(64, canvas.width // 8), max(1, size // 12)
    top = canvas.height - 4 * size
    left = canvas.stamp("clear air", (size, top), size) + size // 2
    top += size // 2
    canvas.fill(top - border, top + size + border, left - border, left + long + border, _WHITE)
    canvas.draw_scale(top, top + size, left, left + long)
    canvas.stamp("dense haze", (left + long + size // 2, top - size // 2), size)
