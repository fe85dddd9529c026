"""The part of a source that an output covers."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Excerpt:
    """The part of the source that the output covers, in seconds."""

    start: Fraction = Fraction(0)
    """This time of the source becomes zero."""
    end: Fraction | None = None
    """Copied packets stop here; None copies to the end."""
    first_frame: Fraction | None = None
    """Time of the first frame, for containers without start times: their sound begins with it."""
    chosen: bool = False
    """The user chose the start, or a recording goes on in another file: what comes before it is left out."""

    @property
    def sound_from(self) -> Fraction | None:
        """Sound before this time of the source is left out on purpose; None where there is none of it."""
        return self.first_frame if self.first_frame is not None else self.start if self.chosen else None
