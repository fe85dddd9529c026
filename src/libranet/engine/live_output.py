"""Live outputs: frames leave as they come, or are left out. A lost output is tried again; nothing piles up."""

import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import av

from libranet.engine.latency import LatencyMeter
from libranet.engine.live_connection import Connection, LoopbackConnection, LostError, SenderConnection
from libranet.engine.options import DehazeOptions, OutputError, check_output
from libranet.engine.plan import RunPlan, make_plan
from libranet.errors import LibraNetError
from libranet.network import Network
from libranet.video.encoder import EncoderSettings
from libranet.video.live_address import LiveAddress
from libranet.video.loopback import PIXEL_FORMAT
from libranet.video.reader import SourceFrame, VideoReader

WAITING_FRAMES = 2
"""Frames that may wait for an output. More would only be older."""
WAITING_PACKETS = 500
"""Packets of sound that may wait: ten seconds of AAC."""
PATIENCE = 30.0
"""Seconds for which a lost output is tried again, unless --reconnect says how long."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
"""Seconds between two tries; each pause is twice as long as the last one."""
_END_SECONDS = 5.0
"""How long the last frames may take."""
_KEY_FRAME_SECONDS = 2
"""Whoever begins to watch waits for a key frame."""
_QUALITY = 23
"""Of x264 and x265, where nobody asks for another: half the bits of a file's."""


def live_plan(reader: VideoReader, address: LiveAddress, network: Network, options: DehazeOptions) -> RunPlan:
    """Return the plan of a live output: an encoder without delay, and the sound that the output can carry."""
    if address.is_playlist:
        check_output(reader.source or reader.name, Path(address.name), overwrite=True)
    options = replace(options, codec=options.codec or "h264", segment_time=None)
    if options.codec in ("h264", "hevc"):
        preset = options.preset or {"h264": "veryfast", "hevc": "ultrafast"}[options.codec]
        quality = _QUALITY if options.crf is None and options.bitrate is None else options.crf
        options = replace(options, preset=preset, crf=quality)
    if address.is_camera:
        options = replace(options, pixel_format=PIXEL_FORMAT, audio="none")
    # A transport stream holds what live formats hold, and more. The address has the last word about sound.
    plan = make_plan(reader, Path("live.ts"), network, options)
    given = {key for key, _ in options.encoder_options}
    settings = replace(plan.settings, options=_without_delay(plan.settings, options.bitrate, given))
    return replace(plan, output=address.name, settings=settings, streams=address.carried(plan.streams))


def _without_delay(settings: EncoderSettings, bitrate: int | None, given: set[str]) -> dict[str, str]:
    """The encoder's options with those that make it give back every frame at once. The user's own stay."""
    prompt = {"g": str(round(float(settings.rate) * _KEY_FRAME_SECONDS)), "bf": "0"}
    if settings.codec in ("h264", "hevc"):
        prompt["tune"] = "zerolatency"
    elif settings.codec.endswith("_nvenc"):
        prompt |= {"zerolatency": "1", "delay": "0"}
    if bitrate is not None:  # a live connection has no room for peaks
        prompt |= {"maxrate": str(bitrate), "bufsize": str(bitrate // 2)}
    return settings.options | {key: value for key, value in prompt.items() if key not in given}


class LiveSink:
    """Sends frames on a thread of its own, so that an output that is slow, or gone, stops nothing.

    At most `WAITING_FRAMES` frames wait. The oldest one is left out when another comes: it was not encoded yet, so what
    was sent before and what follows can be decoded.
    """

    files: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()

    def __init__(
        self, address: LiveAddress, plan: RunPlan, reader: VideoReader, options: DehazeOptions, meter: LatencyMeter
    ) -> None:
        """Prepare. The connection is made with the first frame."""
        self._address, self._plan, self._reader, self._meter = address, plan, reader, meter
        self._patience = 0.0 if address.is_playlist else options.reconnect or PATIENCE
        self._insists = options.reconnect > 0
        """A server that is not there in the beginning is waited for, too."""
        self.size = (plan.settings.width, plan.settings.height)
        self.unsent = self.reconnections = 0
        self.notes: list[str] = []
        self._frames: deque[SourceFrame] = deque()
        self._sound: deque[tuple[int, av.Packet]] = deque(maxlen=WAITING_PACKETS)
        self._changed = threading.Condition()
        self._ending = False
        self._error: LibraNetError | None = None
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="send", daemon=True)

    def __enter__(self) -> "LiveSink":
        self._connection = self._open()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._frames.clear()
        self._end()

    def _open(self) -> Connection:
        opening = LoopbackConnection if self._address.is_camera else SenderConnection
        return opening(self._address, self._plan, self._reader, self._meter)

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.works

    def write(self, frame: SourceFrame) -> None:
        """Take a frame to send, without waiting.

        Raises:
            LibraNetError: The output is gone for good.
        """
        if self._error is not None:
            raise self._error
        if (connection := self._connection) is not None and connection.stalls:
            connection.kill()
        with self._changed:
            if len(self._frames) == WAITING_FRAMES:
                self._frames.popleft()
                self.unsent += 1
            self._frames.append(frame)
            self._changed.notify()

    def copy(self, packet: av.Packet) -> None:
        """Take a packet of another stream. The newest ones wait for frames of their time."""
        copy = av.Packet(bytes(packet))  # a recording takes the packet itself apart
        copy.pts, copy.dts, copy.duration, copy.time_base = packet.pts, packet.dts, packet.duration, packet.time_base
        self._sound.append((packet.stream.index, copy))

    def finish(self) -> None:
        self._end()
        if self._error is not None:
            raise self._error

    def _end(self) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive() and (connection := self._connection) is not None:
            connection.kill()
            self._thread.join(_END_SECONDS)
        self.unsent += len(self._frames)
        self._frames.clear()

    def _run(self) -> None:
        """Connect, send until the connection is lost, and try again."""
        worked_before, lost_at, pause = False, time.monotonic(), FIRST_PAUSE
        while True:
            try:
                self._serve()
                return
            except LostError as error:
                reason = str(error)
            except LibraNetError as error:
                self._error = error
                return
            worked = self.is_connected
            self._connection = None
            self._sound.clear()
            if worked:
                worked_before, lost_at, pause = True, time.monotonic(), FIRST_PAUSE
            if self._ending and worked_before:
                return
            given_up = time.monotonic() - lost_at + pause > self._patience
            if given_up or self._ending or not (worked_before or self._insists):
                again = f" again within {self._patience:.0f} s" if worked_before else ""
                self._error = OutputError(
                    f"{self._address.name} cannot be reached{again} ({reason}): check the address and its server"
                )
                return
            with self._changed:
                self._changed.wait_for(lambda: self._ending, pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _serve(self) -> None:
        """Connect with the first frame that waits, and send until the end."""
        frame = self._next()
        if frame is None and self._connection is None:
            return
        connection = self._connection = self._connection or self._open()
        worked_before = self._meter.frames > 0
        try:
            while frame is not None:
                connection.send(frame)
                if worked_before and connection.works:
                    self.reconnections, worked_before = self.reconnections + 1, False
                while self._sound:
                    connection.copy(*self._sound.popleft())
                frame = self._next()
            connection.close()
        except BaseException:
            connection.kill()
            raise

    def _next(self) -> SourceFrame | None:
        """Wait for a frame; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._frames) or self._ending)
            return self._frames.popleft() if self._frames else None
