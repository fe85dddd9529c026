"""Resumable runs: a hidden folder of finished segments, a manifest and a journal, from which `--resume` continues."""

import glob
import hashlib
import json
import shutil
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import av
import numpy as np
import torch

from libranet.atomic import atomic_file, hidden_name, locked_file, replaced_file
from libranet.engine.options import DehazeOptions, OutputError
from libranet.errors import InputError
from libranet.network import Network
from libranet.video.encoder import EncoderSettings, encoder_frame
from libranet.video.pixels import plane_views
from libranet.video.reader import SourceFrame
from libranet.video.source import Source

_MANIFEST = "manifest.json"
RESUME_HINT = " and run it again with --resume"
KEEP_SECONDS = 5.0  # a segment that takes longer than this is journalled
_TRIAL_FRAMES = 4  # frames before the pace of a run is known
_RECORD = struct.Struct("<qII")  # time of the frame, size, checksum
_JOURNALS = "journal-*.frames"


class OtherSettingsError(InputError):
    """The unfinished run in the folder had other settings."""


class BusyError(InputError):
    """Another process writes the same output."""


@dataclass(frozen=True)
class Segment:
    """A finished segment."""

    file: str
    frames: int
    first_pts: int
    end_pts: int
    """Presentation time plus duration of its last frame."""
    moved: float = 0.0
    """Seconds by which a frame of it is off its time in the source, at most: some codecs count in whole frames."""


