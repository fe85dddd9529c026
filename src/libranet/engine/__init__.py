"""Model meets video: the only product path. Command line, web page, Python API and workers call it.

Names are looked up when they are first used: `Dehazer` and `make_step` work on machines without PyAV.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from libranet.engine.dehazer import Dehazer
    from libranet.engine.options import DehazeOptions, DehazeReport, OutputError, Progress
    from libranet.engine.step import load_network, make_step, pick_device
    from libranet.engine.video import dehaze_video

__all__ = [
    "DehazeOptions",
    "DehazeReport",
    "Dehazer",
    "OutputError",
    "Progress",
    "dehaze_video",
    "load_network",
    "make_step",
    "pick_device",
]

_HOMES = {
    "DehazeOptions": "options",
    "DehazeReport": "options",
    "Dehazer": "dehazer",
    "OutputError": "options",
    "Progress": "options",
    "dehaze_video": "video",
    "load_network": "step",
    "make_step": "step",
    "pick_device": "step",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'libranet.engine' has no attribute {name!r}")
    return getattr(importlib.import_module(f"libranet.engine.{_HOMES[name]}"), name)
