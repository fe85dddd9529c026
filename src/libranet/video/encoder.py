"""Codecs and encoders: which container holds which codec, the defaults, and opening an encoder."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

import av

from libranet.errors import InputError
from libranet.frames.format import PixelLayout
from libranet.video.pixels import layout_of
from libranet.video.tags import MasteringDisplay, VideoTags

CodecName = Literal["h264", "hevc", "av1", "vp9", "ffv1", "prores", "h264_nvenc", "hevc_nvenc"]

ENCODERS: dict[CodecName, str] = {
    "h264": "libx264",
    "hevc": "libx265",
    "av1": "libsvtav1",
    "vp9": "libvpx-vp9",
    "ffv1": "ffv1",
    "prores": "prores_ks",
    "h264_nvenc": "h264_nvenc",
    "hevc_nvenc": "hevc_nvenc",
}
DEFAULT_CRF: dict[CodecName, int] = {"h264": 18, "hevc": 20, "av1": 26, "vp9": 24, "h264_nvenc": 20, "hevc_nvenc": 22}
DEFAULT_PRESET: dict[CodecName, str] = {"h264": "medium", "hevc": "medium", "av1": "8", "vp9": "4"}
CONTAINERS: dict[str, tuple[CodecName, ...]] = {
    ".mp4": ("h264", "hevc", "av1", "vp9", "h264_nvenc", "hevc_nvenc"),
    ".m4v": ("h264", "hevc", "h264_nvenc", "hevc_nvenc"),
    ".mov": ("h264", "hevc", "prores", "av1", "h264_nvenc", "hevc_nvenc"),
    ".mkv": ("h264", "hevc", "av1", "vp9", "ffv1", "prores", "h264_nvenc", "hevc_nvenc"),
    ".webm": ("vp9", "av1"),
    ".avi": ("h264", "ffv1"),
    ".ts": ("h264", "hevc", "h264_nvenc", "hevc_nvenc"),
}
"""The codecs that each container may hold, its default first."""


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

    @property
    def encoder(self) -> str:
        """FFmpeg's name of the encoder."""
        return ENCODERS[self.codec]


def is_video_name(path: str | Path) -> bool:
    """Return whether the suffix is that of a container we can write."""
    return Path(path).suffix.lower() in CONTAINERS


def choose_codec(
    output: str | Path,
    *,
    asked: CodecName | None,
    source_codec: str,
    layout: PixelLayout,
    size: tuple[int, int],
) -> CodecName:
    """Choose the codec of an output file: the requested one, else the source's own, else the container's default.

    Never choose a codec that would reduce the bit depth or the chroma resolution, or crop an odd size.

    Args:
        output: The file's suffix names the container.
        asked: The requested codec, or None.
        source_codec: FFmpeg's name of the source's codec.
        layout: Pixel format of the frames.
        size: Width and height of the frames.

    Raises:
        InputError: The container or the requested codec cannot hold these frames.
    """
    suffix = Path(output).suffix.lower()
    if suffix not in CONTAINERS:
        known = ", ".join(CONTAINERS)
        raise InputError(f"cannot write video to a {suffix or 'nameless'} file: use one of {known}")
    allowed = CONTAINERS[suffix]
    if asked is not None:
        if asked not in get_args(CodecName):
            raise InputError(f"unknown codec {asked!r}: use one of {', '.join(get_args(CodecName))}")
        if asked not in allowed:
            raise InputError(f"{suffix} files cannot hold {asked}: use one of {', '.join(allowed)}, or another ending")
    fitting = [codec for codec in allowed if _fits(codec, layout, size)]
    if asked in fitting:
        return asked
    plain = [codec for codec in fitting if "nvenc" not in codec]
    found = f"{size[0]}x{size[1]} {layout.name} video ({layout.bits} bit)"
    if not plain:
        raise InputError(f"{suffix} files cannot hold this {found} without loss: write to .mkv")
    if asked is not None:
        raise InputError(f"{asked} would reduce this {found}: use --codec {' or '.join(plain)}")
    return next((codec for codec in plain if codec == source_codec), plain[0])


def _fits(codec: CodecName, layout: PixelLayout, size: tuple[int, int]) -> bool:
    name = pick_pixel_format(codec, layout)
    if name is None:
        return False
    if not codec.startswith(("h264", "hevc")):
        return True
    target = layout_of(name)  # these two cannot crop half a chroma sample away
    return size[0] % target.sub_x == 0 and size[1] % target.sub_y == 0


def pick_pixel_format(codec: CodecName, layout: PixelLayout) -> str | None:
    """Pick the encoder's pixel format that loses nothing of `layout`, or None where there is none.

    Where the encoder has no RGB, RGB goes to 4:4:4 YUV of at least its depth, which is exact to one code value.
    """
    try:
        formats = [fmt.name for fmt in av.codec.Codec(ENCODERS[codec], "w").video_formats or []]
    except av.codec.codec.UnknownCodecError:
        return None
    if layout.name in formats:
        return layout.name
    planar = [name for name in formats if name.startswith(("yuv4", "gbrp", "gray")) and not name.endswith("be")]
    candidates = [layout_of(name) for name in planar if "msb" not in name]
    fitting = [c for c in candidates if _holds(c, layout)]
    return min(fitting, key=lambda c: (c.bits, c.alpha, -c.sub_x * c.sub_y)).name if fitting else None


