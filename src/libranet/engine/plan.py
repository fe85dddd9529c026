"""The plan of a run: everything that is decided, and everything that can refuse is asked, before the first frame."""

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from libranet.device import describe_device
from libranet.engine.options import DehazeOptions
from libranet.errors import InputError
from libranet.frames.format import PixelLayout
from libranet.network import NO_FILTER, LiBrANet, Network
from libranet.runtime import Backend, make_backend, rgb_frames
from libranet.video.copied_stream import StreamPlan
from libranet.video.encoder import (
    CodecName,
    EncoderSettings,
    check_options_used,
    choose_codec,
    is_available,
    is_hardware,
    is_lossless,
    named_pixel_format,
    open_encoder,
    pick_pixel_format,
)
from libranet.video.encoder_options import TWO_PASS, encoder_options, with_user_options
from libranet.video.pixels import is_opaque, layout_of, planar_name
from libranet.video.reader import FormatChangeError, VideoReader, open_video
from libranet.video.streams import plan_streams

_GIF_BASE = Fraction(1, 100)
_PROGRESSIVE = 1
"""FFmpeg's number of a field order, behind that of an unknown one and before four interlaced ones."""
_SMALL_WIDTH = 16
"""Most channels of a refiner that outruns x264 at its usual preset: 0.07 and 0.17 core-seconds for a frame of 1080p."""
LONG_RUN = 300_000_000
"""Pixels in all frames, five seconds of 1080p, from which on the time that a run takes is estimated."""
_TRIAL_SIZES = ((320, 184), (640, 368))
"""Frames restored for an estimate: the encoders cost the same at every size, the rest grows with the pixels."""


@dataclass(frozen=True)
class RunPlan:
    """One input, one output, and what happens in between."""

    source: str
    output: str
    settings: EncoderSettings
    streams: tuple[StreamPlan, ...]
    frames: int | None
    """Expected number of frames, or None where the source does not say."""
    counted: bool
    """The number of frames is that of the source's header, and not estimated from its length and rate."""
    device: str
    notes: tuple[str, ...] = ()
    seconds: float | None = None
    """Estimated time of the run; None where it is short or nothing is known."""

    @property
    def changed(self) -> tuple[str, ...]:
        """Sentences about streams that the output will not hold, or not as one may expect."""
        return tuple(stream.sentence for stream in self.streams if stream.reason and not stream.asked)

    @property
    def kept(self) -> int:
        """Number of other streams that the output will hold."""
        return sum(stream.kept for stream in self.streams)

    @property
    def headline(self) -> str:
        s = self.settings
        about = "" if self.counted else "about "
        count = f"{about}{self.frames} frames" if self.frames else "frames until the end"
        quality = ", lossless" if s.lossless else ""
        return (
            f"{self.source} -> {self.output}: {count}, {s.width}x{s.height} {s.codec} {s.pixel_format}{quality}, "
            f"on {self.device}"
        )

    def lines(self) -> list[str]:
        """Return the plan in words, for `--dry-run`."""
        options = " ".join(f"{key}={value}" for key, value in self.settings.options.items())
        estimate = "" if self.seconds is None else f", about {format_duration(self.seconds)}"
        return [
            self.headline + estimate,
            f"encoder {self.settings.encoder}" + (f" with {options}" if options else ""),
            *(stream.sentence for stream in self.streams),
            *self.notes,
        ]

    def as_json(self) -> dict[str, Any]:
        s = self.settings
        same = ("width", "height", "codec", "pixel_format", "lossless", "encoder")
        return {
            "source": self.source,
            "output": self.output,
            "frames": self.frames,
            **{name: getattr(s, name) for name in same},
            "encoder_options": dict(s.options),
            "device": self.device,
            "estimated_seconds": None if self.seconds is None else round(self.seconds),
            "streams": [stream.as_json() for stream in self.streams],
            "notes": list(self.notes),
        }


def format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _outruns_encoders(network: Network) -> bool:
    """Whether an encoder at its usual preset would take longer than the network: on a GPU, and for the small one."""
    small = (
        isinstance(network, LiBrANet) and network.config.parts.refiner and network.config.refiner.width <= _SMALL_WIDTH
    )
    return network.device.type == "cuda" or small


