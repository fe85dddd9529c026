"""Cameras, through OpenCV: the FFmpeg that PyAV ships has no camera devices."""

import re
import time
from collections.abc import Iterator
from fractions import Fraction

import av
import cv2
import numpy as np

from libranet.errors import InputError
from libranet.video.arrival import Arrivals
from libranet.video.reader import VideoReader
from libranet.video.tags import VideoTags

_TIME_BASE = Fraction(1, 1000)
_SWSCALE_MATRIX = {1: 1, 6: 5}
"""FFmpeg's scaler has its own numbers for BT.709 and BT.601."""


def open_camera(source: str, arrivals: Arrivals | None = None) -> VideoReader:
    """Open a camera. Each frame's timestamp is the time of its arrival.

    Raises:
        InputError: The camera gives no frame.
    """
    name = source.removeprefix("camera:")
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # the error below is enough
    capture = cv2.VideoCapture(int(name) if name.isdecimal() else name)
    ok, image = capture.read()
    if not ok:
        raise InputError(f"no frame comes from {source}: check that the camera is connected and free")
    rate = capture.get(cv2.CAP_PROP_FPS)
    height, width = image.shape[:2]
    return VideoReader(
        name=re.sub(r"\s", " ", source),
        time_base=_TIME_BASE,
        rate=Fraction(rate).limit_denominator(1001) if 1 <= rate <= 1000 else Fraction(30),
        tags=VideoTags(color_range=1, colorspace=_matrix(height)),
        pixel_format="yuv420p",
        width=width,
        height=height,
        demuxed=_frames(capture, image, arrivals),
        arrivals=arrivals,
    )


def _frames(capture: cv2.VideoCapture, first: np.ndarray, arrivals: Arrivals | None) -> Iterator[av.VideoFrame]:
    begin = time.monotonic()
    ok, image = True, first
    last = -1
    try:
        while ok:
            last = max(last + 1, int((time.monotonic() - begin) / _TIME_BASE))
            if arrivals is not None:
                arrivals.came(last)
            yield _frame(image, last)
            ok, image = capture.read()
    finally:
        capture.release()


def _frame(image: np.ndarray, pts: int) -> av.VideoFrame:
    """Convert to 4:2:0, which cameras use themselves and every player shows."""
    matrix = _matrix(image.shape[0])
    frame = av.VideoFrame.from_ndarray(image, format="bgr24").reformat(
        format="yuv420p", dst_colorspace=_SWSCALE_MATRIX[matrix], src_color_range=2, dst_color_range=1
    )
    frame.color_range, frame.colorspace = 1, matrix
    frame.pts, frame.time_base = pts, _TIME_BASE
    return frame


def _matrix(height: int) -> int:
    return 1 if height >= 720 else 6
