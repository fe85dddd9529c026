"""Codecs and encoders: which container holds which codec, opening an encoder, and frames in the form that it takes."""

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Literal, get_args

import av
import av.filter

from libranet.errors import InputError
from libranet.frames.format import PixelLayout
from libranet.video.pixels import layout_of, planar_name
from libranet.video.tags import VideoTags

CodecName = Literal[
    "h264", "hevc", "av1", "vp9", "ffv1", "prores", "mpeg2", "dnxhd", "mjpeg", "qtrle", "gif",
    "h264_nvenc", "hevc_nvenc", "av1_nvenc", "h264_qsv", "hevc_qsv", "av1_qsv",
    "h264_videotoolbox", "hevc_videotoolbox",
]  # fmt: skip

ENCODERS: dict[CodecName, str] = {
    "h264": "libx264", "hevc": "libx265", "av1": "libsvtav1", "vp9": "libvpx-vp9", "prores": "prores_ks",
    "mpeg2": "mpeg2video",
}  # fmt: skip
"""FFmpeg's names, where they are not ours."""
DEFAULT_CRF: dict[CodecName, int] = {"h264": 18, "hevc": 20, "av1": 26, "vp9": 24}
_REFUSED = {
    "libvpx-vp9": ("yuva422p", "yuva444p", "gbrap"),
    "libx265": ("yuva420p", "yuva420p10le"),
    "qtrle": ("gray",),
}
"""Formats that an encoder lists and then refuses."""
_COARSE = ("yuvj", "pal", "rgb555", "rgb4", "bgr4", "rgb8", "bgr8")
"""Formats that are deprecated, or have fewer than 8 bits."""
MPEG_QUALITY: dict[CodecName, int] = {"mpeg2": 2, "mjpeg": 2}
"""Default quantiser of codecs without crf."""
_LOSSLESS_CODECS = ("ffv1", "qtrle")
_PRORES_BITS, _PRORES_DECODED = 10, 12
"""FFmpeg encodes ProRes 4444 with 10 bits, and decodes it with 12."""
_H264_LIKE: tuple[CodecName, ...] = (
    "h264", "hevc", "h264_nvenc", "hevc_nvenc", "h264_qsv", "hevc_qsv", "h264_videotoolbox", "hevc_videotoolbox",
)  # fmt: skip
_AV1_LIKE: tuple[CodecName, ...] = ("av1", "av1_nvenc", "av1_qsv")
_SMALLEST: dict[str, tuple[int, int]] = {"hevc": (64, 16), "av1": (32, 32), "dnxhd": (256, 120)}
"""Width and height. Below them x265 4.1 writes past its arrays and SVT-AV1 4.1 never ends, both without an error;
DNxHR is not defined."""
CONTAINERS: dict[str, tuple[CodecName, ...]] = {
    ".mp4": (*_H264_LIKE, *_AV1_LIKE, "vp9", "mpeg2", "mjpeg"), ".m4v": _H264_LIKE,
    ".mov": (*_H264_LIKE, "prores", "dnxhd", "qtrle", "mjpeg", "mpeg2"),
    ".mkv": (*_H264_LIKE, *_AV1_LIKE, "vp9", "ffv1", "prores", "mpeg2", "mjpeg"), ".webm": ("vp9", *_AV1_LIKE),
    ".avi": ("h264", "ffv1", "mjpeg", "mpeg2"), ".ts": (*_H264_LIKE, "mpeg2"), ".m2ts": ("h264", "hevc", "mpeg2"),
    ".mpg": ("mpeg2",), ".mxf": ("mpeg2", "dnxhd"), ".gif": ("gif",),
}  # fmt: skip
"""The codecs that each container may hold, its default first."""
_THREADS = Path("/proc/self/task")


@dataclass(frozen=True)
class EncoderSettings:
    """The complete settings of an encoder: every segment and a resumed run use the same ones."""

    codec: CodecName
    pixel_format: str
    width: int
    height: int
    time_base: Fraction
    rate: Fraction
    tags: VideoTags
    options: dict[str, str] = field(default_factory=dict)
    encoder_format: str = ""
    """What the encoder takes where it is not `pixel_format` itself: the same samples in another order."""
    lossless: bool = False
    threads: int = 0
    """Of each encoder; 0 leaves it to the encoder. Another number may give other bits."""

    @property
    def encoder(self) -> str:
        """FFmpeg's name of the encoder."""
        if self.codec == "h264" and self.pixel_format.startswith("gbr"):
            return "libx264rgb"
        return encoder_name(self.codec)

    @property
    def frame_format(self) -> str:
        """The pixel format that the encoder gets."""
        return self.encoder_format or self.pixel_format


