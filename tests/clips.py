"""Video files for tests, made on the spot: textured moving frames, sound, subtitles, chapters, tags."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from libranet.video.encoder import kept_priority
from libranet.video.pixels import layout_of, plane_views, read_planes
from libranet.video.reader import open_video


@dataclass(frozen=True)
class Clip:
    """What to put into a file."""

    codec: str = "libx264"
    pixel_format: str = "yuv420p"
    width: int = 64
    height: int = 48
    frames: int = 5
    rate: Fraction = Fraction(25)
    time_base: Fraction = Fraction(1, 12800)
    first: int = 0
    """Presentation time of the first frame."""
    variable: bool = False
    """Irregular distances between frames."""
    color_range: int = 1
    colorspace: int = 1
    primaries: int = 1
    transfer: int = 1
    aspect: Fraction | None = None
    rotation: int = 0
    options: tuple[tuple[str, str], ...] = ()
    audio: tuple[str, ...] = ()
    """Encoders of the sound tracks."""
    subtitles: str = ""
    """Codec of a subtitle track."""
    metadata: tuple[tuple[str, str], ...] = ()
    chapters: int = 0
    attachment: bool = False
    cut_at: int | None = None
    """A cut: the scene changes at this frame."""
    still: bool = False
    """Four different frames, repeated: fast to make."""


def textured_frame(
    layout_name: str, width: int, height: int, index: int, *, scene: int = 0, full: bool = False
) -> av.VideoFrame:
    """A textured frame that moves with `index`; every plane uses most of its range."""
    layout = layout_of(layout_name)
    frame = av.VideoFrame(width, height, layout_name)
    generator = np.random.default_rng(scene)
    for number, view in enumerate(plane_views(frame)):
        h, w = view.shape
        y, x = np.mgrid[0:h, 0:w].astype(np.float64)
        phase = generator.uniform(0, 6, 4)
        fx, fy = generator.uniform(2, 6, 2)
        wave = np.sin(fx * (x + 2 * index) / w * 3 + phase[0]) * np.cos(fy * y / h * 3 + phase[1])
        noise = generator.uniform(-0.12, 0.12, (h, w))
        level = 0.5 + 0.35 * wave + np.roll(noise, index, axis=1)
        low, high = (0.0, 1.0) if full or layout.model == "rgb" else (16 / 256, (235 if number == 0 else 240) / 256)
        view[...] = np.rint((low + (high - low) * np.clip(level, 0, 1)) * layout.peak).astype(view.dtype)
    return frame


def times(clip: Clip) -> list[int]:
    """Presentation times in the clip's time base."""
    step = round(1 / (clip.rate * clip.time_base))
    if not clip.variable:
        return [clip.first + index * step for index in range(clip.frames)]
    gaps = [step * (1 + (index * 7) % 5) // 2 for index in range(clip.frames)]
    return [clip.first + sum(gaps[:index]) for index in range(clip.frames)]


@kept_priority()  # which SVT-AV1 changes as root
def write_clip(path: Path, clip: Clip) -> Path:
    """Make the file."""
    container = av.open(str(path), "w", container_options=_container_options(path, clip))
    video = container.add_stream(clip.codec, rate=clip.rate, options=dict(clip.options))
    context = video.codec_context
    video.width, video.height, video.pix_fmt = clip.width, clip.height, clip.pixel_format
    context.time_base = clip.time_base
    rgb = clip.pixel_format.startswith(("gbr", "rgb"))
    context.color_range, context.colorspace = (2, 0) if rgb else (clip.color_range, clip.colorspace)
    context.color_primaries, context.color_trc = clip.primaries, clip.transfer
    if clip.aspect:
        context.sample_aspect_ratio = clip.aspect
    if clip.rotation:
        video.set_display_rotation(clip.rotation)
    container.metadata.update(dict(clip.metadata))
    sounds = [container.add_stream(name, rate=48000) for name in clip.audio]
    for number, sound in enumerate(sounds):
        sound.codec_context.layout = "stereo"
        sound.metadata["language"] = ("eng", "deu")[number % 2]
    subtitle = container.add_mux_stream(clip.subtitles) if clip.subtitles else None
    if subtitle is not None:
        subtitle.time_base = Fraction(1, 1000)
    if clip.attachment:
        container.add_attachment("note.txt", "text/plain", b"fog at dawn")
    if clip.chapters:
        container.set_chapters(_chapters(clip))
    _write_video(container, video, clip)
    for number, sound in enumerate(sounds):
        _write_sound(container, sound, clip, number)
    if subtitle is not None:
        _write_subtitles(container, subtitle, clip)
    container.close()
    return path


def read_all(path: Path) -> tuple[list[Fraction], list[list[np.ndarray]]]:
    """Times in seconds and planes of every frame."""
    with open_video(path) as reader:
        stamps, frames = [], []
        for frame in reader.frames():
            stamps.append(frame.pts * reader.time_base)
            frames.append([plane.numpy() for plane in read_planes(frame.image)])
    return stamps, frames


def same_frames(a: list[list[np.ndarray]], b: list[list[np.ndarray]]) -> bool:
    """Whether all samples are equal."""
    return len(a) == len(b) and all(
        len(x) == len(y) and all(np.array_equal(p, q) for p, q in zip(x, y, strict=True))
        for x, y in zip(a, b, strict=True)
    )


def other_packets(path: Path) -> dict[int, list[tuple[Fraction, bytes]]]:
    """Time and bytes of the packets of every stream but the video, by stream."""
    found: dict[int, list[tuple[Fraction, bytes]]] = {}
    with av.open(str(path)) as container:
        for packet in container.demux():
            if packet.stream.type != "video" and packet.size:
                found.setdefault(packet.stream.index, []).append((packet.pts * packet.time_base, bytes(packet)))
    return found


def _container_options(path: Path, clip: Clip) -> dict[str, str]:
    if path.suffix in (".mp4", ".mov"):
        return {"video_track_timescale": str(clip.time_base.denominator)}
    return {}


def _chapters(clip: Clip) -> list:
    length = int(clip.frames / clip.rate * 1000)
    edges = [length * index // clip.chapters for index in range(clip.chapters + 1)]
    return [
        {
            "id": i,
            "start": edges[i],
            "end": edges[i + 1],
            "time_base": Fraction(1, 1000),
            "metadata": {"title": f"part {i}"},
        }
        for i in range(clip.chapters)
    ]


def _write_video(container, video, clip: Clip) -> None:
    kept: dict[int, av.VideoFrame] = {}
    for index, pts in enumerate(times(clip)):
        scene = 0 if clip.cut_at is None or index < clip.cut_at else 7
        full = clip.color_range == 2
        number = index % 4 if clip.still else index
        if number not in kept or not clip.still:
            kept[number] = textured_frame(clip.pixel_format, clip.width, clip.height, number, scene=scene, full=full)
        frame = kept.pop(number) if not clip.still else kept[number]
        frame.pts, frame.time_base = pts, clip.time_base
        frame.color_range, frame.colorspace = video.codec_context.color_range, video.codec_context.colorspace
        container.mux(video.encode(frame))
    container.mux(video.encode(None))


def _write_sound(container, sound, clip: Clip, number: int) -> None:
    context = sound.codec_context
    if not context.is_open:
        context.open()
    size = context.frame_size or 1024
    total = int(clip.frames / clip.rate * 48000)
    for start in range(0, max(size, total), size):
        wave = np.sin(np.arange(start, start + size) * (0.02 + 0.01 * number))
        samples = np.stack([wave, wave])
        planar = context.format.is_planar
        kind = {"flt": np.float32, "s16": np.int16, "s32": np.int32}[context.format.name.removesuffix("p")]
        scale = 0.5 if kind is np.float32 else 0.4 * np.iinfo(kind).max
        samples = (samples * scale).astype(kind)
        array = samples if planar else samples.T.reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(array), format=context.format.name, layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48000, start, Fraction(1, 48000)
        container.mux(sound.encode(frame))
    container.mux(sound.encode(None))


def _write_subtitles(container, subtitle, clip: Clip) -> None:
    length = int(clip.frames / clip.rate * 1000)
    for index in range(2):
        text = f"line {index}".encode()
        data = len(text).to_bytes(2, "big") + text if clip.subtitles == "mov_text" else text
        packet = av.Packet(data)
        packet.stream, packet.time_base = subtitle, Fraction(1, 1000)
        packet.pts = packet.dts = length * index // 2
        packet.duration = length // 2
        packet.is_keyframe = True
        container.mux(packet)
