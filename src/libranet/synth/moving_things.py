"""Things that move through a photo in motion: flat pieces of its own texture, each at one depth, with exact flow."""

from dataclasses import dataclass

import cv2
import numpy as np

from libranet.data.frames import RgbImage
from libranet.data.maps import Plane
from libranet.synth.photo_motion import CameraMove, MovedFrame, project

CROSSING = (0.15, 0.6)  # how far a thing moves over the clip, as a share of the frame's width
HEIGHT = (0.06, 0.2)  # height of a thing at the nearest depth, as a share of the frame's
NEARNESS = (0.35, 0.9)  # 1 is nearest
ASPECT = (0.5, 2.2)  # width over height
ROUNDNESS = 4.0  # exponent of the outline: 2 is an ellipse


@dataclass(frozen=True)
class MovingThing:
    """One thing. Places are relative to the frame's centre, as shares of its width and height."""

    nearness: float
    start: tuple[float, float]
    travel: tuple[float, float]  # over the whole clip
    size: tuple[float, float]
    origin: tuple[float, float]  # of its texture in the photo, 0 to 1
    tint: tuple[float, float, float]

    @classmethod
    def draw(cls, seed: int, count: int) -> list["MovingThing"]:
        """Draw things on the lower half of the frame, the nearer the larger and the lower; the farthest come first."""
        rng = np.random.default_rng((seed, 31))
        things = []
        for _ in range(count):
            near = float(rng.uniform(*NEARNESS))
            high = float(rng.uniform(*HEIGHT)) * near
            way = float(rng.uniform(*CROSSING) * rng.choice((-1.0, 1.0)))
            things.append(
                cls(
                    nearness=near,
                    start=(float(rng.uniform(-0.3, 0.3)) - way / 2, 0.4 * near - high / 2),
                    travel=(way, float(rng.uniform(-0.02, 0.02))),
                    size=(high * float(rng.uniform(*ASPECT)) * 9 / 16, high),
                    origin=(float(rng.uniform(0.0, 0.7)), float(rng.uniform(0.4, 0.7))),
                    tint=tuple(rng.uniform(0.45, 1.15, 3).tolist()),
                )
            )
        return sorted(things, key=lambda thing: thing.nearness)


def add_things(
    frame: MovedFrame, things: list[MovingThing], photo: RgbImage, move: CameraMove, *, index: int, frames: int
) -> MovedFrame:
    """Put the things of frame `index` where nothing of the photo is nearer. The arrays of `frame` are changed."""
    for thing in things:
        _add(frame, thing, photo, move, index=index, frames=frames)
    return frame


def _add(frame: MovedFrame, thing: MovingThing, photo: RgbImage, move: CameraMove, *, index: int, frames: int) -> None:
    height, width = frame.depth.shape
    half_x, half_y = thing.size[0] * width / 2, thing.size[1] * height / 2
    (x, y), (next_x, next_y) = (_place(thing, move, t, (width, height), frames) for t in (index, index + 1))
    left, right = max(int(x - half_x), 0), min(int(x + half_x) + 2, width)
    top, bottom = max(int(y - half_y), 0), min(int(y + half_y) + 2, height)
    if left >= right or top >= bottom:
        return
    across = (np.arange(left, right, dtype=np.float32) - np.float32(x))[None, :]
    down = (np.arange(top, bottom, dtype=np.float32) - np.float32(y))[:, None]
    radius = np.abs(across / half_x) ** ROUNDNESS + np.abs(down / half_y) ** ROUNDNESS
    cover = np.clip((1.0 - radius) * min(half_x, half_y) / ROUNDNESS, 0.0, 1.0)  # soft over about a pixel
    part = slice(top, bottom), slice(left, right)
    cover *= frame.depth[part] > 1.0 - thing.nearness
    texture = _texture(photo, thing, across + np.float32(half_x), down + np.float32(half_y))
    image = frame.image[part].astype(np.float32)
    image += cover[..., None] * (texture - image)
    frame.image[part] = image.round().clip(0, 255).astype(np.uint8)
    inside = cover > 0.5
    frame.depth[part][inside] = 1.0 - thing.nearness
    frame.flow[0][part][inside] = next_x - x
    frame.flow[1][part][inside] = next_y - y
    frame.filled[part][inside] = False


def _place(thing: MovingThing, move: CameraMove, index: int, size: tuple[int, int], frames: int) -> tuple[float, float]:
    """The middle of a thing in a frame: its own way, then the camera's."""
    time, (width, height) = index / max(frames - 1, 1), size
    point = [np.asarray((thing.start[axis] + thing.travel[axis] * time) * size[axis]) for axis in (0, 1)]
    x, y = project(point[0], point[1], np.asarray(thing.nearness), move, time=time, width=width)
    return float(x) + (width - 1) / 2, float(y) + (height - 1) / 2


def _texture(photo: RgbImage, thing: MovingThing, across: Plane, down: Plane) -> np.ndarray:  # [h, w, 3] float
    """The photo's own pixels from the thing's place in it, tinted. They move with the thing."""
    rows, columns = photo.shape[:2]
    map_x = np.broadcast_to(across + np.float32(thing.origin[0] * columns), (down.shape[0], across.shape[1]))
    map_y = np.broadcast_to(down + np.float32(thing.origin[1] * rows), (down.shape[0], across.shape[1]))
    piece = cv2.remap(
        photo,
        np.ascontiguousarray(map_x),
        np.ascontiguousarray(map_y),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REFLECT_101,
    )
    return piece.astype(np.float32) * np.asarray(thing.tint, np.float32)