def is_video_name(path: str | Path) -> bool:
    """Return whether the suffix is that of a container we can write."""
    return Path(path).suffix.lower() in CONTAINERS


def encoder_name(codec: CodecName) -> str:
    """Return FFmpeg's name of a codec's encoder."""
    return ENCODERS.get(codec, codec)


@cache
def is_available(encoder: str) -> bool:
    """Return whether this FFmpeg has an encoder of this name."""
    try:
        av.codec.Codec(encoder, "w")
    except av.codec.codec.UnknownCodecError:
        return False
    return True


def is_hardware(codec: str) -> bool:
    """Return whether a codec's encoder is part of a graphics processor."""
    return codec.endswith(("_nvenc", "_qsv", "_videotoolbox"))


def choose_codec(
    output: str | Path,
    *,
    asked: CodecName | None,
    source_codec: str,
    layout: PixelLayout,
    size: tuple[int, int],
    exact: bool = False,
) -> CodecName:
    """Choose the codec of an output file: the requested one, else the source's own, else the container's default.

    Never choose a codec that would reduce the bit depth or the chroma resolution, drop alpha, or crop an odd size.

    Args:
        output: The file's suffix names the container.
        asked: The requested codec, or None.
        source_codec: FFmpeg's name of the source's codec.
        layout: Pixel format of the frames.
        size: Width and height of the frames.
        exact: The stream must be lossless.

    Raises:
        InputError: The container or the requested codec cannot hold these frames.
    """
    suffix = Path(output).suffix.lower()
    if suffix not in CONTAINERS:
        known = ", ".join(CONTAINERS)
        ending = f"a {suffix} file" if suffix else "a file without an ending"
        raise InputError(f"cannot write video to {ending}: use one of {known}, or end the name with / for a folder")
    allowed = CONTAINERS[suffix]
    if asked is not None:
        if asked not in get_args(CodecName):
            raise InputError(f"unknown codec {asked!r}: use one of {', '.join(get_args(CodecName))}")
        if asked not in allowed:
            raise InputError(f"{suffix} files cannot hold {asked}: use one of {', '.join(allowed)}, or another ending")
    fitting = [codec for codec in allowed if _fits(codec, layout=layout, size=size, exact=exact)]
    if layout.alpha and suffix not in (".mkv", ".webm"):
        fitting = [codec for codec in fitting if codec != "vp9"]  # its alpha lies beside the frames, as in WebM alone
    if asked in fitting:
        return asked
    plain = [codec for codec in fitting if not is_hardware(codec)]
    alpha = " with alpha" if layout.alpha else ""
    found = f"{size[0]}x{size[1]} {layout.name} video ({layout.bits} bit{alpha})"
    if not plain:
        drop = ", or add --pix-fmt yuv420p to drop its alpha" if layout.alpha else ""
        fits = partial(_fits, layout=layout, size=size, exact=exact)
        soft = {name: [c for c in CONTAINERS[name] if not is_hardware(c)] for name in (".mkv", ".mov")}
        better = [name for name, codecs in soft.items() if any(map(fits, codecs))] or [".mkv"]
        raise InputError(f"{suffix} files cannot hold this {found} without loss: write to {' or '.join(better)}{drop}")
    if asked is not None and not _large_enough(asked, size):
        least = "x".join(map(str, _SMALLEST[asked]))
        raise InputError(f"{asked} needs frames of {least} or more, got {found}: use --codec {' or '.join(plain)}")
    if asked is not None:
        raise InputError(f"{asked} would reduce this {found}: use --codec {' or '.join(plain)}, or --pix-fmt")
    own = [codec for codec in plain if codec == source_codec and codec not in MPEG_QUALITY]
    return (own + plain)[0]


def _fits(codec: CodecName, *, layout: PixelLayout, size: tuple[int, int], exact: bool) -> bool:
    chosen = pick_pixel_format(codec, layout, exact=exact)
    if chosen is None or not _large_enough(codec, size):
        return False
    if codec in ("av1", "vp9", "ffv1", "qtrle", "gif"):
        return True
    target = layout_of(chosen[0])  # the others cannot crop half a chroma sample away
    return size[0] % target.sub_x == 0 and size[1] % target.sub_y == 0


