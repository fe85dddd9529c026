"""Small H.264 copies for browsers that cannot play a file: HEVC, ProRes, 10 bits, old containers."""

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np

_SIDE = 1280


def write_copy(source: Path, output: Path, *, show: Callable[[], None] = lambda: None) -> None:
    """Write the frames as H.264, at most 1280 pixels a side, upright and without audio.

    Args:
        output: An .mp4 file. It is left unfinished where this fails.
    """
    with av.open(str(source)) as given, av.open(str(output), "w", options={"movflags": "faststart"}) as made:
        video = given.streams.video[0]
        rate = video.average_rate or video.guessed_rate or 25
        target = made.add_stream("libx264", rate=rate, options={"preset": "veryfast", "crf": "20"})
        target.pix_fmt = "yuv420p"
        if video.time_base:
            target.codec_context.time_base = video.time_base  # irregular times stay as they are
        for index, frame in enumerate(given.decode(video)):
            scale = min(1.0, _SIDE / max(frame.width, frame.height))
            width, height = (max(16, round(side * scale / 2) * 2) for side in (frame.width, frame.height))
            samples = frame.reformat(width, height, "rgb24").to_ndarray()
            turned = np.ascontiguousarray(np.rot90(samples, round(frame.rotation / 90)), np.uint8)
            upright = av.VideoFrame.from_ndarray(turned, format="rgb24")
            if index == 0:
                target.width, target.height = upright.width, upright.height
            upright.pts, upright.time_base = frame.pts, frame.time_base
            made.mux(target.encode(upright))
            show()
        made.mux(target.encode(None))
