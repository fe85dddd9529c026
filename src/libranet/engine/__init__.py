"""Model meets video: the only product path. Command line, web page, Python API and workers call it."""

from typing import TYPE_CHECKING, Any

from libranet.backends import load_network
from libranet.engine.dehazer import Dehazer
from libranet.engine.options import DehazeOptions, DehazeReport, OutputError, Progress

if TYPE_CHECKING:
    from libranet.engine.video import dehaze_video

__all__ = [
    "DehazeOptions",
    "DehazeReport",
    "Dehazer",
    "OutputError",
    "Progress",
    "dehaze_video",
    "load_network",
]


def __getattr__(name: str) -> Any:
    """Files need PyAV; frames do not, and machines without it can use `Dehazer`."""
    if name == "dehaze_video":
        from libranet.engine.video import dehaze_video

        return dehaze_video
    raise AttributeError(f"module 'libranet.engine' has no attribute {name!r}")
