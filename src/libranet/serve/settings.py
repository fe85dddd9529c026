"""What a server may use, and where it keeps its files."""

import ipaddress
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from libranet.errors import InputError

GIB = 1 << 30
MIN_TOKEN = 8
MOST_CAMERAS = 8


@dataclass(frozen=True)
class Limits:
    """What a visitor may ask for."""

    upload_bytes: int = 4 * GIB
    """Size of one file."""
    seconds: float = 1800.0
    """Length of a video."""
    pixels: int = 1 << 26
    """Pixels of a frame: 67 million are twice 8K."""
    chunk_bytes: int = 8 << 20
    """Size of one piece of an upload."""
    idle_seconds: float = 20.0
    """The longest pause within one piece of an upload."""
    slowest_bytes: float = 4096.0
    """Bytes per second, on average, that a piece of an upload must reach after that pause."""
    abandoned_seconds: float = 3600.0
    """An upload is deleted when no piece has come for this long."""
    silent_seconds: float = 60.0
    """An upload without a piece for this long gives way to others where room is short."""
    uploads_per_address: int = 20
    """Unfinished uploads of one address at a time. Together they may promise half of the quota."""
    jobs: int = 200
    """Jobs that are kept at a time, finished ones included."""
    quota_bytes: int = 20 * GIB
    """Bytes of all files together. Unfinished uploads count whole."""
    keep_seconds: float = 24 * 3600.0
    """A job is deleted when nothing has happened to it for this long."""
    memory_bytes: int = 8 * GIB
    """Memory that a process may take for media, beside the network."""
    inspect_seconds: float = 20.0
    """Time to open a file and decode its first frame."""
    preview_seconds: float = 60.0
    """Time to restore one frame."""
    stall_seconds: float = 300.0
    """The longest time that a job may take for one frame."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise InputError(f"expected a limit above 0 for {name.replace('_', ' ')}, got {value:g}")


@dataclass(frozen=True)
class ServeSettings:
    """One server."""

    folder: Path
    """Where uploads, results and the list of jobs are kept."""
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    """What visitors must know. Required unless the server listens on this machine alone."""
    model: str | None = None
    """As `libranet dehaze --model` takes it."""
    fast_model: str | None = None
    """A second network, for visitors who choose speed."""
    devices: tuple[str, ...] = ("auto",)
    sub_path: str = ""
    """Such as /haze, where a proxy passes it on. One that leaves it out needs nothing here."""
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    """Addresses and networks whose X-Forwarded headers say who the visitor is and whether the page came by HTTPS."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.devices:
            raise InputError("expected at least one device")
        if self.token is not None and (len(self.token) < MIN_TOKEN or not self.token.isascii()):
            raise InputError(f"expected a token of at least {MIN_TOKEN} ASCII characters, got {len(self.token)}")
        if self.token is None and not is_loopback(self.host):
            raise InputError(
                f"a server at {self.host} can be reached by others: set --token, or leave out --host to serve this "
                "machine alone"
            )
        if self.sub_path and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", self.sub_path):
            raise InputError(f"expected a sub-path such as /haze, without a slash at its end, got {self.sub_path!r}")
        for network in self.trusted_proxies:
            _check_network(network)
        if not 0 <= self.port < 1 << 16:
            raise InputError(f"expected a port from 0 to 65535, got {self.port}")

    @property
    def jobs_folder(self) -> Path:
        return self.folder / "jobs"

    @property
    def database(self) -> Path:
        return self.folder / "jobs.sqlite"


def _check_network(text: str) -> None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise InputError(f"expected a proxy's address or network, such as 10.0.0.0/8, got {text!r}") from None


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_folders(settings: ServeSettings) -> None:
    """Make the folders, readable by this user alone."""
    try:
        for folder in (settings.folder, settings.jobs_folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(f"cannot make the folder {error.filename} ({error.strerror}): choose --data") from None
    if not os.access(settings.jobs_folder, os.W_OK):
        raise InputError(f"the folder {settings.folder} may not be written to: choose another with --data")
