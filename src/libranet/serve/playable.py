"""Small H.264 copies of what browsers cannot play: HEVC, ProRes, 10 bits, old containers."""

from pathlib import Path

import av
import numpy as np

_SIDE = 1280
_CODECS, _FORMATS = ("h264", "vp8", "vp9", "av1"), ("yuv420p", "yuvj420p")
_SUFFIXES = (".mp4", ".mov", ".webm", ".mkv")


def plays_in_browsers(path: Path) -> bool:
    """Return whether every common browser plays a video."""
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        known = context.codec.canonical_name in _CODECS and context.pix_fmt in _FORMATS
        return known and path.suffix in _SUFFIXES


def write_copy(source: Path, output: Path) -> None:
    """Write the frames as H.264, at most 1280 pixels a side, upright and without audio."""
    with av.open(str(source)) as given, av.open(str(output), "w", options={"movflags": "faststart"}) as made:
        video = given.streams.video[0]
        rate = video.average_rate or video.guessed_rate or 25
        target = made.add_stream("libx264", rate=rate, options={"preset": "veryfast", "crf": "20"})
        target.pix_fmt = "yuv420p"
        for index, frame in enumerate(given.decode(video)):
            scale = min(1.0, _SIDE / max(frame.width, frame.height))
            width, height = (max(16, round(side * scale / 2) * 2) for side in (frame.width, frame.height))
            samples = frame.reformat(width, height, "rgb24").to_ndarray()
            upright = av.VideoFrame.from_ndarray(
                np.ascontiguousarray(np.rot90(samples, round(frame.rotation / 90))), format="rgb24"
            )
            if index == 0:
                target.width, target.height = upright.width, upright.height
            upright.pts, upright.time_base = frame.pts, frame.time_base
            made.mux(target.encode(upright))
        made.mux(target.encode(None))