class RunFolder:
    """The hidden folder beside the output, deleted when the output is complete.

    Where the output is a symbolic link, the folder is beside the file that it points to: the finished file is moved
    from one to the other, which file systems do only within themselves.
    """

    def __init__(self, output: Path) -> None:
        target = replaced_file(output)
        self.path = target.with_name(hidden_name(target.name, ".libranet"))
        self.segments: list[Segment] = []
        self.ended: dict[str, Any] | None = None
        """What joining needs to know, once all frames are encoded."""
        self._settings: dict[str, Any] = {}
        self._lock: IO[str] | None = None

    @property
    def frames(self) -> int:
        return sum(segment.frames for segment in self.segments)

    @property
    def segment_paths(self) -> list[Path]:
        return [self.path / segment.file for segment in self.segments]

    def open(self, settings: dict[str, Any], *, resume: bool) -> None:
        """Begin a run, or continue an unfinished one, if there is one with these settings.

        Raises:
            OtherSettingsError: The unfinished run had other settings.
            BusyError: Another process holds the folder.
            InputError: The folder is damaged.
            OutputError: The folder cannot be written.
        """
        try:
            if resume:
                self._take_over(settings)
            self.path.mkdir(exist_ok=True)
            self._lock = self._lock or locked_file(self.path / "lock")
            if self._lock is None:
                raise BusyError(f"another run is writing the same output (it holds {self.path}): wait for it")
            if not (resume and self._read(settings)):
                for file in self.path.iterdir():
                    if file.name != "lock":
                        file.unlink()
                self._settings = settings
                self._write()
        except OSError as error:
            raise OutputError(f"cannot write in {self.path.parent} ({error.strerror}): choose another folder") from None

    def segment_file(self, number: int) -> Path:
        return self.path / f"segment-{number:06d}.packets"

    def add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._write()

    def end(self, facts: dict[str, Any]) -> None:
        """Record that all frames are encoded."""
        self.ended = facts
        self._write()

    def remove(self) -> None:
        self.release()
        shutil.rmtree(self.path, ignore_errors=True)

    def release(self) -> None:
        """Let another process take over. A run without a finished frame leaves nothing behind."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if not self.segments and not any(self.path.glob(_JOURNALS)) and self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)

    def _take_over(self, settings: dict[str, Any]) -> None:
        """Continue a run with the same settings whose output had another suffix, such as one that failed to join.

        One that is alive goes on alone: its folder keeps its name.
        """
        if self.path.exists():
            return
        stem = self.path.name.removeprefix(".").removesuffix(".libranet").rpartition(".")[0]
        wanted = json.loads(json.dumps(settings))
        for other in sorted(self.path.parent.glob(f".{glob.escape(stem)}.*.libranet")):
            with suppress(OSError, ValueError, KeyError):
                manifest = json.loads((other / _MANIFEST).read_text())
                if manifest["settings"] != wanted or (lock := locked_file(other / "lock")) is None:
                    continue
                other.rename(self.path)
                self._lock = lock
                return

    def _read(self, settings: dict[str, Any]) -> bool:
        path = self.path / _MANIFEST
        if not path.exists():
            return False
        try:
            manifest = json.loads(path.read_text())
            old, segments = manifest["settings"], [Segment(**entry) for entry in manifest["segments"]]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path} is damaged: leave out --resume to start over") from None
        for key, value in json.loads(json.dumps(settings)).items():
            if old.get(key) != value:
                raise OtherSettingsError(
                    f"the unfinished run had {key} = {old.get(key)!r}, this one has {settings[key]!r}: "
                    "use the same settings, or leave out --resume to start over"
                )
        self._settings, self.segments, self.ended = settings, segments, manifest.get("ended")
        for leftover in self.path.glob(".*.part"):
            leftover.unlink()
        return True

    def _write(self) -> None:
        manifest = {
            "settings": self._settings,
            "segments": [asdict(segment) for segment in self.segments],
            "ended": self.ended,
        }
        with atomic_file(self.path / _MANIFEST) as temporary:
            temporary.write_text(json.dumps(manifest, indent=1))


class FrameJournal:
    """Restored frames of unfinished segments, as they went to the encoder: a stopped run loses none of them.

    A segment has a fixed number of frames, so that a resumed run writes the same bytes as an uninterrupted one. On a
    slow machine a segment of `length` frames takes minutes. The journal keeps its frames on disk until it is finished;
    a resumed run only encodes them again. Fast runs write no journal: their segments take seconds.
    """

    def __init__(self, folder: Path, *, length: int) -> None:
        self._folder, self._length = folder, length
        self._file: IO[bytes] | None = None
        self._segment: int | None = None
        self._begin: float | None = None
        self._frames = 0
        self._needed = True

    def add(self, segment: int, frame: SourceFrame) -> None:
        """Keep a frame. A disk that does not take it ends the journal, not the run."""
        self._judge()
        if not self._needed:
            return
        planes = [np.ascontiguousarray(view) for view in plane_views(frame.image)]  # copies only where rows are padded
        checksum = 0
        for plane in planes:
            checksum = zlib.crc32(plane.data, checksum)
        try:
            if self._file is None or self._segment != segment:
                self.close()
                self._file, self._segment = _path(self._folder, segment).open("ab", buffering=0), segment
            self._file.write(_RECORD.pack(frame.pts, sum(plane.nbytes for plane in planes), checksum))
            for plane in planes:
                rest = plane.data.cast("B")
                while rest:  # an unbuffered file may take a part at a time
                    rest = rest[self._file.write(rest) :]
        except OSError:
            self._give_up()

    def clear(self, segment: int) -> None:
        """Forget a segment: it is finished."""
        if segment == self._segment:
            self.close()
        with suppress(OSError):
            _path(self._folder, segment).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file. What is in it stays."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _give_up(self) -> None:
        self._needed = False
        self.close()
        for path in self._folder.glob(_JOURNALS):
            with suppress(OSError):
                path.unlink()

    def _judge(self) -> None:
        """Find out whether a segment takes long enough to be worth it."""
        now = time.monotonic()
        self._begin = now if self._begin is None else self._begin
        self._frames += 1
        if self._frames > _TRIAL_FRAMES and self._needed:
            pace = (now - self._begin) / (self._frames - 1)
            if pace * self._length <= KEEP_SECONDS:
                self._give_up()


def journalled_frames(folder: Path, segment: int, *, length: int) -> Iterator[tuple[int, bytes]]:
    """Yield time and samples of the frames that a stopped run had restored, from the first unfinished segment on.

    A journal of fewer than `length` frames is the last one.
    """
    full = True
    while full:
        records = 0
        for record in _records(_path(folder, segment)):
            records += 1
            yield record
        full, segment = records == length, segment + 1


def _records(path: Path) -> Iterator[tuple[int, bytes]]:
    with suppress(OSError), path.open("rb") as file:
        while len(head := file.read(_RECORD.size)) == _RECORD.size:
            pts, size, checksum = _RECORD.unpack(head)
            data = file.read(size)
            if len(data) < size or zlib.crc32(data) != checksum:
                return
            yield pts, data


def _path(folder: Path, segment: int) -> Path:
    return folder / f"journal-{segment:06d}.frames"


def write_samples(views: list[np.ndarray], data: bytes) -> bool:
    """Write the samples of a journal to the planes of a frame. Return False where they do not fit."""
    if len(data) != sum(view.nbytes for view in views):
        return False
    at = 0
    for view in views:
        view[...] = np.frombuffer(data, view.dtype, view.size, at).reshape(view.shape)
        at += view.nbytes
    return True


@dataclass
class OutputClock:
    """Turns times of the source into times of the output."""

    source_base: Fraction
    target_base: Fraction
    origin: int
    """This time of the source becomes zero."""
    step: int
    """Duration of a frame that has none, in the source's time base."""
    last: int | None = None
    moved: float = 0.0
    """The largest distance of a frame from its time, in seconds."""

    def pts(self, frame: SourceFrame) -> int:
        """Return the frame's time in the output. A coarser time base must not give two frames one time."""
        shifted = frame.pts - self.origin
        if self.source_base == self.target_base:
            return shifted
        exact = shifted * self.source_base / self.target_base
        self.last = round(exact) if self.last is None else max(round(exact), self.last + 1)
        self.moved = max(self.moved, float(abs(self.last - exact) * self.target_base))
        return self.last

    def duration(self, frame: SourceFrame) -> int:
        """Return the frame's duration in the output, 0 where the source does not say."""
        return round(frame.duration * self.source_base / self.target_base)

    def end(self, frame: SourceFrame) -> int:
        return frame.pts + (frame.duration or self.step)


