"""What happens to each stream of a source besides its video, decided and tried before the first frame.

What a container does not keep besides (chapters, tags, rotation, languages, timecode) needs no table of containers: the
trial file, written with everything that the source has, is read back and compared.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, islice
from typing import Any

import av
from av.stream import Disposition

from libranet.errors import InputError
from libranet.video.copied_stream import StreamPlan
from libranet.video.decoding import Damage, read_packets
from libranet.video.encoder import EncoderSettings, encoder_frame
from libranet.video.excerpt import Excerpt
from libranet.video.file_facts import lost_facts
from libranet.video.heard import HeardSound
from libranet.video.mux import STALE_METADATA, OutputFile
from libranet.video.pixels import plane_views
from libranet.video.pyav import codec_name, open_input, side_data, track_title
from libranet.video.reader import main_video_stream
from libranet.video.source import Source

_SAMPLE_PACKETS = 3
_MOST_PACKETS = 2000
_MISTIMED = {(".avi", "vorbis")}
"""Sound that FFmpeg's muxer gives wrong times later than in its first packets."""
_OFF_TIME = Fraction(1, 100)
"""Seconds by which a container may move the first packets of a sound against each other: coarse clocks round."""
_KEEPERS = {".webm": "opus", ".avi": "mp3", ".mpg": "mp2", ".mxf": "pcm", ".gif": ""}
"""Sound that every file of a container can hold; aac for the others."""
_EXACT_AUDIO = {"pcm_mulaw": "pcm", "pcm_alaw": "pcm"}
"""Sound that a container refuses, and a codec that holds the same samples."""
_READ_AS = {("audio", "mp2"): ("audio", "mp3")}
"""Sound that an mp4 file does not tell from another, and one decoder plays."""
_REWRITTEN_HANDLERS = ("SubtitleHandler", "TimeCodeHandler", "Time Code Media Handler", "Core Media Time Code")
"""Data tracks for chapters and timecodes. The muxer writes its own."""
_IDENTITIES = ("uid", "umid", "_ul")
"""Ends of the names of tags that only mark a file."""
_YOUNG_PCM = ("pcm_s24", "pcm_s32", "pcm_f32", "pcm_f64")
"""Samples that mp4 holds by ISO 23003-5. QuickTime's own codes for them, in .mov, are older."""
_ROUNDED = 0.002
"""Seconds by which containers round."""
_COMPARED = ("language", "title", "name", "handler_name", "vendor_id", "creation_time", "stereo_mode", "timecode")
"""Tags of streams that have notes of their own, or that only mark a file."""
_ROLES = (
    Disposition.forced, Disposition.comment, Disposition.hearing_impaired, Disposition.visual_impaired,
    Disposition.dub, Disposition.original, Disposition.lyrics, Disposition.karaoke,
)  # fmt: skip


@dataclass(frozen=True)
class _Trial:
    """What a container did with the first packets of all planned streams."""

    refusal: str
    """Why the header could not be written, or nothing."""
    lost: dict[int, str] = field(default_factory=dict)
    """Streams that cannot be read back as what they were, and why."""
    notes: tuple[str, ...] = ()
    """What else cannot be read back: chapters, tags, rotation."""


def plan_streams(
    source: Source | None,
    container: av.container.InputContainer | None,
    first_packets: Sequence[av.Packet],
    suffix: str,
    settings: EncoderSettings,
    *,
    audio: str = "copy",
    tracks: Sequence[int] | None = None,
) -> tuple[tuple[StreamPlan, ...], tuple[str, ...]]:
    """Decide about every stream but the video: copy, repack, transcode or leave out.

    The container has the last word: a file with the first packets of all planned streams is written to memory and read
    back. A stream that does not survive is left out, with the reason.

    Args:
        source: Where packets for the trial are read; None where it cannot be opened twice.
        container: The opened source; None for images and cameras.
        first_packets: For the trial, where the source cannot be opened twice.
        suffix: Of the output file.
        settings: Of the video's encoder.
        audio: `copy`, `none`, or the codec that sound is transcoded to.
        tracks: Numbers of the sound tracks to keep, from 0; None keeps all.

    Returns:
        The decisions, and a sentence for each fact about the whole file that the container does not keep.

    Raises:
        InputError: The container refuses the video itself, or an option makes no sense.
    """
    video = _try(None, suffix, settings, (), {})
    if video.refusal:
        raise InputError(
            f"{suffix} files cannot hold {settings.codec} as {settings.pixel_format} ({video.refusal}): "
            "write to .mkv, or change --codec"
        )
    if container is None:
        return (), ()
    samples = _samples(source, len(container.streams)) if source is not None else _by_stream(first_packets)
    plans = tuple(_with_cover(p, samples) for p in _proposals(container, suffix, audio, tracks))
    return _tried(container, suffix, settings, plans, samples)


