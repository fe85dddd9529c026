"""Whether a file gave everything that it says it holds: lengths in headers, indices, the chain of its parts."""

from pathlib import Path

import av

from libranet.video.decoding import ONE_FRAME_A_PACKET, Damage, stream_duration
from libranet.video.pyav import open_input
from libranet.video.reader import VideoReader
from libranet.video.structure import find_breaks


def note_losses(reader: VideoReader, *, seen_end: float, step: int, whole: bool) -> None:
    """Note what a video that was read to its end lacks, where FFmpeg says nothing.

    Args:
        reader: Whose damage is completed.
        seen_end: End of the last frame, in seconds.
        step: Longest distance of two frames, in the stream's time base.
        whole: It was read from its beginning, so that its structure can be compared with what came.
    """
    container, stream, source = reader.container, reader.stream, reader.source
    if container is None or stream is None:
        return
    _note_truncation(container, stream, reader.damage, seen_end=seen_end, step=step)
    if not whole:
        return
    if container.format.name == "hls" and source is not None:
        reader.damage.broken = _describe_gaps(source.name, container, reader.damage)
    elif container.format.name == "yuv4mpegpipe":  # all of it is frames
        path = source.path if source is not None else None
        size = path.stat().st_size if path is not None else reader.counted.size if reader.counted is not None else 0
        if size > reader.damage.read_bytes:
            reader.damage.broken = "the video ends in the middle of a frame"
    elif source is not None and source.kind == "file" and source.path is not None:
        reader.damage.broken = _describe_breaks(source.path, container, stream, reader.codec, reader.damage)


def _describe_breaks(
    path: Path, container: av.container.InputContainer, stream: av.VideoStream, codec: str, damage: Damage
) -> str:
    """Say which parts of a file FFmpeg left out without an error, or nothing."""
    name = container.format.name
    streams = [other.id for other in container.streams if other.type in ("video", "audio")]
    # FFmpeg makes one packet of two fields in MPEG-2, and each field may have a time.
    video = stream.id if codec not in ("mpeg1video", "mpeg2video") else None
    gaps = [*damage.gaps, (damage.read_bytes, path.stat().st_size)]
    breaks = find_breaks(path, name, streams, joins=damage.jumps, video=video, gaps=gaps)
    parts = [breaks.sentence()] if breaks else []
    unread = (breaks.video_packets or 0) - damage.video_packets
    if unread > 0 and codec in ONE_FRAME_A_PACKET:
        parts.append(f"{unread} packets of the video could not be read")
    if name == "mpegts" and damage.corrupt > damage.jumps:  # the last packet before a join may be cut off
        parts.append(f"pieces of {damage.corrupt} packets of the video are missing")
    if name.startswith("mov") and (missing := _unread_samples(path, stream, damage.video_packets)):
        parts.append(f"{missing} frames of the file's index could not be read")
    return "; ".join(parts)


def _describe_gaps(address: str, container: av.container.InputContainer, damage: Damage) -> str:
    """Say which files of a playlist FFmpeg passed over, wholly or in part, without an error, or nothing."""
    from libranet.video.structure.playlist import read_playlist

    playlist = read_playlist(address)
    total, lacking = len(playlist.segments), sum(playlist.lengths) - damage.covered
    if playlist.gaps:
        return f"the playlist itself calls {playlist.gaps} of {total + playlist.gaps} files missing"
    if not playlist.segments:
        return ""
    if lacking >= min(playlist.lengths) / 2 and (missing := playlist.unreadable()):
        return f"{len(missing)} of {total} files of the playlist cannot be read ({_names(missing)})"
    if cut := playlist.cut_short(sorted(damage.times), sorted(damage.keys)):
        return f"{sum(cut.values())} frames are missing at the ends of {len(cut)} of {total} files ({_names([*cut])})"
    inexact = (0.002 if playlist.digits else 0.02) * sum(playlist.lengths)
    if len(container.streams) > 1 and lacking > 0.5 + inexact:  # one stream alone may pause
        return f"{lacking:.2f} s of the playlist gave neither frames nor sound"
    return ""


def _names(addresses: list[str]) -> str:
    return ", ".join(name.rpartition("/")[2] for name in addresses[:3]) + (" ..." if len(addresses) > 3 else "")


def _note_truncation(
    container: av.container.InputContainer, stream: av.VideoStream, damage: Damage, *, seen_end: float, step: int
) -> None:
    """Note where a video ended before the end that its header gives."""
    if damage.truncated:
        return
    length = stream_duration(stream)
    from_zero = container.format.name == "nut"  # its header gives the last time, not a duration
    if length is not None:
        time_base = float(stream.time_base or 0)
        missing = float((stream.start_time or 0) * time_base * (not from_zero)) + length - seen_end
        slack = max(1.6 * step * time_base, 0.02 * length) + 0.005
    elif container.duration:  # of the longest stream
        length = container.duration / av.time_base
        missing = (container.start_time or 0) * (not from_zero) / av.time_base + length - damage.read_to
        slack = 0.5 + 0.02 * length
    else:
        return
    missing -= damage.closed
    if missing > slack:
        damage.truncated = f"the video ends {missing:.2f} s before the end that its header gives"


def _unread_samples(path: Path, stream: av.VideoStream, read: int) -> int:
    """Count the samples of an mp4 file's tables that gave no packet. Those outside of an edit list do not count."""
    with open_input(f"file:{path}", options={"advanced_editlist": "0"}) as container:
        again = container.streams[stream.index]
        assert isinstance(again, av.VideoStream)
        in_tables = again.frames - len(again.index_entries)
    unread = len(stream.index_entries) - read
    return max(0, unread) + (in_tables if in_tables > 1 else 0)  # some programs write one too many
