"""Model meets video: the only product path. The command line, the Python API and evaluation call it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from libranet.engine.dehazer import Dehazer
    from libranet.engine.haze import Haze, estimate_haze
    from libranet.engine.image_files import dehaze_image
    from libranet.engine.options import DehazeOptions, DehazeReport, OutputError, Progress
    from libranet.engine.video import dehaze_video
    from libranet.runtime import load_network

__all__ = [
    "DehazeOptions",
    "DehazeReport",
    "Dehazer",
    "Haze",
    "OutputError",
    "Progress",
    "dehaze_image",
    "dehaze_video",
    "estimate_haze",
    "load_network",
]

_PLACES = {
    "Dehazer": "engine.dehazer",
    "Haze": "engine.haze",
    "dehaze_image": "engine.image_files",
    "dehaze_video": "engine.video",
    "estimate_haze": "engine.haze",
    "load_network": "runtime",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `Dehazer` works without PyAV, and a command loads only what it needs."""
    if name not in __all__:
        raise AttributeError(f"module 'libranet.engine' has no attribute {name!r}")
    return getattr(import_module(f"libranet.{_PLACES.get(name, 'engine.options')}"), name)
