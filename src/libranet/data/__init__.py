"""Clips on disk and how to read them: the UHV-4K contract, the public sets, and windows for torch."""

from libranet.data.clip import Clip, ClipInfo
from libranet.data.dataset import DatasetInfo, open_clips
from libranet.data.frames import Box
from libranet.data.pairs import PairedClip, folder_pairs, hazeworld_pairs, revide_pairs, uhv4k_pairs
from libranet.data.windows import ClipWindows, WindowConfig

__all__ = [
    "Box",
    "Clip",
    "ClipInfo",
    "ClipWindows",
    "DatasetInfo",
    "PairedClip",
    "WindowConfig",
    "folder_pairs",
    "hazeworld_pairs",
    "open_clips",
    "revide_pairs",
    "uhv4k_pairs",
]