def prepare_for_encoder(frame: SourceFrame, settings: EncoderSettings, clock: OutputClock) -> av.VideoFrame:
    """Return the frame as the encoder takes it, with its time in the output. The encoder chooses its frame type."""
    image = frame.image
    image.pts, image.time_base = clock.pts(frame), settings.time_base
    image.pict_type = 0
    return encoder_frame(image, settings)


def _fingerprint_file(path: Path) -> dict[str, Any]:
    stat = path.stat()
    return {"path": str(path.resolve()), "size": stat.st_size, "changed": stat.st_mtime_ns}


def _fingerprint_network(network: Network) -> str:
    """Hash configuration, weights, precision and kind of device: everything that decides the network's bits."""
    digest = hashlib.sha256(repr(network.config).encode())
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    digest.update(f"{network.dtype} {network.device.type}".encode())
    return digest.hexdigest()[:16]


def run_settings(source: Source, network: Network, options: DehazeOptions, settings: EncoderSettings) -> dict[str, Any]:
    """Return everything that decides the bits of the segments. Audio and the container do not."""
    encoder = {k: str(v) for k, v in asdict(settings).items()}
    shaping = asdict(options)
    if options.adjust.mask is not None:
        shaping["adjust"]["mask"] = _fingerprint_file(Path(options.adjust.mask))
    del shaping["audio"], shaping["audio_tracks"], shaping["decoder"]
    files = [path for _, path in source.files] or ([source.path] if source.path is not None else [])
    return {
        "source": [source.version] if source.version else [_fingerprint_file(path) for path in files],
        "network": _fingerprint_network(network),
        **shaping,
        "encoder": encoder,
        "libraries": f"PyAV {av.__version__}",
    }
