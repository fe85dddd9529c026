"""Options of a run, its progress and its report, and the errors of its output."""

import errno
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import av

import libranet
from libranet.atomic import LONGEST_NAME, replaced_file
from libranet.errors import InputError, LibraNetError
from libranet.kernels.grid_filter.reference import DEFAULT_RATE
from libranet.network import GridFilter, WeightsInfo
from libranet.runtime import MAX_STRENGTH
from libranet.runtime.choose import check_backend
from libranet.typed import check_types
from libranet.video.copied_stream import AUDIO_CHOICES
from libranet.video.encoder import CodecName, is_available, is_video_name
from libranet.video.reader import DecoderName
from libranet.video.source import Source

if TYPE_CHECKING:
    from libranet.engine.latency import LiveReport

Compare = Literal["split", "side"]
View = Literal["result", "haze", "removed", "confidence"]
Exposure = Literal["network", "keep"]
Phase = Literal["reading ahead", "frames", "first pass", "second pass", "joining"]

EXPOSURE_SECONDS = 1.0  # the exposure is averaged over this time, so that it does not flicker
_LONGEST_SEGMENT, _MOST_CRF, _MOST_BITS = 100_000, 255, 10**11
"""Beyond what any encoder takes. Each has limits of its own."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OutputError(LibraNetError):
    """The output cannot be written: a full disk, a folder without write permission."""


@dataclass(frozen=True)
class Adjustments:
    """Controls as people know them from photo and grading programs. The defaults change nothing."""

    exposure: Exposure = "network"
    """`keep` gives the result the mean brightness of the input; haze brightens, so its removal darkens."""
    protect_sky: float = 0.0
    """0 to 1: how much of the original stays where the frame shows a bright even sky."""
    protect_shadows: float = 0.0
    """0 to 1: how much of the original stays in dark places."""
    color: float = 1.0
    """Factor on the change of colour, 0 to 1.5: 0 changes brightness only."""
    mask: str | None = None
    """An image: haze is removed where it is white, and stays where it is black."""
    strength_keys: tuple[tuple[float, float], ...] = ()
    """Seconds and strengths; between them the strength changes evenly."""

    def __post_init__(self) -> None:
        check_types(self)
        for name, most in (("protect_sky", 1.0), ("protect_shadows", 1.0), ("color", 1.5)):
            if not 0.0 <= getattr(self, name) <= most:
                raise InputError(f"expected --{name.replace('_', '-')} from 0 to {most:g}, got {getattr(self, name)}")
        times = [time for time, _ in self.strength_keys]
        if times != sorted(set(times)) or not all(math.isfinite(time) and time >= 0 for time in times):
            raise InputError(f"expected key frames of the strength at increasing times, got {self.strength_keys}")

    def check_mask(self) -> None:
        """Read the mask once, before anything is computed: one that cannot be read raises an error then."""
        if self.mask is not None:
            from libranet.images import read_image  # only where there is a mask

            read_image(self.mask)

    @property
    def neutral(self) -> bool:
        """Whether nothing is adjusted."""
        return self == Adjustments()

    def memory(self, rate: float) -> int:
        """Return how many earlier frames a frame depends on."""
        return round(EXPOSURE_SECONDS * rate) if self.exposure == "keep" else 0


@dataclass(frozen=True)
class DehazeOptions:
    """Everything that shapes the frames and the file."""

    strength: float = 1.0
    """0 returns the input bit for bit, 1 is the network's output, up to 1.5 exaggerates it."""
    steady: float | None = None
    """Seconds over which colours are kept steady, so that video does not pump; 0 is off, up to 2. None settles them
    over whole shots of video files, and over the last second of everything that is read once."""
    backend: str = "auto"
    """What computes the layers: `auto` takes our kernels where they pay, `plain` is the reference in PyTorch."""
    adjust: Adjustments = field(default_factory=Adjustments)
    """Exposure, protection of skies and shadows, colour, a mask, key frames of the strength."""
    compare: Compare | None = None
    """`split` shows the input left and the result right of a line, `side` shows both whole, next to each other."""
    view: View = "result"
    """Instead of the result, a heat map: `haze` of how dense the haze is, `removed` of what the result lost of it,
    `confidence` of how much of the result was seen rather than guessed. Strength and adjustments leave `haze` and
    `confidence` alone."""
    start: float = 0.0
    """Seconds to begin at."""
    end: float | None = None
    """Seconds to stop before."""
    codec: CodecName | None = None
    """None keeps the source's codec where the container and FFmpeg can write it."""
    crf: int | None = None
    """Quality of lossy codecs; 0 is lossless."""
    preset: str | None = None
    """Speed of the encoder, as the encoder names it."""
    bitrate: int | None = None
    """Bits per second instead of a quality."""
    two_pass: bool = False
    """With a bit rate: encode twice, so that bits go where the video needs them."""
    scale: str | None = None
    """Size of the output: 1280x720, 720p or 1/2. The network still sees the frames in their own size."""
    pixel_format: str | None = None
    """FFmpeg's name, where the output must have another pixel format than the input."""
    encoder_options: tuple[tuple[str, str], ...] = ()
    """Further options of the encoder, as FFmpeg names them."""
    audio: str = "copy"
    """`copy`, `none`, or the codec that audio is transcoded to."""
    audio_tracks: tuple[int, ...] | None = None
    """Numbers of the audio tracks to keep, from 0; None keeps all."""
    deinterlace: bool = False
    decoder: DecoderName = "cpu"
    """`cuda` decodes files in an NVIDIA GPU where it can; samples are the same."""
    live: bool = False
    """No look-ahead: every frame is returned at once."""
    shot_detection: bool = True
    """Detect cuts, and reset the network's memory at each of them."""
    segment_time: float | None = None
    """Seconds after which a recording goes on in another file."""
    record: str | None = None
    """A file, or a pattern of its parts, that a live output is also recorded to."""
    reconnect: float = 0.0
    """Seconds to try again when a network source, or a live output, is lost."""
    segment_frames: int = 120
    """Frames per segment: the most that a killed run loses, and the longest distance of key frames."""

    def __post_init__(self) -> None:
        check_types(self)
        if not 0.0 <= self.strength <= MAX_STRENGTH:
            raise InputError(f"expected a strength from 0 to {MAX_STRENGTH}, got {self.strength}")
        if self.view in ("haze", "confidence"):  # they tell of the input, by what the whole network makes of it
            object.__setattr__(self, "strength", 1.0)
            object.__setattr__(self, "adjust", Adjustments())
        self.grid_filter(DEFAULT_RATE)  # checks the value
        if self.adjust.strength_keys:
            values = [value for _, value in self.adjust.strength_keys]
            object.__setattr__(self, "strength", max(values))
            if not all(0.0 <= value <= MAX_STRENGTH for value in values):
                raise InputError(f"expected strengths from 0 to {MAX_STRENGTH} at all key frames, got {values}")
        check_backend(self.backend)
        if not 0 <= self.start < math.inf:
            raise InputError(f"expected a start of at least 0 seconds, got {self.start}")
        if self.end is not None and not self.end > self.start:
            raise InputError(f"expected an end after the start, got --start {self.start} --end {self.end}")
        if not 2 <= self.segment_frames <= _LONGEST_SEGMENT:  # H.264 forbids key frame after key frame of one number
            raise InputError(f"expected segments of 2 to {_LONGEST_SEGMENT} frames, got {self.segment_frames}")
        if self.crf is not None and not 0 <= self.crf <= _MOST_CRF:
            raise InputError(f"expected --crf from 0 to {_MOST_CRF}, got {self.crf}")
        if self.bitrate is not None and not 1 <= self.bitrate <= _MOST_BITS:
            raise InputError(f"expected --bitrate from 1 to {_MOST_BITS} bits per second, got {self.bitrate}")
        if self.audio not in AUDIO_CHOICES:
            raise InputError(f"unknown --audio {self.audio!r}: use one of {', '.join(AUDIO_CHOICES)}")
        if any(number < 0 for number in self.audio_tracks or ()):
            raise InputError(f"expected numbers of audio tracks from 0 on, got {self.audio_tracks}")
        if self.scale is not None:
            from libranet.video.scale import check_scale  # only runs with --scale load it

            check_scale(self.scale)
        if self.record is not None and not is_video_name(self.record):
            raise InputError(f"expected --record as the name of a video such as record.mkv, got {self.record!r}")
        if self.two_pass and self.bitrate is None:
            raise InputError("--two-pass spreads a given number of bits over the video: add --bitrate, such as 8M")
        if self.segment_time is not None and not 1 <= self.segment_time < math.inf:
            raise InputError(f"expected --segment-time of at least 1 second, got {self.segment_time}")
        if not 0 <= self.reconnect < math.inf:
            raise InputError(f"expected --reconnect of at least 0 seconds, got {self.reconnect}")

    def grid_filter(self, rate: float) -> GridFilter:
        """The filter of the grids over time, at this frame rate."""
        return GridFilter(rate=rate) if self.steady is None else GridFilter(self.steady, rate)

    @property
    def whole_shots(self) -> bool:
        """Whether grids are settled over whole shots of files."""
        return self.steady is None and not self.live

    def reach(self, window: int, rate: float, *, settled: bool = False) -> int:
        """Return how many frames back a restored frame depends on. Earlier frames change nothing.

        Those are the frames that the filter over time and the adjustments reach, and the window of the oldest of them.
        With settled grids only the residual is filtered.
        """
        filter_ = self.grid_filter(rate)
        return (filter_.memory if settled else window // 2 + filter_.reach) + self.adjust.memory(rate)


@dataclass(frozen=True)
class Progress:
    """The state of a run."""

    frames: int
    """Frames written so far, those of an earlier run included."""
    total: int | None
    """Number of frames, or None where the file does not say."""
    fps: float
    """Frames per second of this run."""
    bound_by: str
    """The slowest stage: decode, network or encode."""
    phase: Phase = "frames"
    remedy: str = ""
    """What would make that stage faster, or nothing."""
    live: str = ""
    """Of a live output: its connection, its latency, and what was left out."""


@dataclass(frozen=True)
class DehazeReport:
    """The result of a run."""

    source: str
    output: str
    frames: int
    resumed_frames: int
    """Frames taken over from an earlier, unfinished run."""
    width: int
    height: int
    codec: str
    pixel_format: str
    seconds: float
    stage_seconds: dict[str, float] = field(default_factory=dict)
    """Busy time of each stage, without the start."""
    start_seconds: float = 0.0
    """Until the network had taken the first frame: buffers, and on a GPU compiling and a first comparison."""
    cuts: int = 0
    """Cuts found by shot detection."""
    copied_streams: int = 0
    partial: str = ""
    """Why the output does not hold the whole input, or nothing."""
    warnings: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Of a recording in several files."""
    weights: WeightsInfo = field(default_factory=WeightsInfo)
    """Name and version of the network's weights."""
    backend: str = ""
    """Which backend restored the frames; nothing where all of them were taken over."""
    live: "LiveReport | None" = None
    """Of a live output: its latency, and what was left out."""

    def as_json(self) -> dict[str, Any]:
        """Return the report for JSON, with the frames per second of this run and the versions."""
        fps = (self.frames - self.resumed_frames) / self.seconds if self.seconds else 0.0
        values = asdict(self)
        del values["weights"]
        if self.live is None:
            del values["live"]
        return {
            **values,
            "fps": round(fps, 3),
            "libranet": libranet.__version__,
            **self.weights.as_json(),
        }


def what_lifts(stage: str, *, codec: str, device: str) -> str:
    """Return what a user can do about the stage (decode, network or encode) that bounds a run, or nothing."""
    if stage == "network":
        return "a GPU (--device cuda)" if device == "cpu" else ""
    if stage == "encode" and codec in ("h264", "hevc"):
        hardware = f", or --codec {codec}_nvenc" if device == "cuda" and is_available(f"{codec}_nvenc") else ""
        return f"a faster --preset{hardware}"
    return "a faster --preset" if stage == "encode" and codec in ("av1", "vp9") else ""


def check_output(source: Source | str | Path, output: Path, *, overwrite: bool) -> None:
    """Refuse an output that would destroy something, or cannot work, before any work is done."""
    path = source.path if isinstance(source, Source) else Path(source)
    if output.name in ("", "..") or str(output).strip() == "":
        raise InputError(f"the output {str(output)!r} is no file name: give one such as clear.mp4")
    if len(os.fsencode(output.name)) > LONGEST_NAME:
        raise InputError(
            f"the output's name has {len(os.fsencode(output.name))} bytes and file systems take {LONGEST_NAME}: "
            f"choose a shorter one than {output.name[:20]}..."
        )
    if path is not None and path.is_file() and output.exists() and output.samefile(path):
        raise InputError(f"the output {output} is the input itself: choose another name")
    if output.is_dir():
        raise InputError(f"the output {output} is a folder: give a file name")
    if output.exists() and not output.is_file():
        raise InputError(f"the output {output} is no ordinary file: choose another name, or write y4m with -o -")
    if output.exists() and not overwrite:
        raise InputError(f"{output} exists: add --overwrite to replace it, or choose another name")
    if replaced_file(output).is_symlink():
        raise InputError(f"the output {output} is a link that leads to itself: choose another name")
    folder = replaced_file(output).parent
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: create it, or choose another place for the output")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"the folder {folder} may not be written to: choose another place for the output")


@contextmanager
def translate_io_errors(path: Path | str, hint: str = "") -> Iterator[None]:
    """Turn errors of the operating system while writing `path` into an `OutputError` of one sentence."""
    try:
        yield
    except (OSError, av.FFmpegError) as error:
        code = getattr(error, "errno", None)
        if code in _DISK_FULL:
            raise OutputError(f"the disk is full while writing {path}: free some space{hint}") from None
        if code == errno.EPIPE:
            raise OutputError(f"the program that reads {path} has gone: nothing more can be written") from None
        raise OutputError(f"cannot write {path} ({error}): choose another place{hint}") from None
