"""Quality, speed and HDR tags in the options of each encoder."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from libranet.errors import InputError
from libranet.frames.format import PixelLayout
from libranet.video.encoder import DEFAULT_CRF, MPEG_QUALITY, CodecName, EncoderSettings, is_hardware, joined
from libranet.video.tags import MasteringDisplay, VideoTags

DEFAULT_HARDWARE_QUALITY = {"h264": 20, "hevc": 22, "av1": 26}
DEFAULT_PRESET: dict[CodecName, str] = {"h264": "medium", "hevc": "medium", "av1": "8", "vp9": "4"}
FAST_PRESET: dict[CodecName, str] = {"h264": "veryfast", "hevc": "superfast"}
"""Where the network is so fast that the encoder bounds the run: docs/performance.md has the measurement."""
TWO_PASS: tuple[CodecName, ...] = ("h264", "hevc")
"""Codecs that can be encoded twice. PyAV gives libvpx no statistics, and FFmpeg's SVT-AV1 takes none."""
_QP_TO_LAMBDA = 118
"""FFmpeg's FF_QP2LAMBDA."""
_FIXED_QUALITY = ("ffv1", "prores", "dnxhd", "qtrle", "gif")


def encoder_options(
    codec: CodecName,
    *,
    crf: int | None,
    preset: str | None,
    layout: PixelLayout,
    tags: VideoTags,
    bitrate: int | None = None,
    fast: bool = False,
) -> dict[str, str]:
    """Translate quality, speed and HDR tags to the options of an encoder. A crf of 0 asks for a lossless stream.

    Without a preset, `fast` chooses one that gives up compression for speed.
    """
    if crf is not None and bitrate is not None:
        raise InputError(f"--crf {crf} and --bitrate both set the quality: give one of them")
    if codec in _FIXED_QUALITY:
        if crf is not None or preset is not None or bitrate is not None:
            raise InputError(f"--crf, --preset and --bitrate have no meaning for {codec}: leave them out")
        return _fixed_options(codec, layout)
    if codec in MPEG_QUALITY:
        return _mpeg_options(codec, crf=crf, preset=preset, bitrate=bitrate)
    if is_hardware(codec):
        return _hardware_options(codec, crf=crf, preset=preset, bitrate=bitrate)
    quality = DEFAULT_CRF[codec] if crf is None else crf
    if not 0 <= quality <= 63:
        raise InputError(f"expected --crf from 0 to 63, got {quality}")
    preset = preset or (FAST_PRESET if fast else {}).get(codec) or DEFAULT_PRESET.get(codec)
    lossless = quality == 0
    options = {"preset": preset or "", **({"b": str(bitrate)} if bitrate else {"crf": str(quality)})}
    display, light = tags.mastering, tags.light_level
    if codec == "h264":
        parameters = joined(
            # With its macroblock tree, x264 gives other bits from run to run (measured: 34 results of 60 equal runs at
            # 192x128, on one thread too). A resumed run has to equal an uninterrupted one.
            "mbtree=0",
            "stitchable=1",  # equal headers for all segments, and for both passes
            display and f"mastering-display={_display_integers(display)}",
            light and _light("cll", light),
        )
        if lossless and not bitrate:
            del options["crf"]
            options["qp"] = "0"
        return options | {"x264-params": parameters}
    if codec == "hevc":
        parameters = joined(
            "log-level=error",
            "lossless=1" if lossless else None,
            display and f"master-display={_display_integers(display)}",
            light and _light("max-cll", light),
        )
        return options | {"x265-params": parameters}
    if codec == "av1":
        parameters = joined(
            "lossless=1" if lossless else None,
            display and f"mastering-display={_display_decimals(display)}",
            light and _light("content-light", light),
        )
        return options | ({"svtav1-params": parameters} if parameters else {})
    rate = {"b": str(bitrate)} if bitrate else {"crf": str(quality), "b": "0"}
    return {**rate, "cpu-used": preset or "4", "row-mt": "1"} | ({"lossless": "1"} if lossless else {})


def with_user_options(options: dict[str, str], given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Add the user's options, which come last. Parameters of x264, x265 and SVT-AV1 are added to ours, which segments
    need to be joined.
    """
    merged = dict(options)
    for key, value in given:
        merged[key] = joined(merged[key], value) if key.endswith("-params") and key in merged else value
    return merged


def pass_options(settings: EncoderSettings, number: int, statistics: Path) -> EncoderSettings:
    """Return the settings of pass 1 or 2. The first one writes statistics that the second one reads."""
    options = dict(settings.options)
    if settings.codec == "hevc":
        options["x265-params"] = joined(options.get("x265-params"), f"pass={number}", f"stats={statistics}")
    else:
        options |= {"flags": f"+pass{number}", "passlogfile": str(statistics)}
    return replace(settings, options=options, threads=0)


def _fixed_options(codec: CodecName, layout: PixelLayout) -> dict[str, str]:
    if codec == "ffv1":
        return {"level": "3", "slicecrc": "1"}
    if codec == "prores":
        return {"profile": "4444" if layout.sub_x == 1 else "hq", **({"alpha_bits": "16"} if layout.alpha else {})}
    if codec == "dnxhd":
        return {"profile": "dnxhr_444" if layout.sub_x == 1 else "dnxhr_hqx" if layout.bits > 8 else "dnxhr_hq"}
    return {}


def _mpeg_options(codec: CodecName, *, crf: int | None, preset: str | None, bitrate: int | None) -> dict[str, str]:
    if preset is not None:
        raise InputError(f"--preset has no meaning for {codec}: leave it out")
    quality = MPEG_QUALITY[codec] if crf is None else crf
    if not 1 <= quality <= 31:
        raise InputError(f"expected --crf from 1 to 31 for {codec}, got {quality}")
    strict = {"strict": "unofficial"} if codec == "mjpeg" else {}  # for limited range
    if bitrate:
        return {"b": str(bitrate), **strict}
    limits = {"qmin": "1", "qmax": "31"}
    return {"flags": "+qscale", "global_quality": str(quality * _QP_TO_LAMBDA), **limits, **strict}


def _hardware_options(codec: CodecName, *, crf: int | None, preset: str | None, bitrate: int | None) -> dict[str, str]:
    quality = DEFAULT_HARDWARE_QUALITY[codec.split("_")[0]] if crf is None else crf
    speed = {"preset": preset} if preset else {}
    if bitrate:
        return {"b": str(bitrate), **speed}
    if codec.endswith("_nvenc"):
        return {"rc": "constqp", "qp": str(quality), **speed}
    if codec.endswith("_qsv"):
        return {"global_quality": str(quality), **speed}
    return {"flags": "+qscale", "global_quality": str(max(1, 100 - 2 * quality) * _QP_TO_LAMBDA), **speed}


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
