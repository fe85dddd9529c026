"""One continuous clock for a source whose own clock jumps, such as recordings that were joined end to end."""

from fractions import Fraction

import av

_DISCONTINUOUS = 0x0200
"""AVFMT_TS_DISCONT: formats whose clock may jump (MPEG transport and program streams, HLS, Ogg)."""
FORWARD = Fraction(10)
"""Seconds that decoding times of one stream may leap ahead before it counts as a jump. They never go back."""


def may_jump(container: av.container.InputContainer) -> bool:
    """Return whether the clock of this container's format may jump."""
    return bool(int(container.format.flags) & _DISCONTINUOUS)


class ContinuousClock:
    """Shifts the times of packets so that no stream's clock jumps. Give it all packets of a file in order.

    Each stretch of the file between two jumps has one shift for all of its streams, so sound and frames stay
    together. A stream enters the next stretch with its own first packet of it: at a border, packets of two stretches
    mix. The result depends only on the packets, so two passes over a file agree.
    """

    def __init__(self, *, active: bool) -> None:
        self._active = active
        self._shifts: list[Fraction] = [Fraction(0)]
        self._stretch: dict[int, int] = {}
        """The stretch that each stream is in."""
        self._decoded: dict[int, tuple[Fraction, Fraction]] = {}
        """Decoding time of each stream's last packet and its end, in the file's own clock."""
        self._end = Fraction(0)
        """The latest end of a packet so far, in the continuous clock."""

    @property
    def jumps(self) -> int:
        """Jumps so far."""
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
        if before is None or (time >= before[0] and time - before[1] <= FORWARD):
            return stretch
        shown = packet.pts * packet.time_base if packet.pts is not None and packet.time_base else time
        last = before[0] + self._shifts[stretch]
        # Another stream may have entered the next stretch already. One that takes this stream back is another.
        entered = [k for k in range(stretch + 1, newest + 1) if 0 <= time + self._shifts[k] - last <= FORWARD]
        known = [(abs(shown + self._shifts[k] - self._end), k) for k in entered]
        if not known or min(known)[0] > FORWARD:
            self._shifts.append(self._end - shown)
            known = [(Fraction(0), newest + 1)]
        self._stretch[index] = min(known)[1]
        return self._stretch[index]
