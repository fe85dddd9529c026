"""What a listener hears of a sound stream: decoded samples and their times, of a source and of the finished file."""

from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av

from libranet.video.excerpt import Excerpt

_STEP = Fraction(1, 200)
"""Seconds by which the time of a sample must differ from the one that its number gives to count as a gap: coarse clocks
round every time."""
_LEAD_IN = Fraction(1, 10)
"""Seconds of an encoder's lead-in that one container hides and another does not: a gap comes so much later."""


@dataclass
class HeardSound:
    """Decodes the packets of one stream. What an edit list or an encoder's lead-in hides is not heard."""

    decoder: av.AudioCodecContext
    """The stream's own, which knows what to leave out."""
    excerpt: Excerpt
    """Sound outside of it does not count. Times are those of the output."""
    damaged: int = 0
    """Packets that could not be decoded."""
    first: Fraction | None = None
    """Time of the first sample, in seconds."""
    seconds: Fraction = Fraction(0)
    """Length of all samples."""
    longest: Fraction = Fraction(0)
    """Length of the longest packet: a cut is as exact as that."""
    pieces: list[tuple[Fraction, Fraction]] = field(default_factory=list)
    """Seconds of sound before each gap and behind it, and how much later its samples come than without gaps."""

    @classmethod
    def of(cls, stream: Any, excerpt: Excerpt) -> "HeardSound | None":
        """Prepare for a stream; None where it has no sound that this FFmpeg can decode."""
        context = stream.codec_context
        if stream.type != "audio" or context is None:
            return None
        if context.is_open:
            context.flush_buffers()  # an earlier trial may have used it
        return cls(context, excerpt)

    def take(self, packet: av.Packet | None) -> list[av.AudioFrame]:
        """Decode a packet, or what the decoder still holds. Return the frames that count. Damaged packets give none."""
        try:
            frames = self.decoder.decode(packet)
        except EOFError:
            return []
        except av.FFmpegError:
            self.damaged += packet is not None
            return []
        return [frame for frame in frames if self._counts(frame)]

    def _counts(self, frame: av.AudioFrame) -> bool:
        if frame.pts is None or frame.time_base is None or not frame.sample_rate:
            return False
        time, length = frame.pts * frame.time_base, Fraction(frame.samples, frame.sample_rate)
        begin, end, middle = self.excerpt.sound_from, self.excerpt.end, time + length / 2
        if (begin is not None and middle < begin) or (end is not None and middle >= end):
            return False
        self._add(time - self.excerpt.start, length)
        return True

    def _add(self, time: Fraction, length: Fraction) -> None:
        self.first = time if self.first is None else self.first
        late = time - self.first - self.seconds
        if not self.pieces or abs(late - self.pieces[-1][1]) > _STEP:
            self.pieces.append((self.seconds, late))
        self.seconds, self.longest = self.seconds + length, max(self.longest, length)

    @property
    def coarseness(self) -> Fraction:
        """Seconds by which packets that begin or end the excerpt may reach beyond it, or not reach its border."""
        cut = self.excerpt.sound_from is not None or self.excerpt.end is not None
        return self.longest if cut else Fraction(0)

    def lateness(self, at: Fraction) -> Fraction:
        """Return how much later than without gaps the sound behind `at` seconds of it comes."""
        return self.pieces[max(0, bisect_right(self.pieces, at, key=lambda piece: piece[0]) - 1)][1]

    def drift_from(self, other: "HeardSound") -> Fraction:
        """Return the largest difference of the gaps of two sounds: how far one moves against the other."""
        shared, found = min(self.seconds, other.seconds), [Fraction(0)]
        for one, two, sign in ((self, other, 1), (other, self, -1)):
            for at, late in one.pieces:
                if at < shared:
                    near = (two.lateness(at + shift) for shift in (-_LEAD_IN, Fraction(0), _LEAD_IN))
                    found.append(min((sign * (late - lateness) for lateness in near), key=abs))
        return max(found, key=abs)
