"""Images that make up a video: numbered sequences with any gaps, animated WebP, pages of TIFF."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from libranet.errors import InputError
from libranet.image_metadata import read_metadata
from libranet.images import Image, count_images, is_image_name, read_images, read_loops
from libranet.sequences import describe_gaps
from libranet.video.decoding import Damage
from libranet.video.pixels import to_planar
from libranet.video.pyav import open_input
from libranet.video.reader import VideoReader, check_frame_size
from libranet.video.source import Source
from libranet.video.tags import VideoTags, read_tags

_MILLISECONDS = Fraction(1, 1000)


def open_images(source: Source, count: int, *, rate: Fraction) -> VideoReader:
    """Open images as a video.

    Args:
        source: A sequence, or a file with several images.
        count: How many images there are.
        rate: Frames per second of images without times.

    Raises:
        InputError: The first image cannot be read.
    """
    damage = Damage()
    timed = source.kind == "file"
    time_base = _MILLISECONDS if timed else 1 / rate
    frames = _animation(source, rate) if timed else _sequence(source, time_base, damage)
    first, tags = next(frames, (None, VideoTags()))
    if first is None:
        raise InputError(f"no image of {source.name} can be decoded: check the files")
    check_frame_size(source.name, first)

    def images() -> Iterator[av.VideoFrame]:
        yield first
        yield from (frame for frame, _ in frames)

    gaps = describe_gaps([path for _, path in source.files])
    notes = [f"{source.name}: {gaps}; the others follow each other"] if gaps else []
    notes += metadata_notes(source.files[0][1] if source.files else source.path)
    return VideoReader(
        name=source.name,
        time_base=time_base,
        rate=rate,
        tags=tags,
        pixel_format=to_planar(first).format.name,
        width=first.width,
        height=first.height,
        duration=None if timed else float(count / rate),
        demuxed=images(),
        source=source,
        frame_count=count,
        damage=damage,
        notes=notes,
    )


def metadata_notes(path: Path | None) -> list[str]:
    """Say what images tell besides their samples, which a video has no place for."""
    if path is None or not is_image_name(path) or not path.is_file():
        return []
    names = list(read_metadata(path.read_bytes()).names)
    if count_images(path) > 1 and (loops := read_loops(path)):
        names.append(f"the number of loops ({loops})")
    return [f"not in the video: {', '.join(names)} of {path.name}"] if names else []


def _sequence(source: Source, time_base: Fraction, damage: Damage) -> Iterator[tuple[av.VideoFrame, VideoTags]]:
    for index, (_, path) in enumerate(source.files):
        try:
            with open_input(f"file:{path}") as container:
                stream = container.streams.video[0]
                frame = next(container.decode(stream))
                tags = read_tags(frame, stream)
        except (av.FFmpegError, IndexError, StopIteration, OSError, ValueError):
            damage.packets += 1
            continue
        frame.pts, frame.time_base = index, time_base
        yield frame, tags


def _animation(source: Source, rate: Fraction) -> Iterator[tuple[av.VideoFrame, VideoTags]]:
    assert source.path is not None
    time = Fraction(0)
    for image, seconds in read_images(source.path):
        frame = _frame(image)
        frame.pts, frame.time_base = round(time / _MILLISECONDS), _MILLISECONDS
        yield frame, VideoTags(color_range=2)
        time += Fraction(round(1000 * seconds), 1000) or 1 / rate


def _frame(image: Image) -> av.VideoFrame:
    samples = np.ascontiguousarray(image.samples if image.samples.shape[2] == 4 else image.rgb)
    deep = samples.dtype == np.uint16
    name = ("rgba64le" if deep else "rgba") if samples.shape[2] == 4 else ("rgb48le" if deep else "rgb24")
    return av.VideoFrame.from_ndarray(samples, format=name)
