"""Pictures for people: before and after in one frame, haze as a heat map, contact sheets."""

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def split_picture(
    before: Tensor,  # [1, 3, H, W] in [0, 1]
    after: Tensor,  # [1, 3, H, W] in [0, 1]
) -> Tensor:  # [1, 3, H, W]
    """The left half of one and the right half of the other, with a thin line between and a word for each."""
    height, width = before.shape[-2:]
    middle, half_line = width // 2, max(1, width // 960)
    picture = after.clone()
    picture[..., :middle] = before[..., :middle]
    picture[..., middle - half_line : middle + half_line] = 1.0
    size = _text_size(height)
    if height >= 160 and width >= 240:
        margin = size
        _stamp(picture, "hazy", (middle - margin, margin), size, right=True)
        _stamp(picture, "dehazed", (middle + margin, margin), size)
    return picture


def haze_picture(
    transmission: Tensor,  # [1, 1, h, w] in [0, 1]
    size: tuple[int, int],  # (H, W)
) -> Tensor:  # [1, 3, H, W] in [0, 1]
    """A heat map: dark where the air is clear, bright where haze is dense, with a scale in the corner."""
    haze = 1.0 - F.interpolate(transmission, size=size, mode="bilinear", align_corners=False)[0, 0]
    table = torch.from_numpy(_color_table()).to(haze.device)
    picture = table[(haze * 255).round().long().clamp(0, 255)].permute(2, 0, 1)[None].contiguous()
    if size[0] >= 160 and size[1] >= 240:
        _stamp_scale(picture, table)
    return picture


def contact_sheet(
    pairs: list[tuple[np.ndarray, np.ndarray, str]],  # before and after, uint8 [H, W, 3] RGB, and a caption
    *,
    title: str,
    cell_width: int = 640,
) -> np.ndarray:  # uint8 [H, W, 3] RGB
    """Before and after in two columns, one row per moment."""
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


_BACKGROUND = 24
_TALLEST_CELL = 720


def _fit(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    shrinking = picture.shape[1] > size[0]
    return cv2.resize(picture, size, interpolation=cv2.INTER_AREA if shrinking else cv2.INTER_LINEAR)


def _blank(height: int, width: int) -> np.ndarray:
    return np.full((height, width, 3), _BACKGROUND, np.uint8)


def _write(picture: np.ndarray, text: str, at: tuple[int, int], size: int, color: tuple[int, int, int]) -> None:
    cv2.putText(picture, text, at, cv2.FONT_HERSHEY_DUPLEX, size / 32, color, 1, cv2.LINE_AA)


def _text_size(height: int) -> int:
    """Pixels from baseline to capital height."""
    return int(min(64, max(12, height // 40)))


def _stamp(
    picture: Tensor,  # [1, 3, H, W], changed in place
    text: str,
    corner: tuple[int, int],  # left (or right) and top
    size: int,
    *,
    right: bool = False,
) -> int:
    """White letters on a darkened strip; returns the column behind it."""
    scale, thickness = size / 22, max(1, round(size / 14))
    (width, _), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_DUPLEX, scale, thickness)
    (_, height), baseline = cv2.getTextSize("Hy", cv2.FONT_HERSHEY_DUPLEX, scale, thickness)  # one height for all words
    pad = size // 2
    label = np.zeros((height + baseline + 2 * pad, width + 2 * pad), np.uint8)
    cv2.putText(label, text, (pad, height + pad), cv2.FONT_HERSHEY_DUPLEX, scale, 255, thickness, cv2.LINE_AA)
    left = corner[0] - label.shape[1] if right else corner[0]
    left, top = max(0, left), corner[1]
    area = picture[..., top : top + label.shape[0], left : left + label.shape[1]]
    ink = torch.from_numpy(label[: area.shape[-2], : area.shape[-1]]).to(picture) / 255
    area.mul_(0.45).mul_(1 - ink).add_(ink)
    return left + label.shape[1]


def _stamp_scale(picture: Tensor, table: Tensor) -> None:
    """A strip of the heat map's colours between the words for its ends."""
    height, width = picture.shape[-2:]
    size = _text_size(height)
    long, frame = max(64, width // 8), max(1, size // 12)
    top = height - 4 * size
    left = _stamp(picture, "clear air", (size, top), size) + size // 2
    strip = table[torch.linspace(0, 255, long).long()].T[None, :, None]  # [1, 3, 1, long]
    picture[..., top + size // 2 - frame : top + 3 * size // 2 + frame, left - frame : left + long + frame] = 1.0
    picture[..., top + size // 2 : top + 3 * size // 2, left : left + long] = strip
    _stamp(picture, "dense haze", (left + long + size // 2, top), size)


def _color_table() -> np.ndarray:  # [256, 3], RGB in [0, 1]
    ramp = np.arange(256, dtype=np.uint8)[:, None]
    return cv2.applyColorMap(ramp, cv2.COLORMAP_INFERNO)[:, 0, ::-1].astype(np.float32) / 255
