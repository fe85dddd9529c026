"""Whether a file is whole: each container is a chain of parts, and each part says where the next one begins.

FFmpeg's readers look for the next part that they know when the chain is broken, and say nothing. So after a file was
read, its chain is followed once more: bytes that belong to no part, a last part that is cut off, or a jump of the
counters in a transport stream mean that something is lost. Files whose frame rate varies, or that were cut and joined,
have whole chains.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from libranet.video.structure.boxes import walk_boxes
from libranet.video.structure.breaks import Breaks, FileBytes, TooManyPartsError
from libranet.video.structure.gif import walk_gif
from libranet.video.structure.matroska import walk_matroska
from libranet.video.structure.mxf import walk_mxf
from libranet.video.structure.nut import walk_nut
from libranet.video.structure.ogg import walk_ogg
from libranet.video.structure.program import walk_program
from libranet.video.structure.riff import walk_riff
from libranet.video.structure.streams import walk_flv, walk_y4m
from libranet.video.structure.transport import walk_transport

_WALKS: dict[str, Callable[[FileBytes, Breaks], None]] = {
    "matroska,webm": walk_matroska,
    "mov,mp4,m4a,3gp,3g2,mj2": walk_boxes,
    "avi": walk_riff,
    "flv": walk_flv,
    "mxf": walk_mxf,
    "nut": walk_nut,
    "mpeg": walk_program,
    "ogg": walk_ogg,
    "gif": walk_gif,
    "yuv4mpegpipe": walk_y4m,
}
"""By FFmpeg's name of the format."""


def find_breaks(
    path: Path, format_name: str, streams: Collection[int] = (), *, joins: int = 0, video: int | None = None
) -> Breaks:
    """Follow the chain of a file's parts.

    Args:
        path: The file.
        format_name: FFmpeg's name of its format. Formats without a chain, such as raw H.264, have no breaks.
        streams: In a transport stream, the numbers (PID) of the streams that count.
        joins: Jumps of the clock that were found: places where recordings were joined.
        video: In a transport stream, the number (PID) of the video whose frames are counted.
    """
    breaks = Breaks()
    with suppress(TooManyPartsError, OSError), FileBytes(path) as file:
        if format_name == "mpegts":
            walk_transport(file, breaks, streams, joins, video)
        elif format_name in _WALKS:
            _WALKS[format_name](file, breaks)
    return breaks
