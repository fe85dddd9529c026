"""What a source says and its output does not: found by listing both, whatever their containers.

Four lists are made: what FFmpeg knows of the video, the texts of a Matroska file, the boxes of an .mp4 or .mov file,
and how often an animation is shown. What nobody thought of is in one of them, too.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import av
from av.stream import Disposition

from libranet.video.ebml import PROJECTION, VIDEO, VIDEO_NAMES, children, is_rotation
from libranet.video.mp4_extras import Box, read_boxes
from libranet.video.pyav import open_input, side_data_names
from libranet.video.tags import track_entry

if TYPE_CHECKING:
    from libranet.video.matroska_extras import MatroskaExtras

_OF_THE_ENCODER = frozenset(
    {
        "SEI_UNREGISTERED",
        "MOTION_VECTORS",
        "VIDEO_ENC_PARAMS",
        "GOP_TIMECODE",
        "DISPLAYMATRIX",
        "SPHERICAL",
        "STEREO3D",
        "PANSCAN",
    }
)
"""What the encoder of the source wrote for itself, and what is listed for the whole file."""
_SIDE_DATA = {
    "A53_CC": "closed captions", "DOVI_METADATA": "Dolby Vision", "DOVI_RPU_BUFFER": "Dolby Vision",
    "DYNAMIC_HDR_PLUS": "HDR10+", "DYNAMIC_HDR_VIVID": "HDR Vivid", "S12M_TIMECODE": "timecodes of frames",
    "AFD": "active format description", "ICC_PROFILE": "the colour profile", "FILM_GRAIN_PARAMS": "film grain",
}  # fmt: skip
_LONGEST = 50
"""Letters of a text in a note."""


def matroska_extras(container: Any) -> "MatroskaExtras | None":
    """Return what a Matroska file says and FFmpeg does not list; None for other files, and those on other machines."""
    if "matroska" not in container.format.name or (path := _path(container)) is None:
        return None
    from libranet.video.matroska_extras import read_extras  # only runs over Matroska load it

    try:
        with path.open("rb") as file:
            return read_extras(file)
    except OSError:  # it was there a moment ago: reading its frames will say so
        return None


def mp4_boxes(container: Any, track: int) -> tuple[Box, ...]:
    """Return the boxes of an .mp4 or .mov file that FFmpeg does not list; none for other files."""
    if "mp4" not in container.format.name or (path := _path(container)) is None:
        return ()
    try:
        with path.open("rb") as file:
            return read_boxes(file, track)
    except OSError:
        return ()


def gif_loops(container: Any) -> int | None:
    """Return how often a GIF animation is shown, 0 is endless; None for other files."""
    if container.format.name != "gif" or (path := _path(container)) is None:
        return None
    with path.open("rb") as file:
        head = file.read(1 << 16)
    at = head.find(b"NETSCAPE2.0\x03\x01")
    return int.from_bytes(head[at + 13 : at + 15], "little") if at >= 0 else 1


def _path(container: Any) -> Path | None:
    """Return the file behind a container; None for pipes, whose bytes belong to the reader of the frames."""
    path = Path(container.name.removeprefix("file:"))
    return path if container.name.startswith("file:") and path.is_file() else None


def lost_facts(source: Any, main: Any, written: Any, video: Any, trial: io.BytesIO) -> list[str]:
    """Return the names of what a trial file does not give back of its source.

    Args:
        source: The opened source.
        main: Its video.
        written: The opened trial file.
        video: Its video.
        trial: Its bytes.
    """
    facts, known = _video_facts(main), _video_facts(video)
    lost = dict.fromkeys(VIDEO_NAMES[kind] for kind, value in facts.items() if known.get(kind) != value)
    texts = _texts(written, trial)
    extras = matroska_extras(source)
    compared = {*source.metadata.values(), *_chapter_texts(source)}  # FFmpeg lists these, so they are compared already
    has_files = any(s.type == "attachment" or s.disposition & Disposition.attached_pic for s in written.streams)
    grouped: dict[str, list[str]] = {}
    for label, text in extras.facts() if extras is not None else ():
        named = text in compared and label.startswith(("tag", "chapter"))
        named |= label.endswith("attachment") and not has_files  # the plan names its stream as left out
        if (label, text) not in texts and text not in texts and not named:
            grouped.setdefault(label, []).append(text)
    lost |= dict.fromkeys(_with_texts(label, values) for label, values in grouped.items())
    boxes = mp4_boxes(source, main.index)
    is_mp4 = "mp4" in written.format.name
    there = read_boxes(trial, video.index) if is_mp4 else ()
    lost |= dict.fromkeys(box.label for box in boxes if box not in there and (is_mp4 or box.element not in facts))
    loops = gif_loops(source)
    if loops not in (None, 1) and written.format.name != "gif":
        lost[f"the number of loops ({loops or 'endless'})"] = None
    if source.format.name == "mpegts":
        from libranet.video.services import count_programs

        if (programs := count_programs(source.name)) > 1:
            lost[f"the {programs} programs, which become one"] = None
    return list(lost)


def lost_side_data(path: Path, names: frozenset[str]) -> list[str]:
    """Return a sentence for what the first frame of a source says besides its samples and that of its output does not.

    Args:
        path: The finished file.
        names: FFmpeg's types of side data of the source's first frame.
    """
    if not names - _OF_THE_ENCODER:
        return []
    try:
        with open_input(f"file:{path}") as container:
            frame = next(iter(container.decode(video=0)), None)
    except (av.FFmpegError, ValueError, IndexError):
        return []
    lost = names - _OF_THE_ENCODER - (side_data_names(frame) if frame is not None else frozenset())
    shown = dict.fromkeys(_SIDE_DATA.get(name, name.lower().replace("_", " ")) for name in sorted(lost))
    return [f"not in the frames of {path.suffix}: {', '.join(shown)}"] if shown else []


def _video_facts(stream: Any) -> dict[int, bytes]:
    entry = track_entry(stream)
    video = children(dict(entry).get(VIDEO, b""))
    facts = {kind: content for kind, content in (*entry, *video) if kind in VIDEO_NAMES}
    if is_rotation(facts.get(PROJECTION, b"")):  # which has a note of its own
        del facts[PROJECTION]
    return facts


def _texts(written: Any, trial: IO[bytes]) -> set[object]:
    """Return every text that a file shows: those of Matroska with their names."""
    if "matroska" in written.format.name:
        from libranet.video.matroska_extras import read_extras

        if (extras := read_extras(trial)) is not None:
            return set(extras.facts())
    return set(_ffmpeg_texts(written))


def _ffmpeg_texts(written: Any) -> Iterator[str]:
    yield ""
    for owner in (written, *written.streams):
        yield from owner.metadata.values()
    yield from _chapter_texts(written)


def _chapter_texts(container: Any) -> Iterator[str]:
    for chapter in container.chapters():
        yield from chapter["metadata"].values()


def _with_texts(label: str, values: list[str]) -> str:
    shown = [value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..." for value in values if value]
    return f"{label} ({', '.join(shown)})" if shown else label
