"""Images for people to look at: contact sheets."""

import cv2
import numpy as np

_BACKGROUND = 24
_TALLEST_CELL = 720


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