def _proposals(container: Any, suffix: str, audio: str, tracks: Sequence[int] | None) -> tuple[StreamPlan, ...]:
    main = main_video_stream(container)
    sounds = [stream.index for stream in container.streams if stream.type == "audio"]
    for number in tracks or ():
        if not 0 <= number < len(sounds):
            raise InputError(f"there is no sound track {number}: expected a number from 0 to {len(sounds) - 1}")
    kept = None if tracks is None else {sounds[number] for number in tracks}
    plans = []
    for stream in container.streams:
        if main is not None and stream.index == main.index:
            continue
        name = codec_name(stream)
        plan = StreamPlan(stream.index, stream.type, name, "copy", name)
        if stream.disposition & Disposition.attached_pic:
            plan = replace(plan, kind="cover", action="attach" if suffix in (".mkv",) else "copy")
        elif stream.type == "audio":
            plan = _audio_proposal(plan, audio, kept)
        elif stream.type == "video":
            plan = replace(plan, reason="only the first video is dehazed, this one stays hazy")
        elif stream.type == "subtitle" and (target := _text_codec(name, suffix)):
            plan = replace(plan, action="repack", target=target)
        elif stream.type == "data" and _is_rewritten(stream):
            continue
        elif stream.type == "data" and suffix not in (".ts", ".m2ts"):
            plan = replace(plan, action="leave out", reason=f"{suffix} has no place for it")
        plans.append(plan)
    return tuple(plans)


def _is_rewritten(stream: Any) -> bool:
    """Return whether a data track only holds chapters or a timecode, which are checked on their own."""
    return "timecode" in stream.metadata or stream.metadata.get("handler_name") in _REWRITTEN_HANDLERS


def _audio_proposal(plan: StreamPlan, audio: str, kept: set[int] | None) -> StreamPlan:
    if audio == "none" or (kept is not None and plan.index not in kept):
        return replace(plan, action="leave out", reason="as you asked", asked=True)
    if audio in ("copy", plan.codec):
        return plan
    return replace(plan, action="transcode", target=audio)


def _with_cover(plan: StreamPlan, samples: dict[int, list[av.Packet]]) -> StreamPlan:
    if plan.action != "attach":
        return plan
    if cover := b"".join(bytes(packet) for packet in samples.get(plan.index, ())[:1]):
        return replace(plan, cover=cover)
    return replace(plan, action="leave out", reason="the image of a stream that is read once cannot be attached")


def _tried(
    container: Any,
    suffix: str,
    settings: EncoderSettings,
    plans: tuple[StreamPlan, ...],
    samples: dict[int, list[av.Packet]],
) -> tuple[tuple[StreamPlan, ...], tuple[str, ...]]:
    trial = _try(container, suffix, settings, plans, samples)
    refused = dict(trial.lost)
    if not trial.refusal and not refused:
        return plans, trial.notes
    if trial.refusal:
        for plan in plans:
            alone = _try(container, suffix, settings, (plan,), samples)
            if alone.refusal or alone.lost:
                refused[plan.index] = alone.refusal or alone.lost[plan.index]
        if not refused:
            raise InputError(
                f"{suffix} files cannot hold these streams together ({trial.refusal}): "
                "write to .mkv, or use --audio none"
            )

    def holds(plan: StreamPlan) -> bool:
        alone = _try(container, suffix, settings, (plan,), samples)
        return not alone.refusal and not alone.lost

    changed = tuple(
        _instead(plan, refused[plan.index], suffix, holds) if plan.index in refused else plan for plan in plans
    )
    return (changed, ()) if changed == plans else _tried(container, suffix, settings, changed, samples)


def _instead(plan: StreamPlan, why: str, suffix: str, holds: Callable[[StreamPlan], bool]) -> StreamPlan:
    """Return what to do with a stream that the container refuses. `holds` tries another plan for it."""
    exact = _EXACT_AUDIO.get(plan.codec, "flac" if suffix == ".mkv" else "")
    if plan.kind == "audio" and plan.action == "copy" and exact:
        kept = replace(plan, action="transcode", target=exact, reason="the same samples")
        if holds(kept):
            return kept
    keeper = _KEEPERS.get(suffix, "aac")
    remedy = ""
    if plan.kind == "audio" and keeper not in ("", plan.target):
        helps = holds(replace(plan, action="transcode", target=keeper))
        remedy = f"; --audio {keeper} keeps the sound" if helps else ", and it cannot be transcoded either"
    return replace(plan, action="leave out", target="", reason=f"{suffix} has no place for it ({why}){remedy}")


