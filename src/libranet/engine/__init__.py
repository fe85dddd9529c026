"""Model meets video: the only product path. The command line, the Python API and evaluation call it."""

from typing import TYPE_CHECKING, Any

from libranet.engine.dehazer import Dehazer
from libranet.runtime import load_network

if TYPE_CHECKING:
    from libranet.engine.options import DehazeOptions, DehazeReport, OutputError, Progress
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
    """Import the rest when it is first used: it needs PyAV. `Dehazer` works on machines without PyAV."""
    if name not in __all__:
        raise AttributeError(f"module 'libranet.engine' has no attribute {name!r}")
    from libranet.engine import options, video

    return video.dehaze_video if name == "dehaze_video" else getattr(options, name)
