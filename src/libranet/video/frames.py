"""A decoded frame, and what may be wrong with the file it came from."""

from dataclasses import dataclass
from fractions import Fraction

import av

from libranet.errors import InputError


@dataclass(frozen=True)
class SourceFrame:
    """One decoded frame in a planar format. It still carries every property that FFmpeg gave it."""

    image: av.VideoFrame
    pts: int
    """Presentation time in units of the reader's time base."""
    duration: int
    """In the same units; 0 where the file does not say."""

    def time(self, time_base: Fraction) -> float:
        """Presentation time in seconds."""
        return float(self.pts * time_base)


@dataclass
class Damage:
    """What went wrong while reading. The run goes on; its exit code says that the output is partial."""

    packets: int = 0
    """Packets that could not be decoded."""
    frames: int = 0
    """Frames that the decoder marked as damaged."""
    truncated: str = ""
    """Why the video ended before its end, or nothing."""
    read_to: float = 0.0
    """Seconds up to which packets of any stream came."""
    repaired_times: int = 0
    """Frames without a usable timestamp, which got the next free one."""

    def __bool__(self) -> bool:
        return bool(self.packets or self.frames or self.truncated)

    def sentence(self) -> str:
        """One sentence for the user."""
        parts = []
        if self.packets or self.frames:
            parts.append(f"{self.packets} damaged packets were skipped and {self.frames} frames show damage")
        if self.truncated:
            parts.append(self.truncated)
        return "; ".join(parts)


class SizeChangeError(InputError):
    """The frame size changes in the middle. What came before is good."""