def _try(
    container: Any,
    suffix: str,
    settings: EncoderSettings,
    plans: tuple[StreamPlan, ...],
    samples: dict[int, list[av.Packet]],
) -> _Trial:
    file = io.BytesIO()
    try:
        output = OutputFile(file, suffix, settings, container, plans)
    except (ValueError, av.FFmpegError) as error:
        return _Trial(_words(error))
    try:
        if container is not None:
            output.copy_chapters(container)
        output.write_header()
        output.write(output.video.encode(_gray_frame(settings)))
        # A clock that wraps begins below zero: the trial begins there, too, or an edit list hides what it should hear.
        packets = chain.from_iterable(samples.values())
        excerpt = Excerpt(start=min([Fraction(0), *(p.pts * p.time_base for p in packets if p.pts and p.time_base)]))
        for index, copy in output.copies.items():
            for sample in samples.get(index, []):
                output.write(copy.packets(_again(sample), excerpt))
            output.write(copy.finish(excerpt))
        output.write(output.video.encode(None))
        output.close()
    except (ValueError, av.FFmpegError) as error:
        return _Trial(_words(error))
    file.seek(0)
    try:
        with open_input(file, format_name=None) as written:
            if container is None:
                return _Trial("")
            lost = _unreadable(written, output, plans)
            lost |= _misheard(file, output)
            notes = _losses(container, written, output.places, suffix)
            main, video = main_video_stream(container), main_video_stream(written)
            if main is not None and video is not None and (names := lost_facts(container, main, written, video, file)):
                notes.append(f"not in the {suffix} file: {', '.join(names)}")
            if _is_turn_lost(written, settings.tags.display_matrix):
                notes.append(
                    f"the rotation is left out: {suffix} has no place for it, and players will show frames turned"
                )
    except (av.FFmpegError, ValueError):
        refusal = "it cannot be read back" if container is None else ""
        return _Trial(refusal, dict.fromkeys((plan.index for plan in plans if plan.kept), "it cannot be read back"))
    return _Trial("", lost, tuple(notes))


def _unreadable(
    written: av.container.InputContainer, output: OutputFile, plans: tuple[StreamPlan, ...]
) -> dict[int, str]:
    """Return the streams that do not come back as the codec that went in."""
    found = [_identity(stream) for stream in written.streams]
    missing = set()
    for plan in (plan for plan in plans if plan.kept):
        wanted = _wanted(plan)
        if (there := wanted if wanted in found else _READ_AS.get(wanted)) in found:
            found.remove(there)
        elif plan.kind in ("attachment", "cover") or output.sampled(plan.index):
            missing.add(plan.index)  # a stream without a packet so far may be there: the finished file is verified
    return dict.fromkeys(missing, "it cannot be read back")


def _misheard(file: io.BytesIO, output: OutputFile) -> dict[int, str]:
    """Return the streams whose first packets of sound are not heard in the trial file as they are in the source."""
    file.seek(0)
    with open_input(file, format_name=None) as written:
        sounds = {stream.index: HeardSound.of(stream, Excerpt()) for stream in written.streams}
        for packet in written.demux():
            if (sound := sounds[packet.stream.index]) is not None:
                sound.take(packet)
    wrong = {}
    for index, copy in output.copies.items():
        before, after = copy.heard, sounds.get(output.places[index])
        if before is None or before.first is None or after is None:
            continue
        suffix, codec = output.suffix, codec_name(copy.target)
        if after.first is None:
            wrong[index] = "it cannot be heard there"
        elif copy.is_as_it_was and (abs(after.drift_from(before)) > _OFF_TIME or (suffix, codec) in _MISTIMED):
            wrong[index] = "FFmpeg writes wrong times for it"
    return wrong


def _wanted(plan: StreamPlan) -> tuple[str, str]:
    if plan.kind in ("cover", "attachment"):
        return plan.kind, "" if plan.kind == "attachment" else plan.codec
    return plan.kind, "pcm_s16le" if plan.action == "transcode" and plan.target == "pcm" else plan.target


def _identity(stream: Any) -> tuple[str, str]:
    if stream.type == "attachment":
        return "attachment", ""
    return ("cover" if stream.disposition & Disposition.attached_pic else stream.type), codec_name(stream)


def _samples(source: Source, streams: int) -> dict[int, list[av.Packet]]:
    """Return the first packets of each stream of a file."""
    with open_input(source.location) as container:
        return _by_stream(islice(read_packets(container, Damage()), _MOST_PACKETS), streams)


