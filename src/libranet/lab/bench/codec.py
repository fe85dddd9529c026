"""How fast this machine decodes and encodes H.264 with the product's settings."""

import tempfile
import time
from fractions import Fraction
from importlib.resources import as_file, files
from itertools import cycle
from pathlib import Path

import av

from libranet.engine.segments import OutputClock, prepare_for_encoder
from libranet.frames.format import PixelLayout
from libranet.video.encoder import EncoderSettings, open_encoder
from libranet.video.encoder_options import encoder_options
from libranet.video.pixels import layout_of
from libranet.video.reader import SourceFrame, open_video
from libranet.video.scale import FrameScaler
from libranet.video.tags import VideoTags

_FRAMES = 12
"""Different ones of the example, which are repeated."""


def codec_rates(size: tuple[int, int], seconds: float) -> tuple[float, float]:
    """Return how many frames of the example a second are decoded and encoded, made as large as `size`."""
    with as_file(files("libranet.page") / "foggy.mp4") as path, open_video(path) as reader:
        scale = FrameScaler(*size).scale
        images = [scale(frame.image) for _, frame in zip(range(_FRAMES), reader.frames(), strict=False)]
        tags, layout = reader.tags, layout_of(reader.pixel_format)
    settings = _settings(size, layout, tags)
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "clip.h264"
        begin = time.perf_counter()
        encoded = _encode(images, settings, clip, seconds)
        middle = time.perf_counter()
        with av.open(str(clip)) as container:
            container.streams.video[0].thread_type = "AUTO"
            decoded = sum(1 for _ in container.decode(video=0))
        return decoded / (time.perf_counter() - middle), encoded / (middle - begin)


def _settings(size: tuple[int, int], layout: PixelLayout, tags: VideoTags) -> EncoderSettings:
    options = encoder_options("h264", crf=None, preset=None, layout=layout, tags=tags)
    return EncoderSettings("h264", layout.name, *size, Fraction(1, 25), Fraction(25), tags, options)


def _encode(images: list[av.VideoFrame], settings: EncoderSettings, path: Path, seconds: float) -> int:
    """Encode for so many seconds. Return the number of frames."""
    encoder, clock = open_encoder(settings), OutputClock(settings.time_base, settings.time_base, 0, 1)
    end = time.perf_counter() + seconds
    with path.open("wb") as file:
        file.write(encoder.extradata or b"")
        for number, image in enumerate(cycle(images)):
            if time.perf_counter() > end and number >= len(images):
                break
            for packet in encoder.encode(prepare_for_encoder(SourceFrame(image, number, 1), settings, clock)):
                file.write(bytes(packet))
        for packet in encoder.encode(None):
            file.write(bytes(packet))
    return number
