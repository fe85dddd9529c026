"""One continuous clock for a source whose own clock jumps, such as recordings that were joined end to end."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av

_DISCONTINUOUS = 0x0200
"""AVFMT_TS_DISCONT: formats whose clock may jump (MPEG transport and program streams, HLS, Ogg)."""
FORWARD = Fraction(10)
"""Seconds that decoding times of one stream may leap ahead before it counts as a jump. They never go back."""


def may_jump(container: av.container.InputContainer) -> bool:
    """Return whether the clock of this container's format may jump."""
    return bool(int(container.format.flags) & _DISCONTINUOUS)


def first_time(container: av.container.InputContainer, of_video: Fraction) -> Fraction:
    """Return where players begin to count: at the earliest time of any stream. FFmpeg rounds it to microseconds."""
    if container.start_time is None:
        return of_video
    rounded, tick = Fraction(container.start_time, av.time_base), Fraction(1, av.time_base)
    starts = [(s.start_time or 0) * s.time_base for s in container.streams if s.time_base]
    return min((start for start in starts if abs(start - rounded) <= tick), default=rounded)


def pause_finder(container: av.container.InputContainer) -> Callable[[int, int], bool] | None:
    """Return what tells a pause of a recording from a join of two, or None where the format has no sign of it."""
    path = Path(container.name.removeprefix("file:"))
    if container.format.name != "mpegts" or not path.is_file():
        return None
    from libranet.video.structure.transport import goes_on

    return lambda stream, place: goes_on(path, stream, place)


class ContinuousClock:
    """Shifts the times of packets so that no stream's clock jumps. Give it all packets of a file in order.

    Each stretch of the file between two jumps has one shift for all of its streams, so sound and frames stay
    together. A stream enters the next stretch with its own first packet of it: at a border, packets of two stretches
    mix. The result depends only on the file, so two passes over it agree.

    A leap ahead is a pause, and stays, where another stream went on meanwhile, or where the file itself shows no join.
    """

    def __init__(self, *, active: bool, is_pause: Callable[[int, int], bool] | None = None) -> None:
        """Begin a file.

        Args:
            active: The clock of the file's format may jump.
            is_pause: Takes a stream's number (PID) and the place of its packet behind a leap, as `pause_finder` gives.
        """
        self._active, self._is_pause = active, is_pause
        self._shifts: list[Fraction] = [Fraction(0)]
        self._stretch: dict[int, int] = {}
        """The stretch that each stream is in."""
        self._decoded: dict[int, tuple[Fraction, Fraction]] = {}
        """Decoding time of each stream's last packet and its end, in the file's own clock."""
        self._latest: list[Fraction | None] = [None]
        """The latest end of a packet of each stretch, in the file's own clock."""
        self._end = Fraction(0)
        """The latest end of a packet so far, in the continuous clock."""
        self.closed = Fraction(0)
        """Seconds that the clock leapt ahead in all, which the continuous clock leaves out."""

    @property
    def jumps(self) -> int:
        return len(self._shifts) - 1

    def fix(self, packet: av.Packet) -> None:
        """Shift the packet's times in place."""
        if not self._active or packet.time_base is None:
            return
        stamp = packet.dts if packet.dts is not None else packet.pts
        if stamp is None:
            return
        time_base = packet.time_base
        steady = packet.stream.type in ("video", "audio")
        stretch = self._enter(packet.stream.index, stamp * time_base, packet, steady=steady)
        shift = round(self._shifts[stretch] / time_base)
        if shift:
            packet.pts = None if packet.pts is None else packet.pts + shift
            packet.dts = None if packet.dts is None else packet.dts + shift
        if steady:
            end = (stamp + (packet.duration or 0)) * time_base
            self._latest[stretch] = max(end, self._latest[stretch] or end)
            shown = packet.pts if packet.pts is not None else packet.dts
            assert shown is not None
            self._end = max(self._end, (shown + (packet.duration or 0)) * time_base)

    def _enter(self, index: int, time: Fraction, packet: av.Packet, *, steady: bool) -> int:
        """Return the stretch that this packet belongs to."""
        newest = len(self._shifts) - 1
        if not steady:  # long pauses of subtitles and data say nothing about the clock
            return newest
        if packet.dts is not None and packet.pts is not None and packet.dts > packet.pts:  # damaged: no jump
            return self._stretch.get(index, newest)
        before = self._decoded.get(index)
        self._decoded[index] = (time, time + (packet.duration or 0) * (packet.time_base or Fraction(0)))
        stretch = self._stretch.setdefault(index, newest)
        if (before is None or time >= before[0]) and self._goes_on(stretch, time, packet):
            return stretch
        shown = packet.pts * packet.time_base if packet.pts is not None and packet.time_base else time
        last = (before[0] if before is not None else time) + self._shifts[stretch]
        # Another stream may have entered the next stretch already. One that takes this stream back is another.
        entered = [k for k in range(stretch + 1, newest + 1) if 0 <= time + self._shifts[k] - last <= FORWARD]
        known = [(abs(shown + self._shifts[k] - self._end), k) for k in entered]
        if not known or min(known)[0] > FORWARD:
            self.closed += max(Fraction(0), shown + self._shifts[stretch] - self._end)
            self._shifts.append(self._end - shown)
            self._latest.append(None)
            known = [(Fraction(0), newest + 1)]
        self._stretch[index] = min(known)[1]
        return self._stretch[index]

    def _goes_on(self, stretch: int, time: Fraction, packet: av.Packet) -> bool:
        """Return whether a stream whose time did not go back is still in its stretch of the file."""
        latest = self._latest[stretch]
        if latest is None or time - latest <= FORWARD:
            return True
        if self._is_pause is None or stretch != len(self._shifts) - 1:  # another stream has seen a join
            return False
        return packet.pos is not None and self._is_pause(packet.stream.id, packet.pos)
