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


@dataclass
class HeardSound:
    """Decodes the packets of one stream. What an edit list or an encoder's lead-in hides is not heard."""

    decoder: av.AudioCodecContext
    """The stream's own, which knows what to leave out."""
    excerpt: Excerpt
    """Sound outside of it does not count. Times are those of the output."""
    first: Fraction | None = None
    """Time of the first sample, in seconds."""
    seconds: Fraction = Fraction(0)
    """Length of all samples."""
    pieces: list[tuple[Fraction, Fraction]] = field(default_factory=list)
    """Seconds of sound before each gap and behind it, and how much later its samples come than without gaps."""

    @classmethod
    def of(cls, stream: Any, excerpt: Excerpt) -> "HeardSound | None":
        """Prepare for a stream; None where it has no sound that this FFmpeg can decode."""
        context = stream.codec_context
        if stream.type != "audio" or context is None:
            return None
        return cls(context, excerpt)

    def take(self, packet: av.Packet) -> None:
        """Decode a packet. Damaged packets are not heard."""
        try:
            frames = self.decoder.decode(packet)
        except (av.FFmpegError, EOFError):
            return
        for frame in frames:
            assert isinstance(frame, av.AudioFrame)
            if frame.pts is not None and frame.sample_rate:
                self._add(frame.pts * (frame.time_base or Fraction(0)), Fraction(frame.samples, frame.sample_rate))

    def _add(self, time: Fraction, length: Fraction) -> None:
        begin, end, middle = self.excerpt.sound_from, self.excerpt.end, time + length / 2
        if (begin is not None and middle < begin) or (end is not None and middle >= end):
            return
        time -= self.excerpt.start
        self.first = time if self.first is None else self.first
        late = time - self.first - self.seconds
        if not self.pieces or abs(late - self.pieces[-1][1]) > _STEP:
            self.pieces.append((self.seconds, late))
        self.seconds += length

    def lateness(self, at: Fraction) -> Fraction:
        """Return how much later than without gaps the sound behind `at` seconds of it comes."""
        return self.pieces[max(0, bisect_right(self.pieces, at, key=lambda piece: piece[0]) - 1)][1]

    def drift_from(self, other: "HeardSound") -> Fraction:
        """Return the largest difference of the gaps of two sounds: how far one moves against the other."""
        places = {at for sound in (self, other) for at, _ in sound.pieces if at < min(self.seconds, other.seconds)}
        return max((self.lateness(at) - other.lateness(at) for at in places), key=abs, default=Fraction(0))
