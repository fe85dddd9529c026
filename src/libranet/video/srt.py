"""SRT through the `ffmpeg` program: the FFmpeg that PyAV ships has no such protocol. Only bytes pass, unchanged."""

import io
import shutil
import subprocess
from typing import IO, Any

from libranet.errors import InputError

_PACKET = "1316"
"""Bytes of a packet of SRT: seven of a transport stream."""


class _Bytes(io.RawIOBase):
    """One end of the program's pipe. Closing it ends the program."""

    def __init__(self, words: list[str], *, reads: bool) -> None:
        program = shutil.which("ffmpeg")
        if program is None:
            raise InputError("srt:// needs the program ffmpeg, which is not installed: install it, or use udp://")
        end = {"stdout" if reads else "stdin": subprocess.PIPE}
        self._reads = reads
        self._process = subprocess.Popen(
            [program, "-nostdin", "-v", "error", "-f", "data", "-raw_packet_size", _PACKET, *words],
            bufsize=0,
            start_new_session=True,  # Ctrl-C ends the run, and the run ends it
            **end,  # type: ignore[call-overload]
        )
        pipe: IO[bytes] | None = self._process.stdout if reads else self._process.stdin
        assert pipe is not None
        self._pipe = pipe

    def readable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return not self._reads

    def readinto(self, buffer: Any) -> int:
        return self._pipe.readinto(buffer) or 0  # type: ignore[attr-defined, no-any-return]

    def write(self, data: Any) -> int:
        return self._pipe.write(data)

    def close(self) -> None:
        if not self.closed:
            self._pipe.close()
            if self._reads:
                self._process.terminate()
            try:
                self._process.wait(3)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        super().close()


def receive(address: str) -> io.RawIOBase:
    """Return the bytes that come from an address."""
    return _Bytes(["-i", address, "-map", "0", "-c", "copy", "-f", "data", "pipe:1"], reads=True)


def send(address: str) -> io.RawIOBase:
    """Return a file whose bytes go to an address."""
    return _Bytes(["-i", "pipe:0", "-map", "0", "-c", "copy", "-f", "data", address], reads=False)