def _large_enough(codec: CodecName, size: tuple[int, int]) -> bool:
    width, height = _SMALLEST.get(codec, (0, 0))
    return size[0] >= width and size[1] >= height


def pick_pixel_format(codec: CodecName, layout: PixelLayout, *, exact: bool = False) -> tuple[str, str] | None:
    """Pick the pixel format that loses nothing of `layout`, or None where the encoder has none.

    Where the encoder has no RGB, RGB goes to 4:4:4 YUV of at least its depth, which is exact to one code value. GIF
    reduces every frame to 256 colours.

    Args:
        codec: The codec.
        layout: Pixel format of the frames.
        exact: Accept no such rounding.

    Returns:
        The planar format of the frames, and what the encoder calls the same samples.
    """
    if codec == "gif":
        return "gbrp", "pal8"
    formats = _encoder_formats(encoder_name(codec))
    if codec == "h264" and layout.model == "rgb" and exact:
        formats = _encoder_formats("libx264rgb")
    exact = exact or codec in _LOSSLESS_CODECS
    if codec == "av1" and exact and layout.bits > 8:
        return None  # SVT-AV1 4.1 changes drawings in 10 bit, in its lossless mode too (measured with testsrc2)
    if codec == "prores" and layout.bits == _PRORES_DECODED:
        layout = replace(layout, bits=_PRORES_BITS)
    fitting = [(layout_of(planar), name) for planar, name in formats if _holds(layout_of(planar), layout, exact=exact)]
    if not fitting:
        return None

    def cost(choice: tuple[PixelLayout, str]) -> tuple[bool, bool, int, bool, int, bool]:
        found, name = choice
        rest = found.bits, found.alpha, -found.sub_x * found.sub_y, found.name != name
        return found.name != layout.name, found.model != layout.model, *rest

    best, name = min(fitting, key=cost)
    return best.name, name


def named_pixel_format(codec: CodecName, name: str) -> tuple[str, str]:
    """Return the pixel format that the user asked for, as `pick_pixel_format` does.

    Raises:
        InputError: The encoder does not take it.
    """
    formats = _encoder_formats(encoder_name(codec)) + (_encoder_formats("libx264rgb") if codec == "h264" else ())
    for planar, found in formats:
        if name in (planar, found):
            return planar, found
    known = ", ".join(dict.fromkeys(planar for planar, _ in formats))
    raise InputError(f"the encoder of {codec} does not take --pix-fmt {name}: use one of {known}")


@cache
def _encoder_formats(encoder: str) -> tuple[tuple[str, str], ...]:
    """Return planar formats and the encoder's names for them. Empty where this FFmpeg lacks the encoder."""
    names = [fmt.name for fmt in av.codec.Codec(encoder, "w").video_formats or []] if is_available(encoder) else []
    found = []
    for name in names:
        if name in _REFUSED.get(encoder, ()) or name.startswith(_COARSE) or name.endswith("be") or "msb" in name:
            continue
        with suppress(InputError, ValueError):
            found.append((planar_name(name), name))
    return tuple(found)


def _holds(candidate: PixelLayout, source: PixelLayout, *, exact: bool) -> bool:
    if candidate.bits < source.bits or candidate.alpha != source.alpha:
        return False
    if source.model == "gray":
        return candidate.model == "gray" or (candidate.model == "yuv" and not exact)
    if candidate.model == "gray":
        return False
    if source.model == "rgb":
        return candidate.model == "rgb" or (candidate.sub_x == candidate.sub_y == 1 and not exact)
    same_depth = candidate.bits == source.bits or not exact
    return (
        candidate.model == "yuv"
        and same_depth
        and candidate.sub_x <= source.sub_x
        and candidate.sub_y <= source.sub_y
        and (not exact or (candidate.sub_x, candidate.sub_y) == (source.sub_x, source.sub_y))
    )


def is_lossless(codec: CodecName, crf: int | None) -> bool:
    """Return whether these settings promise a lossless stream."""
    return codec in _LOSSLESS_CODECS or (crf == 0 and codec in DEFAULT_CRF)


def open_encoder(settings: EncoderSettings) -> av.VideoCodecContext:
    """Open a new encoder, ready for the first frame."""
    context = av.CodecContext.create(settings.encoder, "w")
    assert isinstance(context, av.VideoCodecContext)
    configure(context, settings)
    try:
        with kept_priority():
            context.open()
    except (av.FFmpegError, ValueError) as error:
        raise InputError(
            f"the {settings.encoder} encoder refuses {settings.width}x{settings.height} {settings.pixel_format} "
            f"with {settings.options} ({getattr(error, 'strerror', None) or error}): change --codec, --preset or --crf"
        ) from None
    return context


