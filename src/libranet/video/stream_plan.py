"""The decision about one stream of a source."""

from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal["copy", "repack", "transcode", "attach", "leave out"]


@dataclass(frozen=True)
class StreamPlan:
    """What happens to one stream."""

    index: int
    """In the source."""
    kind: str
    """audio, subtitle, data, attachment, cover or video."""
    codec: str
    """In the source."""
    action: Action
    target: str = ""
    """Codec in the output."""
    reason: str = ""
    asked: bool = False
    """The user asked for it: no need to say so."""
    cover: bytes = field(default=b"", repr=False)
    """The image to attach."""

    @property
    def kept(self) -> bool:
        """Whether the output holds the stream."""
        return self.action != "leave out"

    @property
    def sentence(self) -> str:
        """The decision in words."""
        what = f"{self.kind} stream {self.index} ({self.codec})"
        if self.action == "transcode":
            return f"{what} becomes {self.target}" + (f": {self.reason}" if self.reason else "")
        if self.action == "repack":
            return f"{what} is repacked as {self.target}"
        if self.action == "leave out":
            return f"{what} is left out: {self.reason}"
        return f"{what} is {'attached' if self.action == 'attach' else 'copied'}"

    def as_json(self) -> dict[str, Any]:
        """Return the decision for JSON."""
        return {
            "index": self.index,
            "kind": self.kind,
            "codec": self.codec,
            "action": self.action,
            "target": self.target,
            "reason": self.reason,
        }
