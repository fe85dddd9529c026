"""The hidden folder of an unfinished run: finished segments and a manifest, from which `--resume` goes on."""

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import torch

from libranet.engine.options import OutputError
from libranet.errors import InputError
from libranet.models import LiBrANet

_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Segment:
    """A finished segment."""

    file: str
    frames: int
    first_pts: int
    end_pts: int
    """Presentation time plus duration of its last frame."""


class RunFolder:
    """Beside the output, hidden, and gone when the output is whole."""

    def __init__(self, output: Path) -> None:
        self.path = output.with_name(f".{output.name}.libranet")
        self.segments: list[Segment] = []
        self.ended: dict[str, Any] | None = None
        """What the pictures' end brought to light, once they are all encoded."""
        self._settings: dict[str, Any] = {}
        self._lock: IO[str] | None = None

    @property
    def frames(self) -> int:
        """Frames in finished segments."""
        return sum(segment.frames for segment in self.segments)

    @property
    def segment_paths(self) -> list[Path]:
        """The finished segments in order."""
        return [self.path / segment.file for segment in self.segments]

    def open(self, settings: dict[str, Any], *, resume: bool) -> None:
        """Begin a run, or go on with the one that is there if `resume` asks for it and its settings are the same."""
        try:
            self.path.mkdir(exist_ok=True)
            self._take_lock()
            if not (resume and self._read(settings)):
                self._clear()
                self._settings = settings
                self._write()
        except OSError as error:
            raise OutputError(f"cannot write beside the output ({error}): choose another folder") from None

    def next_segment(self) -> Path:
        """Where the next segment goes."""
        return self.path / f"segment-{len(self.segments):06d}.packets"

    def add(self, segment: Segment) -> None:
        """Note a finished segment."""
        self.segments.append(segment)
        self._write()

    def end(self, facts: dict[str, Any]) -> None:
        """Note that all pictures are encoded."""
        self.ended = facts
        self._write()

    def remove(self) -> None:
        """The run is over."""
        self.release()
        shutil.rmtree(self.path, ignore_errors=True)

    def release(self) -> None:
        """Let another process take over. An empty run leaves no trace."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if not self.segments and self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)

    def _read(self, settings: dict[str, Any]) -> bool:
        path = self.path / _MANIFEST
        if not path.exists():
            return False
        try:
            manifest = json.loads(path.read_text())
            old, segments = manifest["settings"], [Segment(**entry) for entry in manifest["segments"]]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path} is damaged: leave out --resume to begin anew") from None
        changed = [key for key in settings if json.loads(json.dumps(settings[key])) != old.get(key)]
        if changed:
            key = changed[0]
            raise InputError(
                f"the unfinished run had {key} = {old.get(key)!r}, this one has {settings[key]!r}: "
                "use the same settings, or leave out --resume to begin anew"
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
        temporary = self.path / f".{_MANIFEST}.part"
        temporary.write_text(json.dumps(manifest, indent=1))
        os.replace(temporary, self.path / _MANIFEST)

    def _clear(self) -> None:
        for file in self.path.iterdir():
            if file.name != "lock":
                file.unlink()

    def _take_lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows: two runs at the same output are the user's own affair
            return
        self._lock = (self.path / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            self._lock = None
            raise InputError(f"another run is writing the same output (it holds {self.path}): wait for it") from None


def fingerprint_source(path: Path) -> dict[str, Any]:
    """What tells one input file from another."""
    stat = path.stat()
    return {"path": str(path.resolve()), "size": stat.st_size, "changed": stat.st_mtime_ns}


def fingerprint_network(network: LiBrANet) -> str:
    """A hash of configuration, weights, precision and kind of device: what decides the network's every bit."""
    digest = hashlib.sha256(repr(network.config).encode())
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    digest.update(f"{network.dtype} {next(network.parameters()).device.type}".encode())
    return digest.hexdigest()[:16]