def check_options_used(context: av.VideoCodecContext, keys: Iterable[str]) -> None:
    """Refuse options that an opened encoder did not take. FFmpeg says nothing about them.

    Raises:
        InputError: The encoder has no such option.
    """
    if unknown := [key for key in keys if key in context.options]:  # what is left over
        name = context.codec.name
        raise InputError(f"the {name} encoder has no option {' or '.join(unknown)}: see `ffmpeg -h encoder={name}`")


def configure(context: av.VideoCodecContext, settings: EncoderSettings) -> None:
    """Set up a codec context before it is opened."""
    if settings.codec == "av1":
        os.environ.setdefault("SVT_LOG", "1")  # SVT-AV1 writes to the terminal otherwise, and has no option for it
    tags = settings.tags
    context.width, context.height = settings.width, settings.height
    context.pix_fmt = settings.frame_format
    context.time_base, context.framerate = settings.time_base, settings.rate
    rgb = settings.pixel_format.startswith("gbr") or settings.codec == "gif"
    context.color_range = tags.color_range or (2 if rgb else 0)
    context.colorspace = 0 if rgb else tags.colorspace
    context.color_primaries, context.color_trc = tags.color_primaries, tags.color_trc
    if tags.sample_aspect_ratio:
        context.sample_aspect_ratio = tags.sample_aspect_ratio
    options = dict(settings.options)
    if tags.chroma_location != "unspecified":
        options["chroma_sample_location"] = tags.chroma_location
    if settings.threads:
        context.thread_count = settings.threads
        for parameters, name in (("x265-params", "pools"), ("svtav1-params", "lp")):  # these two take it their own way
            if settings.encoder == {"pools": "libx265", "lp": "libsvtav1"}[name]:
                options[parameters] = joined(options.get(parameters), f"{name}={settings.threads}")
    context.options = options
    context.flags |= int(av.codec.context.Flags.global_header)


def joined(*parts: object) -> str:
    """Join parameters of x264, x265 or SVT-AV1; those that are not set drop out."""
    return ":".join(str(part) for part in parts if part)


@contextmanager
def kept_priority() -> Iterator[None]:
    """Take back a real-time priority that appears within.

    SVT-AV1 gives its threads, and the thread that opens it, the highest real-time priority of the system where it may,
    which is as root. Everything else on the machine then waits for it, and so does every process that is started later,
    because it inherits the priority.
    """
    if sys.platform != "linux" or os.sched_getscheduler(0) != os.SCHED_OTHER:  # real time was wanted
        yield
        return
    before = {thread.name for thread in _THREADS.iterdir()} - {str(threading.get_native_id())}
    try:
        yield
    finally:
        for name in {thread.name for thread in _THREADS.iterdir()} - before:
            with suppress(OSError):  # a thread that ended meanwhile
                if os.sched_getscheduler(int(name)) == os.SCHED_FIFO:
                    os.sched_setscheduler(int(name), os.SCHED_OTHER, os.sched_param(0))


def encoder_frame(frame: av.VideoFrame, settings: EncoderSettings) -> av.VideoFrame:
    """Return a planar frame as the encoder takes it, with its time."""
    if settings.frame_format == frame.format.name:
        return frame
    if settings.frame_format == "pal8":
        ready = _with_palette(frame, settings)
    else:
        full = 2 if frame.format.is_rgb else frame.color_range or 1
        ready = frame.reformat(format=settings.frame_format, src_color_range=full, dst_color_range=full)
    ready.pts, ready.time_base = frame.pts, frame.time_base
    return ready


def _with_palette(frame: av.VideoFrame, settings: EncoderSettings) -> av.VideoFrame:
    """Reduce a frame to the 256 colours that suit it best."""
    graph = av.filter.Graph()
    source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=settings.time_base)
    split = graph.add("split")
    palette = graph.add("palettegen", "stats_mode=single:reserve_transparent=0")
    use = graph.add("paletteuse", "new=1")
    sink = graph.add("buffersink")
    source.link_to(split)
    split.link_to(palette, 0, 0)
    split.link_to(use, 1, 0)
    palette.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    graph.push(frame)
    graph.push(None)
    ready = graph.pull()
    assert isinstance(ready, av.VideoFrame)
    return ready
