"""Whether a file is whole: each container is a chain of parts, and each part says where the next one begins.

FFmpeg's readers look for the next part that they know when the chain is broken, and say nothing: each packet that they
find gives its frame, so counting packets against frames shows no loss. So after a file was read, its chain is followed
once more: bytes that belong to no part, a last part that is cut off, or a jump of the counters in a transport stream
mean that something is lost. Files whose frame rate varies, or that were cut and joined, have whole chains.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from libranet.video.structure.breaks import Breaks, FileBytes, TooManyPartsError


def find_breaks(
    path: Path,
    format_name: str,
    streams: Collection[int] = (),
    *,
    joins: int = 0,
    video: int | None = None,
    gaps: Sequence[tuple[int, int]] = (),
) -> Breaks:
    """Follow the chain of a file's parts.

    Args:
        path: The file.
        format_name: FFmpeg's name of its format. Formats without a chain, such as raw H.264, have no breaks.
        streams: In a transport stream, the numbers (PID) of the streams that count.
        joins: Jumps of the clock that were found: places where recordings were joined.
        video: In a transport stream, the number (PID) of the video whose frames are counted.
        gaps: In NUT, from where to where no packet came.
    """
    breaks = Breaks()
    with suppress(TooManyPartsError, OSError), FileBytes(path) as file:
        if format_name == "mpegts":
            from libranet.video.structure.transport import walk_transport

            walk_transport(file, breaks, streams, joins, video)
        elif format_name == "nut":
            from libranet.video.structure.nut import walk_nut

            walk_nut(file, breaks, gaps)
        elif (walk := _walk_of(format_name)) is not None:
            walk(file, breaks)
    return breaks


def _walk_of(format_name: str) -> Callable[[FileBytes, Breaks], None] | None:
    """Import what follows a format: a run needs one of them."""
    match format_name:
        case "mov,mp4,m4a,3gp,3g2,mj2":
            from libranet.video.structure.boxes import walk_boxes as walk
        case "matroska,webm":
            from libranet.video.structure.matroska import walk_matroska as walk
        case "avi":
            from libranet.video.structure.riff import walk_riff as walk
        case "flv":
            from libranet.video.structure.flv import walk_flv as walk
        case "mxf":
            from libranet.video.structure.mxf import walk_mxf as walk
        case "mpeg":
            from libranet.video.structure.program import walk_program as walk
        case "ogg":
            from libranet.video.structure.ogg import walk_ogg as walk
        case "gif":
            from libranet.video.structure.gif import walk_gif as walk
        case _:
            return None
    return walk