def _holds(candidate: PixelLayout, source: PixelLayout) -> bool:
    if candidate.bits < source.bits or candidate.model == "gray" or (candidate.alpha and not source.alpha):
        return False
    if source.model == "rgb":
        return candidate.model == "rgb" or (candidate.sub_x == candidate.sub_y == 1)
    return candidate.model == "yuv" and candidate.sub_x <= source.sub_x and candidate.sub_y <= source.sub_y


def encoder_options(
    codec: CodecName, *, crf: int | None, preset: str | None, layout: PixelLayout, tags: VideoTags
) -> dict[str, str]:
    """Translate quality, speed and HDR tags to the options of an encoder. A crf of 0 asks for a lossless stream."""
    if codec in ("ffv1", "prores"):
        if crf is not None or preset is not None:
            raise InputError(f"--crf and --preset have no meaning for {codec}: leave them out")
        fine = layout.sub_x == 1
        return {"level": "3", "slicecrc": "1"} if codec == "ffv1" else {"profile": "4444" if fine else "hq"}
    quality = DEFAULT_CRF[codec] if crf is None else crf
    if not 0 <= quality <= 63:
        raise InputError(f"expected --crf from 0 to 63, got {quality}")
    preset = preset or DEFAULT_PRESET.get(codec)
    lossless = quality == 0
    if codec in ("h264_nvenc", "hevc_nvenc"):
        return {"rc": "constqp", "qp": str(quality), **({"preset": preset} if preset else {})}
    options = {"preset": preset or "", "crf": str(quality)}
    display, light = tags.mastering, tags.light_level
    if codec == "h264":
        parameters = _joined(
            # With its macroblock tree, x264 gives other bits from run to run (measured: 34 results of 60 equal runs at
            # 192x128, on one thread too). A resumed run has to equal an uninterrupted one.
            "mbtree=0",
            display and f"mastering-display={_display_integers(display)}",
            light and _light("cll", light),
        )
        if lossless:
            del options["crf"]
            options["qp"] = "0"
        return options | {"x264-params": parameters}
    if codec == "hevc":
        parameters = _joined(
            "log-level=error",
            "lossless=1" if lossless else None,
            display and f"master-display={_display_integers(display)}",
            light and _light("max-cll", light),
        )
        return options | {"x265-params": parameters}
    if codec == "av1":
        parameters = _joined(
            "lossless=1" if lossless else None,
            display and f"mastering-display={_display_decimals(display)}",
            light and _light("content-light", light),
        )
        return options | ({"svtav1-params": parameters} if parameters else {})
    return {"crf": str(quality), "b": "0", "cpu-used": preset or "4", "row-mt": "1"} | (
        {"lossless": "1"} if lossless else {}
    )


def open_encoder(settings: EncoderSettings) -> av.VideoCodecContext:
    """Open a new encoder, ready for the first frame."""
    context = av.CodecContext.create(settings.encoder, "w")
    assert isinstance(context, av.VideoCodecContext)
    configure(context, settings)
    try:
        context.open()
    except (av.FFmpegError, ValueError) as error:
        raise InputError(
            f"the {settings.encoder} encoder refuses {settings.width}x{settings.height} {settings.pixel_format} "
            f"with {settings.options} ({error}): change --codec, --preset or --crf"
        ) from None
    return context


def configure(context: av.VideoCodecContext, settings: EncoderSettings) -> None:
    """Set up a codec context before it is opened."""
    if settings.codec == "av1":
        os.environ.setdefault("SVT_LOG", "1")  # SVT-AV1 writes to the terminal otherwise, and has no option for it
    tags = settings.tags
    context.width, context.height = settings.width, settings.height
    context.pix_fmt = settings.pixel_format
    context.time_base, context.framerate = settings.time_base, settings.rate
    rgb = settings.pixel_format.startswith("gbr")
    context.color_range = tags.color_range or (2 if rgb else 0)
    context.colorspace = 0 if rgb else tags.colorspace
    context.color_primaries, context.color_trc = tags.color_primaries, tags.color_trc
    if tags.sample_aspect_ratio:
        context.sample_aspect_ratio = tags.sample_aspect_ratio
    options = dict(settings.options)
    if tags.chroma_location != "unspecified":
        options["chroma_sample_location"] = tags.chroma_location
    context.options = options
    context.flags |= int(av.codec.context.Flags.global_header)


def _joined(*parts: object) -> str:
    return ":".join(str(part) for part in parts if part)


def _light(name: str, light: tuple[int, int]) -> str:
    return f"{name}={light[0]},{light[1]}"


def _display_integers(display: MasteringDisplay) -> str:
    """Chromaticities in steps of 0.00002 and luminances in steps of 0.0001, as x264 and x265 expect them."""
    return _display_text(display, lambda value: str(round(value * 50000)), lambda value: str(round(value * 10000)))


def _display_decimals(display: MasteringDisplay) -> str:
    return _display_text(display, lambda value: f"{float(value):.5f}", lambda value: f"{float(value):.4f}")


def _display_text(
    display: MasteringDisplay, point: Callable[[Fraction], str], luminance: Callable[[Fraction], str]
) -> str:
    points = {"G": display.green, "B": display.blue, "R": display.red, "WP": display.white}
    text = "".join(f"{name}({point(x)},{point(y)})" for name, (x, y) in points.items())
    return f"{text}L({luminance(display.greatest)},{luminance(display.least)})"
