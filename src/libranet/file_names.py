"""What a file's name says: which suffixes are images, and which are videos."""

from pathlib import Path

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")
VIDEO_SUFFIXES = frozenset(
    (
        *(".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".ts", ".m2ts", ".mts", ".mpg", ".mpeg"),
        *(".mxf", ".wmv", ".flv", ".3gp", ".ogv", ".vob", ".y4m", ".gif"),
    )
)
"""Names of video files in folders; a file that is named itself may have any."""


def is_image_name(path: str | Path) -> bool:
    return Path(path).suffix.lower() in IMAGE_SUFFIXES
