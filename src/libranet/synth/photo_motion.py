"""Turn a photo into a clip: a 2.5-D camera move with the photo's depth.

Near objects move more than far ones. Each frame is sampled from the photo through a backward map, found by splatting
the photo's pixels forward into a depth buffer. Disoccluded pixels are filled with the mirrored background beside them.
The flow follows from the same maps and is exact wherever the next frame still shows the object.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
import torch

from libranet.data.frames import RgbImage
from libranet.data.maps import FlowField, Plane

TEAR = 0.35
"""Neighbouring pixels that move apart by more than this fraction of a pixel are torn, not stretched."""


@dataclass(frozen=True)
class CameraMove:
    """The camera motion over the clip. Lengths are fractions of the frame's width."""

    pan: tuple[float, float]  # shift of all pixels, as when the camera turns
    parallax: tuple[float, float]
    """Additional shift of the nearest pixels, as when the camera moves sideways."""
    dolly: float
    """Growth of the nearest pixels over the clip, as when the camera moves forward; negative for backward."""

    @classmethod
    def draw(cls, seed: int) -> "CameraMove":
        """Draw a gentle hand-held or drone-like move."""
        rng = np.random.default_rng((seed, 25))
        angles = rng.uniform(0.0, 2.0 * np.pi, 2)
        pan, parallax = rng.uniform(0.005, 0.03), rng.uniform(0.008, 0.02)
        return cls(
            pan=(float(pan * np.cos(angles[0])), float(0.5 * pan * np.sin(angles[0]))),
            parallax=(float(parallax * np.cos(angles[1])), float(0.5 * parallax * np.sin(angles[1]))),
            dolly=float(rng.uniform(-0.06, 0.06)),
        )

    @property
    def margin(self) -> float:
        """How much larger than the frame the photo must be so that its border stays out of view."""
        shift = max(abs(p) + abs(q) for p, q in zip(self.pan, self.parallax, strict=True))
        return (1.0 + 2.0 * shift) / (1.0 - abs(self.dolly))

    @property
    def gap(self) -> float:
        """The widest strip that can be disoccluded beside a near object."""
        return 0.5 * max(map(abs, self.parallax)) + 0.5 * abs(self.dolly)


@dataclass(frozen=True)
class MovedFrame:
    """One frame of the clip."""

    image: RgbImage
    depth: Plane  # the photo's depth, warped like the image
    flow: FlowField
    filled: np.ndarray  # True for disoccluded pixels, which the photo does not show


def photo_clip(
    photo: RgbImage,  # [H, W, 3]
    depth: Plane,  # [H, W] in [0, 1], 1 is far
    move: CameraMove,
    *,
    frames: int,
    size: tuple[int, int],  # (width, height) of the frames
    start: int = 0,
) -> Iterator[MovedFrame]:
    """Render the move, from frame `start` on. The photo is cropped to the frame's aspect ratio."""
    canvas = _cover(photo, size, move.margin)
    near = 1.0 - _cover(depth, size, move.margin)
    for index in range(start, frames):
        yield _render(canvas, near, move, size, index=index, frames=frames)


