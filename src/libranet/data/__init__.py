"""Datasets on disk: the UHV-4K format, the public paired sets, and a torch Dataset of frame windows."""

from libranet.data.dataset import Clip, ClipInfo, DatasetInfo, open_clips
from libranet.data.frames import Box, FrameFiles, VideoFrames
from libranet.data.packed import pack_pairs, packed_pairs
from libranet.data.pairs import PairedClip, folder_pairs, open_pairs, uhv4k_pairs
from libranet.data.windows import ClipWindows, WindowConfig

__all__ = [
    "Box",
    "Clip",
    "ClipInfo",
    "ClipWindows",
    "DatasetInfo",
    "FrameFiles",
    "PairedClip",
    "VideoFrames",
    "WindowConfig",
    "folder_pairs",
    "open_clips",
    "open_pairs",
    "pack_pairs",
    "packed_pairs",
    "uhv4k_pairs",
]