def _by_stream(packets: Iterable[av.Packet], streams: int | None = None) -> dict[int, list[av.Packet]]:
    """Return the first packets of each stream, of hidden ones only the last. Stop where all have enough."""
    found: dict[int, list[av.Packet]] = {}
    for packet in packets:
        bucket = found.setdefault(packet.stream.index, [])
        if len(bucket) == 1 and bucket[0].is_discard:
            bucket[:] = [] if packet.is_discard else bucket  # a trimmed sound begins with seconds that nobody hears
        if len(bucket) < _SAMPLE_PACKETS and packet.size:
            bucket.append(packet)
        if sum(len(bucket) == _SAMPLE_PACKETS for bucket in found.values()) == streams:
            break
    return {index: bucket for index, bucket in found.items() if not all(packet.is_discard for packet in bucket)}


def _again(packet: av.Packet) -> av.Packet:
    """Copy a packet: muxing takes it apart."""
    copy = av.Packet(bytes(packet))
    copy.pts, copy.dts, copy.duration, copy.time_base = packet.pts, packet.dts, packet.duration, packet.time_base
    copy.is_keyframe = packet.is_keyframe
    return copy


def _gray_frame(settings: EncoderSettings) -> av.VideoFrame:
    frame = av.VideoFrame(settings.width, settings.height, settings.pixel_format)
    for view in plane_views(frame):
        view[...] = 1 << (frame.format.components[0].bits - 1)
    frame.pts, frame.time_base = 0, settings.time_base
    return encoder_frame(frame, settings)


def _words(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error).split("\n")[0]


def _losses(source: Any, written: Any, places: Mapping[int, int], suffix: str) -> list[str]:
    """Return a sentence for each kind of fact about a source that a trial file does not give back."""
    no_place = f"{suffix} has no place for"
    notes = []
    chapters = len(source.chapters()) - len(written.chapters())
    if chapters > 0:
        notes.append(f"{chapters} chapters are left out: {no_place} them")
    elif any(abs(a - b) > _ROUNDED for a, b in zip(_chapter_times(source), _chapter_times(written), strict=False)):
        notes.append(f"chapters end or begin at other times: in {suffix} each lasts until the next")
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


def _chapter_times(container: Any) -> list[Fraction]:
    """Return where chapters begin and end. The last one ends with its file, which is short in a trial."""
    return [chapter[at] * chapter["time_base"] for chapter in container.chapters() for at in ("start", "end")][:-1]


def _is_turn_lost(written: Any, matrix: tuple[int, ...] | None) -> bool:
    """Return whether a trial file lost the matrix that says how frames are turned or mirrored."""
    video = main_video_stream(written)
    if matrix is None or video is None or (matrix[0] > 0 and matrix[4] > 0 and matrix[1] == matrix[3] == 0):
        return False
    try:
        frame = next(written.decode(video), None)
    except (av.FFmpegError, ValueError):
        return False
    return frame is not None and side_data(frame, "DISPLAYMATRIX") is None


def _missing_tags(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    kept = {key.lower() for key in after}
    stale = {key.lower() for key in STALE_METADATA} | {"timecode"}
    return [key for key in before if key.lower() not in kept | stale and not key.lower().endswith(_IDENTITIES)]


def _timecode(container: Any, video: Any) -> str:
    owners = (container, video, *container.streams)
    return next(
        (owner.metadata[key] for key in ("timecode", "TIMECODE") for owner in owners if key in owner.metadata), ""
    )


def _stream_losses(before: Any, after: Any, no_place: str) -> list[str]:
    what = f"{before.type} stream {before.index}"
    notes = []
    language = before.metadata.get("language", "und")
    if language != "und" and after.metadata.get("language", "und") == "und":
        notes.append(f"the language ({language}) of {what} is left out: {no_place} it")
    title = track_title(before)
    if title and title not in after.metadata.values():
        notes.append(f"the title ({title}) of {what} is left out: {no_place} it")
    if before.type == after.type == "audio":
        layout, found = before.codec_context.layout, after.codec_context.layout
        if layout.nb_channels > 2 and layout.name != found.name and not layout.name.endswith(" channels"):
            notes.append(f"the channel layout ({layout.name}) of {what} is left out: {no_place} it")
        if no_place.startswith((".mp4", ".m4v")) and codec_name(after).startswith(_YOUNG_PCM):
            notes.append(f"{what} ({codec_name(after)}) needs a player with FFmpeg 6 or newer in .mp4: .mkv does not")
    tags = _missing_tags(before.metadata, after.metadata)
    if tags := [key for key in tags if key.lower() not in _COMPARED]:
        notes.append(
            f"{', '.join(tags)} of {what} left out: {no_place} {'this tag' if len(tags) == 1 else 'these tags'}"
        )
    lost = [str(role.name) for role in _ROLES if before.disposition & role and not after.disposition & role]
    if lost:
        notes.append(f"the role ({', '.join(lost)}) of {what} is left out: {no_place} it")
    return notes


def _text_codec(codec: str, suffix: str) -> str | None:
    from libranet.video.subtitles import text_codec  # only sources with subtitles load it

    return text_codec(codec, suffix)
