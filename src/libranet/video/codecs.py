"""The codecs that can be written, their defaults, and which container holds which."""

from pathlib import Path
from typing import Literal

CodecName = Literal["h264", "hevc", "av1", "vp9", "ffv1", "prores", "h264_nvenc", "hevc_nvenc"]

ENCODERS: dict[CodecName, str] = {
    "h264": "libx264",
    "hevc": "libx265",
    "av1": "libsvtav1",
    "vp9": "libvpx-vp9",
    "ffv1": "ffv1",
    "prores": "prores_ks",
    "h264_nvenc": "h264_nvenc",
    "hevc_nvenc": "hevc_nvenc",
}
DEFAULT_CRF: dict[CodecName, int] = {"h264": 18, "hevc": 20, "av1": 26, "vp9": 24, "h264_nvenc": 20, "hevc_nvenc": 22}
DEFAULT_PRESET: dict[CodecName, str] = {"h264": "medium", "hevc": "medium", "av1": "8", "vp9": "4"}
CONTAINERS: dict[str, tuple[CodecName, ...]] = {
    ".mp4": ("h264", "hevc", "av1", "vp9", "h264_nvenc", "hevc_nvenc"),
    ".m4v": ("h264", "hevc", "h264_nvenc", "hevc_nvenc"),
    ".mov": ("h264", "hevc", "prores", "av1", "h264_nvenc", "hevc_nvenc"),
    ".mkv": ("h264", "hevc", "av1", "vp9", "ffv1", "prores", "h264_nvenc", "hevc_nvenc"),
    ".webm": ("vp9", "av1"),
    ".avi": ("h264", "ffv1"),
    ".ts": ("h264", "hevc", "h264_nvenc", "hevc_nvenc"),
}
"""What each container may hold, its default first."""


def is_video_name(path: str | Path) -> bool:
    """Whether the file name's ending is one of a container that can be written."""
    return Path(path).suffix.lower() in CONTAINERS
