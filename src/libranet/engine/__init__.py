"""Model meets video: the only product path. Command line, web page, Python API and workers call it."""

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