def make_plan(reader: VideoReader, output: Path, network: Network, options: DehazeOptions) -> RunPlan:
    """Decide about a run, and try encoder and container."""
    options.adjust.check_mask()
    fast = _outruns_encoders(network)
    notes = list(reader.notes)
    if options.codec is not None and is_hardware(options.codec) and not is_available(options.codec):
        options, note = _in_software(options, options.codec, "this FFmpeg has no such encoder")
        notes.append(note)
    settings = encoder_settings(reader, output, options, fast=fast)
    if layout_of(reader.pixel_format).alpha and not layout_of(settings.pixel_format).alpha:
        notes.append(f"the alpha channel is left out: {_why_opaque(reader, options)}")
        reader.watch_alpha = options.pixel_format is None
    try:
        check_options_used(open_encoder(settings), dict(options.encoder_options))
    except InputError as error:
        if not is_hardware(settings.codec):
            raise
        options, note = _in_software(options, settings.codec, str(error).partition("(")[2].partition(")")[0])
        settings = encoder_settings(reader, output, options, fast=fast)
        open_encoder(settings)
        notes.append(note)
    if settings.lossless:
        from libranet.video.lossless import check_lossless

        check_lossless(settings)
    if options.two_pass and settings.codec not in TWO_PASS:
        raise InputError(f"{settings.codec} cannot be encoded in two passes: use --codec {' or '.join(TWO_PASS)}")
    reopened = reader.source if reader.source is not None and reader.source.can_reopen else None
    streams, losses = plan_streams(
        reopened,
        reader.container,
        reader.first_packets,
        output.suffix.lower(),
        settings,
        audio=options.audio,
        tracks=options.audio_tracks,
    )
    if not reader.deinterlace and reader.stream is not None and reader.stream.codec_context.field_order > _PROGRESSIVE:
        notes.append("the file calls its frames interlaced, and they are not: the output calls them progressive")
    if settings.codec == "gif":
        notes.append("GIF reduces every frame to 256 colours")
    notes += losses
    bits = (layout_of(reader.pixel_format).bits, layout_of(settings.pixel_format).bits)
    if bits[1] < bits[0]:
        notes.append(f"{bits[0]} bits per sample become {bits[1]}")
    return RunPlan(
        source=reader.name,
        output=str(output),
        settings=settings,
        streams=streams,
        frames=expected_frames(reader, options),
        counted=is_counted(reader, options),
        device=describe_device(network.device),
        notes=tuple(notes),
    )


def _why_opaque(reader: VideoReader, options: DehazeOptions) -> str:
    """Say why alpha is left out of a video whose first frame is opaque. Its other frames are looked at before."""
    if options.pixel_format is not None:
        return "as asked"
    if reader.source is None or not reader.source.can_reopen:
        return "the first frame is opaque"
    opened = open_video(reader.source, deinterlace=reader.deinterlace, start=options.start)
    with opened as again, suppress(FormatChangeError):  # the frames before are all that the output will have
        for frame in again.frames(start=options.start, end=options.end):
            if not is_opaque(frame.image):
                when = frame.time(again.time_base) - float(again.first_time)
                return f"the first frame is opaque, but not that at {when:.2f} s; .mkv keeps alpha"
    return "it is opaque"


def _in_software(options: DehazeOptions, codec: CodecName, reason: str) -> tuple[DehazeOptions, str]:
    """Return the options with the software encoder of the same codec, and a sentence about it."""
    software = cast(CodecName, codec.split("_")[0])
    dropped = " without --preset and --encoder-option" if options.preset or options.encoder_options else ""
    note = f"{codec} does not work on this machine ({reason}): {software} is used{dropped}"
    return replace(options, codec=software, preset=None, encoder_options=()), note


def encoder_settings(
    reader: VideoReader, output: Path, options: DehazeOptions, *, fast: bool = False
) -> EncoderSettings:
    """Choose codec, pixel format and options for the frames of `reader` in file `output`.

    `fast`: the encoder will bound the run, so without a preset a fast one is chosen.
    """
    layout = layout_of(reader.pixel_format)
    wanted = layout if options.pixel_format is None else named_layout(options.pixel_format)
    size = output_size(reader, options, wanted)
    exact = options.crf == 0
    choose = partial(choose_codec, output, asked=options.codec, source_codec=reader.codec, size=size, exact=exact)
    try:
        codec = choose(layout=wanted)
    except InputError:
        if not (wanted.alpha and reader.opaque):
            raise
        layout = wanted = layout_of(wanted.name.replace("gbra", "gbr").replace("yuva", "yuv"))
        codec = choose(layout=wanted)
    lossless = is_lossless(codec, options.crf)
    if options.pixel_format is not None:
        chosen: tuple[str, str] | None = named_pixel_format(codec, options.pixel_format)
    else:
        chosen = pick_pixel_format(codec, layout, exact=lossless)
    assert chosen is not None
    planar, name = chosen
    tags = reader.tags
    if reader.pixel_format.startswith("gbr") and planar.startswith("yuv"):  # the matrix of its size, limited range
        tags = replace(tags, colorspace=1 if reader.height >= 720 else 6, color_range=1)
    target = layout_of(planar)
    size = output_size(reader, options, target)
    if options.scale is not None:
        from libranet.video.scale import scaled_tags

        tags = scaled_tags(tags, drawn_size(reader, options, target), size)
    chosen_options = encoder_options(
        codec, crf=options.crf, preset=options.preset, layout=target, tags=tags, bitrate=options.bitrate, fast=fast
    )
    if codec == "h264" and output.suffix.lower() == ".avi":
        chosen_options["bf"] = "0"  # AVI has one time for each frame: reordered ones would be late against the audio
    return EncoderSettings(
        codec=codec,
        pixel_format=planar,
        width=size[0],
        height=size[1],
        time_base=_time_base(codec, output, reader),
        rate=reader.rate,
        tags=tags,
        options=with_user_options(chosen_options, options.encoder_options),
        encoder_format="" if name == planar else name,
        lossless=lossless,
    )