def _render(
    canvas: RgbImage, near: Plane, move: CameraMove, size: tuple[int, int], *, index: int, frames: int
) -> MovedFrame:
    span = max(frames - 1, 1)
    time, after_time = index / span, (index + 1) / span
    width, height = size
    rows, columns = near.shape
    grid_x = np.arange(columns, dtype=np.float32)[None, :] - (columns - 1) / 2
    grid_y = np.arange(rows, dtype=np.float32)[:, None] - (rows - 1) / 2
    x, y = project(grid_x, grid_y, near, move, time=time, width=width)
    x += (width - 1) / 2
    y += (height - 1) / 2
    source, known = _splat(x, y, near, _intact(x, y), size)
    # A torn slope adds its own width, at most gap / TEAR, to the disoccluded strip.
    reach = round(width * move.gap * (1.0 + 1.0 / TEAR)) + 4
    map_x, map_y, filled = _backward_map(source, known, x, y, near, size=size, reach=reach)
    image = cv2.remap(canvas, map_x, map_y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT_101)
    moved = cv2.remap(near, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    here_x, here_y = map_x - (columns - 1) / 2, map_y - (rows - 1) / 2
    now = project(here_x, here_y, moved, move, time=time, width=width)
    after = project(here_x, here_y, moved, move, time=after_time, width=width)
    flow = np.stack([after[0] - now[0], after[1] - now[1]])
    return MovedFrame(image, 1.0 - moved, flow, filled)


def project(
    x: np.ndarray, y: np.ndarray, near: np.ndarray, move: CameraMove, *, time: float, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Project canvas points, relative to the centre, into the frame at `time` in 0 .. 1. The scale never exceeds 1."""
    swing = time - 0.5
    closeness = time if move.dolly >= 0 else 1.0 - time
    scale = 1.0 - abs(move.dolly) * (1.0 - closeness) * near
    shift_x = width * swing * (move.pan[0] + move.parallax[0] * near)
    shift_y = width * swing * (move.pan[1] + move.parallax[1] * near)
    return x * scale + shift_x, y * scale + shift_y


def _intact(x: Plane, y: Plane) -> np.ndarray:
    """False on the slopes between near and far that the move would stretch."""
    intact = np.ones(x.shape, bool)
    for plane, axis in ((x, 1), (y, 0), (x, 0), (y, 1)):
        gap = np.abs(np.diff(plane, axis=axis) - (1.0 if (plane is x) == (axis == 1) else 0.0)) > TEAR
        first = (slice(None), slice(None, -1)) if axis == 1 else (slice(None, -1), slice(None))
        second = (slice(None), slice(1, None)) if axis == 1 else (slice(1, None), slice(None))
        intact[first] &= ~gap
        intact[second] &= ~gap
    return intact


def _splat(x: Plane, y: Plane, near: Plane, intact: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Find for each frame pixel the index of the nearest canvas pixel that lands beside it, and whether there is one.

    Depth and index are packed into one integer and the largest wins, so the result does not depend on the order.
    """
    width, height = size
    points = np.flatnonzero(intact.ravel())
    rank = (near.ravel()[points] * 65535).astype(np.int64)
    key = torch.from_numpy((rank << 32) | points)
    buffer = torch.full((height * width,), -1, dtype=torch.int64)
    left, top = np.floor(x.ravel()[points]).astype(np.int64), np.floor(y.ravel()[points]).astype(np.int64)
    for step_y in (0, 1):
        for step_x in (0, 1):
            column, row = left + step_x, top + step_y
            inside = torch.from_numpy((column >= 0) & (column < width) & (row >= 0) & (row < height))
            target = torch.from_numpy(row * width + column)
            buffer.scatter_reduce_(0, target[inside], key[inside], reduce="amax")
    found = buffer.numpy().reshape(height, width)
    return np.where(found >= 0, found & 0xFFFFFFFF, 0), found >= 0


def _backward_map(
    source: np.ndarray, known: np.ndarray, x: Plane, y: Plane, near: Plane, *, size: tuple[int, int], reach: int
) -> tuple[Plane, Plane, np.ndarray]:
    """Compute the canvas coordinates of each frame pixel: sub-pixel exact where known, else mirrored background."""
    width, height = size
    columns = near.shape[1]
    frame_x = np.arange(width, dtype=np.float32)[None, :]
    frame_y = np.arange(height, dtype=np.float32)[:, None]
    map_x = (source % columns).astype(np.float32) + frame_x - x.ravel()[source]
    map_y = (source // columns).astype(np.float32) + frame_y - y.ravel()[source]
    filled = ~known
    if filled.any():
        nearness = np.where(known, near.ravel()[source], 2.0).astype(np.float32)
        side = 2 * reach + 1
        background = known & (nearness <= cv2.erode(nearness, np.ones((side, side), np.uint8)) + 0.1)
        _, labels = cv2.distanceTransformWithLabels(
            (~background).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
        )
        seeds = np.zeros(int(labels.max()) + 1, np.int64)
        seeds[labels[background]] = np.flatnonzero(background.ravel())
        hole = np.flatnonzero(filled.ravel())
        seed = seeds[labels.ravel()[hole]]
        mirror_x = np.clip(2 * (seed % width) - hole % width, 0, width - 1)
        mirror_y = np.clip(2 * (seed // width) - hole // width, 0, height - 1)
        mirror = mirror_y * width + mirror_x
        mirror = np.where(background.ravel()[mirror], mirror, seed)
        map_x.ravel()[hole] = map_x.ravel()[mirror]
        map_y.ravel()[hole] = map_y.ravel()[mirror]
    return map_x, map_y, filled


def crop_to_aspect(
    values: np.ndarray,  # [H, W, ...]
    size: tuple[int, int],  # (width, height)
) -> tuple[np.ndarray, float]:
    """Crop the centre to the aspect ratio of `size`, as large as possible.

    Returns:
        The crop, and how many times larger than `size` it is.
    """
    width, height = size
    rows, columns = values.shape[:2]
    scale = min(columns / width, rows / height)
    crop_w, crop_h = min(round(width * scale), columns), min(round(height * scale), rows)
    left, top = (columns - crop_w) // 2, (rows - crop_h) // 2
    return values[top : top + crop_h, left : left + crop_w], scale


def _cover(values: np.ndarray, size: tuple[int, int], margin: float) -> np.ndarray:
    """Crop to the frame's aspect ratio and resize to the frame times the margin."""
    canvas = round(size[0] * margin), round(size[1] * margin)
    part, scale = crop_to_aspect(values, canvas)
    enlarge = cv2.INTER_CUBIC if values.dtype == np.uint8 else cv2.INTER_LINEAR
    method = cv2.INTER_AREA if scale > 1 else enlarge
    return np.asarray(cv2.resize(np.ascontiguousarray(part), canvas, interpolation=method))
