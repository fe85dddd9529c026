"""A promise of a lossless stream, tested with noise before the first frame."""

from dataclasses import replace

import av
import numpy as np

from libranet.errors import InputError
from libranet.video.encoder import EncoderSettings, encoder_frame, open_encoder
from libranet.video.pixels import plane_views, to_planar

_FRAMES = 6
_LARGE = 320
"""Sides above this are tested at a smaller size with the same remainder: encoders fail at odd sizes, not at large."""


def check_lossless(settings: EncoderSettings) -> None:
    """Encode and decode a few frames of noise.

    Raises:
        InputError: They come back changed.
    """
    small = _smaller(settings)
    encoder = open_encoder(small)
    noise = [_noise(small, index) for index in range(_FRAMES)]
    expected = [[view.copy() for view in plane_views(frame)] for frame in noise]
    packets = [packet for frame in noise for packet in encoder.encode(encoder_frame(frame, small))]
    packets += encoder.encode(None)
    decoder = _decoder(small, encoder)
    frames = [frame for packet in [*packets, None] for frame in decoder.decode(packet)]
    found = [[view.copy() for view in plane_views(to_planar(frame))] for frame in frames]
    same = len(found) == _FRAMES and all(
        np.array_equal(a, b) for x, y in zip(expected, found, strict=True) for a, b in zip(x, y, strict=False)
    )
    if not same:
        raise InputError(
            f"{settings.codec} is not lossless for {settings.width}x{settings.height} {settings.pixel_format} here: "
            "use --codec ffv1 in .mkv, or leave out --crf 0"
        )


def _smaller(settings: EncoderSettings) -> EncoderSettings:
    width, height = (side if side <= _LARGE else _LARGE // 2 + side % 64 for side in (settings.width, settings.height))
    return replace(settings, width=width, height=height)


def _decoder(settings: EncoderSettings, encoder: av.VideoCodecContext) -> av.VideoCodecContext:
    name = "libvpx-vp9" if settings.codec == "vp9" else "libdav1d" if settings.codec == "av1" else settings.codec
    decoder = av.CodecContext.create(name, "r")
    assert isinstance(decoder, av.VideoCodecContext)
    decoder.extradata = encoder.extradata
    decoder.width, decoder.height = settings.width, settings.height
    if settings.codec == "qtrle":
        decoder.bits_per_coded_sample = 32 if "a" in settings.frame_format else 24
    return decoder


def _noise(settings: EncoderSettings, index: int) -> av.VideoFrame:
    """Half noise, half flat blocks that move: encoders treat drawings in other ways than camera images."""
    generator = np.random.default_rng(index)
    frame = av.VideoFrame(settings.width, settings.height, settings.pixel_format)
    peak = (1 << frame.format.components[0].bits) - 1
    for view in plane_views(frame):
        height, width = view.shape
        y, x = np.mgrid[0:height, 0:width]
        blocks = ((x + 3 * index) // 8 * 37 + (y + index) // 8 * 91) % 7 * (peak // 7)
        view[...] = np.where(x < width // 2, generator.integers(0, peak + 1, view.shape), blocks)
    frame.pts, frame.time_base = index * max(1, round(1 / (settings.rate * settings.time_base))), settings.time_base
    return frame
