"""Depth that stays with the things: blending along the flow with the frames before and after."""

from collections.abc import Sequence

import cv2
import numpy as np

from libranet.data.frames import Image
from libranet.data.maps import Field, Plane
from libranet.flow import invert_flow, warp

TOLERANCE = 0.10
"""Colour difference (mean over channels, 0 to 1) beyond which a warped pixel is taken for another surface."""


def smooth_depth(
    depths: Sequence[Plane],  # N of [h, w]
    flows: Sequence[Field],  # N - 1 of [2, h, w], forward
    frames: Sequence[Image],  # N of [h, w, 3]
    *,
    weight: float = 0.3,
    rounds: int = 2,
) -> list[Plane]:
    """Give each depth `weight` of its two neighbours, brought over along the flow where the colours agree."""
    count = len(depths)
    links: list[list[tuple[int, Field, Plane]]] = [[] for _ in range(count)]
    for i, flow in enumerate(flows):
        back = invert_flow(flow)
        links[i].append((i + 1, flow, _trust(frames[i], frames[i + 1], flow)))
        links[i + 1].append((i, back, _trust(frames[i + 1], frames[i], back)))
    current = list(depths)
    for _ in range(rounds):
        current = [_blend(current, i, links[i], weight) for i in range(count)]
    return current


def _blend(depths: list[Plane], index: int, links: list[tuple[int, Field, Plane]], weight: float) -> Plane:
    total = depths[index].copy()
    norm = np.ones_like(total)
    for neighbour, flow, trust in links:
        share = weight * trust
        total += share * warp(depths[neighbour], flow)[0]
        norm += share
    return total / norm


def _trust(here: Image, there: Image, flow: Field) -> Plane:
    """1 where the neighbour's colour, brought over, is the same; 0 outside the frame or on another surface."""
    warped, inside = warp(there, flow)
    difference = cv2.absdiff(here, warped).mean(axis=2, dtype=np.float32) / 255.0
    return np.clip(1.0 - cv2.blur(difference, (5, 5)) / TOLERANCE, 0.0, 1.0) * inside