def side_size(layout: PixelLayout, width: int, height: int, turns: int) -> tuple[int, int]:
    """Return width and height of two frames side by side, as a player rotates them, in whole chroma samples."""
    if turns % 2:
        return width, 2 * (height // layout.sub_y * layout.sub_y)
    return 2 * (width // layout.sub_x * layout.sub_x), height


def drawn_size(reader: VideoReader, options: DehazeOptions, layout: PixelLayout) -> tuple[int, int]:
    """Return width and height of finished frames before they are scaled."""
    if options.compare == "side":
        return side_size(layout, reader.width, reader.height, reader.tags.quarter_turns)
    return reader.width, reader.height


def output_size(reader: VideoReader, options: DehazeOptions, layout: PixelLayout) -> tuple[int, int]:
    width, height = drawn_size(reader, options, layout)
    if options.scale is None:
        return width, height
    from libranet.video.scale import scaled_size  # only runs with --scale load it

    return scaled_size(options.scale, width, height, layout=layout, turns=reader.tags.quarter_turns)


def named_layout(name: str) -> PixelLayout:
    try:
        return layout_of(planar_name(name))
    except ValueError:
        raise InputError(f"unknown pixel format {name!r}: use FFmpeg's name, such as yuv420p or yuv422p10le") from None


def _time_base(codec: str, output: Path, reader: VideoReader) -> Fraction:
    """Return the time base of the output: the source's own, where codec and container can count in it."""
    if codec == "gif":
        return _GIF_BASE
    if codec == "mpeg2" or output.suffix.lower() == ".mxf":
        return 1 / reader.rate
    return reader.time_base


def is_counted(reader: VideoReader, options: DehazeOptions) -> bool:
    """Return whether the source's header says how many frames a run will have."""
    return options.start == 0 and options.end is None and bool(reader.frame_count)


def expected_frames(reader: VideoReader, options: DehazeOptions) -> int | None:
    """Return how many frames a run will have, or None where the source does not say."""
    if is_counted(reader, options):
        return reader.frame_count
    if reader.duration is None:
        return None
    end = min(reader.duration, options.end) if options.end is not None else reader.duration
    return max(1, round((end - options.start) * float(reader.rate)))


def backend_for(
    network: Network,
    options: DehazeOptions,
    *,
    rate: float | None = None,
    live: bool | None = None,
    grids_given: bool = False,
    batch: int = 1,
) -> Backend:
    """Ask the runtime for what restores frames as the options say. Without a `rate` nothing is filtered over time."""
    return make_backend(
        network,
        strength=options.strength,
        live=options.live if live is None else live,
        grid_filter=NO_FILTER if rate is None else options.grid_filter(rate),
        grids_given=grids_given,
        batch=batch,
        backend=options.backend,
    )


def with_estimate(plan: RunPlan, reader: VideoReader, network: Network, options: DehazeOptions) -> RunPlan:
    """Return the plan of a long run on a CPU with the time that it should take, from a few small frames.

    On a GPU the encoder bounds a run, and the first seconds of it say more.
    """
    short = (plan.frames or 0) * reader.width * reader.height < LONG_RUN
    if short or options.live or network.device.type != "cpu" or not isinstance(network, LiBrANet):
        return plan
    make = partial(backend_for, network, options, live=True)
    small, large = ((w * h, _seconds_per_frame(make(), w, h)) for w, h in _TRIAL_SIZES)
    per_pixel = max(0.0, (large[1] - small[1]) / (large[0] - small[0]))
    seconds = (plan.frames or 0) * (large[1] + per_pixel * (reader.width * reader.height - large[0]))
    return replace(plan, seconds=max(seconds, 0.0))  # below the sizes of the trial the line may cross zero


def _seconds_per_frame(backend: Backend, width: int, height: int) -> float:
    frame = rgb_frames(torch.rand(1, 3, height, width))
    backend.push(frame)  # prepares for the size
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        backend.push(frame)
        seconds.append(time.perf_counter() - begin)
    return min(seconds)
