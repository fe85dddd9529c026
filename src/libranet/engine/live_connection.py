"""Connections of live outputs: a process that sends to an address, or a virtual camera."""

import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import suppress

import av

from libranet.engine.latency import LatencyMeter
from libranet.engine.plan import RunPlan
from libranet.engine.segments import OutputClock, prepare_for_encoder
from libranet.video.copied_stream import CopiedStream
from libranet.video.excerpt import Excerpt
from libranet.video.live_address import LiveAddress
from libranet.video.loopback import LoopbackCamera
from libranet.video.mux import AT_ONCE, OutputFile
from libranet.video.reader import SourceFrame, VideoReader, frame_duration

STALL_SECONDS = 10.0
"""An output that has taken nothing for so long is lost."""
_END_SECONDS = 4.0


class LostError(Exception):
    """The output takes no frames any more. The text says why."""


class SenderConnection:
    """An encoder, and a process of `libranet.video.sender`, which answers for each frame that it has sent."""

    def __init__(self, address: LiveAddress, plan: RunPlan, reader: VideoReader, meter: LatencyMeter) -> None:
        """Start the process, and wait until it is ready."""
        words = [f"{key}={value}" for key, value in (AT_ONCE | address.options).items()]
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "libranet.video.sender", address.format, address.location, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            bufsize=0,
            start_new_session=True,  # Ctrl-C ends the run, and the run ends the stream well
        )
        assert self._process.stdout is not None
        self._process.stdout.read(1)
        self._plan, self._reader, self._meter = plan, reader, meter
        self._on_the_way: deque[int] = deque()
        self._answered, self._killed = time.monotonic(), False
        self.works = False
        self._output: OutputFile | None = None
        threading.Thread(target=self._listen, name="sent", daemon=True).start()

    def _begin(self, first: SourceFrame) -> OutputFile:
        """Begin the stream, whose clock starts with its first frame."""
        plan, reader, pipe = self._plan, self._reader, self._process.stdin
        assert pipe is not None
        self._excerpt = Excerpt(first.pts * reader.time_base, chosen=True)
        step = frame_duration(reader.rate, reader.time_base)
        self._clock = OutputClock(reader.time_base, plan.settings.time_base, first.pts, step)
        try:
            output = OutputFile(pipe, ".nut", plan.settings, reader.container, plan.streams, self._excerpt)
            for stream in output.copies.values():
                _listen_alone(stream)
            output.write_header()
        except (OSError, av.FFmpegError):
            raise LostError(self._reason()) from None
        return output

    @property
    def stalls(self) -> bool:
        """Whether frames are on their way, and none has left for too long."""
        return bool(self._on_the_way) and time.monotonic() - self._answered > STALL_SECONDS

    def send(self, frame: SourceFrame) -> None:
        """Encode a frame and hand it to the process. A lost output raises a `LostError` here, in `copy` and `close`."""
        output = self._output = self._output or self._begin(frame)
        image = prepare_for_encoder(frame, self._plan.settings, self._clock)
        if not self._on_the_way:
            self._answered = time.monotonic()
        self._on_the_way.append(frame.pts)
        self._write(output, output.video.encode(image))
        for written in output.written.values():
            written.times.clear()  # of every frame, for a comparison that only files need

    def copy(self, index: int, packet: av.Packet) -> None:
        """Hand sound to the process."""
        stream = self._output.copies.get(index) if self._output is not None else None
        if self._output is not None and stream is not None and packet.size:
            self._write(self._output, stream.packets(packet, self._excerpt))

    def close(self) -> None:
        """End the stream, and wait until the process has sent its end."""
        assert self._process.stdin is not None
        try:
            if (output := self._output) is not None:
                self._write(output, output.video.encode(None))
                for stream in output.copies.values():
                    self._write(output, stream.finish(self._excerpt))
                output.close()
            self._process.stdin.close()
            code = self._process.wait(_END_SECONDS)
        except (OSError, av.FFmpegError, subprocess.TimeoutExpired):
            raise LostError(self._reason()) from None
        if code:
            raise LostError(self._reason())

    def kill(self) -> None:
        """End the process; who writes to it gets an error."""
        self._killed = self._process.poll() is None
        self._process.kill()

    def _write(self, output: OutputFile, packets: list[av.Packet]) -> None:
        try:
            output.write(packets, skip_invalid=True)
        except (OSError, av.FFmpegError):
            raise LostError(self._reason()) from None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        while answers := self._process.stdout.read(4096):
            self.works, self._answered = True, time.monotonic()
            for _ in answers:
                self._meter.sent(self._on_the_way.popleft())

    def _reason(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        if self._killed or self._process.poll() is None:
            return "it takes nothing"
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it closed the connection"


class LoopbackConnection:
    """A virtual camera."""

    works = True
    stalls = False

    def __init__(self, address: LiveAddress, plan: RunPlan, reader: VideoReader, meter: LatencyMeter) -> None:
        self._camera = LoopbackCamera(address.name, plan.settings.width, plan.settings.height)
        self._meter = meter

    def send(self, frame: SourceFrame) -> None:
        try:
            self._camera.write(frame.image)
        except OSError as error:
            raise LostError(error.strerror or str(error)) from None
        self._meter.sent(frame.pts)

    def copy(self, index: int, packet: av.Packet) -> None:
        """Cameras have no sound."""

    def close(self) -> None:
        self._camera.close()

    def kill(self) -> None:
        with suppress(OSError):
            self._camera.close()


Connection = SenderConnection | LoopbackConnection
"""A way to an output that works until it is lost."""


def _listen_alone(stream: CopiedStream) -> None:
    """Decode sound only where it is transcoded, and with a decoder of its own: a recording uses the stream's."""
    if stream.heard is None:
        return
    if not stream.transcodes:
        stream.heard = None
        return
    shared = stream.heard.decoder
    own = av.CodecContext.create(shared.codec.name, "r")
    assert isinstance(own, av.AudioCodecContext)
    own.extradata, own.sample_rate, own.layout = shared.extradata, shared.sample_rate, shared.layout
    stream.heard.decoder = own
