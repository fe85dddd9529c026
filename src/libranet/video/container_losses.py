"""What a container does not keep of a file besides its streams: chapters, tags, rotation, languages, timecode.

No table of containers: the trial file, written with everything that the source has, is read back and compared.
"""

from collections.abc import Mapping
from typing import Any

import av
from av.stream import Disposition

from libranet.video.mux import STALE_METADATA
from libranet.video.pyav import side_data
from libranet.video.reader import main_video_stream

_IDENTITIES = ("uid", "umid", "_ul")
"""Ends of the names of tags that only mark a file."""
_ROLES = (
    Disposition.forced,
    Disposition.comment,
    Disposition.hearing_impaired,
    Disposition.visual_impaired,
    Disposition.dub,
    Disposition.original,
    Disposition.lyrics,
    Disposition.karaoke,
)


def describe_losses(source: Any, written: Any, places: Mapping[int, int], suffix: str) -> list[str]:
    """Return a sentence for each kind of fact that a trial file does not give back.

    Args:
        source: The opened source.
        written: The trial file, opened.
        places: Number of each source stream's place in the trial file, without the video.
        suffix: Of the output.
    """
    no_place = f"{suffix} has no place for"
    notes = []
    chapters = len(source.chapters()) - len(written.chapters())
    if chapters > 0:
        notes.append(f"{chapters} chapters are left out: {no_place} them")
    main, video = main_video_stream(source), main_video_stream(written)
    if missing := _missing_tags(source.metadata, written.metadata):
        notes.append(f"{', '.join(missing)} left out: {no_place} {'this tag' if len(missing) == 1 else 'these tags'}")
    if main is not None and video is not None:
        if _timecode(source, main) and not _timecode(written, video):
            notes.append(f"the timecode {_timecode(source, main)} is left out: {no_place} it")
        places = {**places, main.index: video.index}
    for index, place in sorted(places.items()):
        if place < len(written.streams):
            notes += _stream_losses(source.streams[index], written.streams[place], no_place)
    return notes


def is_turn_lost(written: Any, matrix: tuple[int, ...] | None) -> bool:
    """Return whether a trial file lost the matrix that says how frames are turned or mirrored."""
    video = main_video_stream(written)
    if matrix is None or video is None or _is_identity(matrix):
        return False
    try:
        frame = next(written.decode(video), None)
    except (av.FFmpegError, ValueError):
        return False
    return frame is not None and side_data(frame, "DISPLAYMATRIX") is None


def _is_identity(matrix: tuple[int, ...]) -> bool:
    return matrix[0] > 0 and matrix[4] > 0 and matrix[1] == matrix[3] == 0


def _missing_tags(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    kept = {key.lower() for key in after}
    stale = {key.lower() for key in STALE_METADATA} | {"timecode"}
    return [key for key in before if key.lower() not in kept | stale and not key.lower().endswith(_IDENTITIES)]


def _timecode(container: Any, video: Any) -> str:
    found: str = container.metadata.get("timecode", "") or video.metadata.get("timecode", "")
    streams = (stream.metadata.get("timecode", "") for stream in container.streams)
    return (
        found
        or video.metadata.get("TIMECODE", "")
        or container.metadata.get("TIMECODE", "")
        or next(filter(None, streams), "")
    )


def _stream_losses(before: Any, after: Any, no_place: str) -> list[str]:
    what = f"{before.type} stream {before.index}"
    notes = []
    language = before.metadata.get("language", "und")
    if language != "und" and after.metadata.get("language", "und") == "und":
        notes.append(f"the language ({language}) of {what} is left out: {no_place} it")
    title = before.metadata.get("title", "")
    if title and not any(after.metadata.get(key) for key in ("title", "name", "handler_name")):
        notes.append(f"the title ({title}) of {what} is left out: {no_place} it")
    lost = [str(role.name) for role in _ROLES if before.disposition & role and not after.disposition & role]
    if lost:
        notes.append(f"the role ({', '.join(lost)}) of {what} is left out: {no_place} it")
    return notes
