"""The list of jobs behind `libranet dehaze INPUT... -o OUTPUT`: which file becomes which."""

import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from libranet.engine.jobs import Job, Kind, is_remote, local_name
from libranet.engine.options import Adjustments
from libranet.errors import InputError
from libranet.file_names import VIDEO_SUFFIXES, is_image_name
from libranet.video.encoder import is_video_name
from libranet.video.source import Source, folder_sequence, is_live_output, is_pattern, numbered_name, parse_source

_OTHER_IMAGES = (".avif", ".heic", ".heif", ".jxl", ".ppm", ".pgm", ".pnm", ".tga")
"""Images of a folder that are not read: each is told what it is, and none is passed over."""
_LISTS = (".csv", ".jsonl", ".ndjson")
_PATTERN = re.compile(r"[*?\[]")
_FIELDS = re.compile(r"\{(name|stem|suffix|folder|number)\}")
_BESIDE = "{folder}/{stem}-clear{suffix}"
"""Where the output goes when nobody says."""


class NothingFoundError(InputError):
    """The inputs hold no video and no image."""


def plan_jobs(inputs: list[str], output: str | None, *, live: bool, adjust: Adjustments | None = None) -> list[Job]:
    """Turn inputs and output into jobs. Folders keep their structure.

    Args:
        inputs: As the user wrote them: files, folders, patterns such as clips/*.mp4, lists of jobs, addresses.
        output: A file, a folder, `-`, or a template such as clear/{stem}-clear.mp4; None writes beside the inputs.
        adjust: Adjustments of all jobs, on which those of a list's rows come.
    """
    inputs = [local_name(name) for name in inputs]
    if output is None:
        output = _output_beside(inputs, live=live)
    elif not output.strip():
        raise InputError("the output is empty: give -o a file, a folder, or - for y4m")
    output = local_name(output)
    if any(Path(name).suffix.lower() in _LISTS and Path(name).is_file() for name in inputs):
        return _checked(_from_list(inputs, output, adjust or Adjustments()))
    remote = any(is_remote(name) for name in (*inputs, output))
    names = [name for text in inputs for name in _matching(text)]
    sources = [_source(name) for name in names]
    # A pattern that happens to name one file means a folder all the same, unless the output is a file's name.
    pattern = names != inputs and not (is_video_name(output) or is_image_name(output))
    template = _FIELDS.search(output) is not None
    if is_live_output(output):
        return [_stream_job(sources, output)]
    if not remote:
        if live or output == "-" or any(source.kind in ("pipe", "url", "camera") for source in sources):
            return [_stream_job(sources, output)]
        if len(sources) == 1 and sources[0].kind != "folder" and not template and not pattern:
            return _checked([_single(sources[0], output)])
        if (is_video_name(output) or is_image_name(output)) and not Path(output).is_dir() and not template:
            raise InputError(
                f"several inputs need a folder as output, got -o {output}: give a folder's name, or {{stem}}.mp4"
            )
    files = [found for source in sources for found in _files(source, output)]
    if not files:
        raise NothingFoundError(f"no video or image was found in {', '.join(inputs)}: give a file or another folder")
    # One file of an object store may have a name for its output, as one on this machine has.
    named = remote and len(inputs) == len(files) == 1 and (is_video_name(output) or is_image_name(output))
    jobs = []
    for number, (source, below) in enumerate(files, start=1):
        if template:
            target = _filled(output, source.path or PurePosixPath(source.name), number)
        else:
            target = output if named else _below(output, below, source.kind)
        jobs.append(_job(source, target))
    return _checked(jobs)


def _job(source: Source, output: str) -> Job:
    if source.kind == "sequence":
        folder = Path(source.name).resolve()
        if not is_pattern(source.name) and folder in Path(output).resolve().parents:  # the next run would read it, too
            raise InputError(f"the output {output} lies in the folder of the input frames: choose another place for it")
        if is_pattern(output) or is_image_name(output) or not _is_media(output) or Path(output).is_dir():
            return Job("sequence", source, output, outputs=_frame_outputs(source, output))
        return Job("video", source, output)
    return Job(_kind(source.name, output, source.path), source, output)


def _frame_outputs(source: Source, output: str) -> tuple[Path, ...]:
    """Where the images of a sequence go: by their numbers, or into a folder under their own names."""
    if is_image_name(output) and not is_pattern(output):
        raise InputError(
            f"{source.name} holds {len(source.files)} frames: give -o a folder, a pattern such as out/%05d.png, or a "
            f"video such as out.mp4, not {output}"
        )
    if is_pattern(output):
        return tuple(numbered_name(output, number) for number, _ in source.files)
    return tuple(Path(output) / path.name for _, path in source.files)


def select_shard(jobs: list[Job], text: str) -> list[Job]:
    """Return one of n shares of the jobs, for job arrays: every n-th job.

    Args:
        jobs: All of them, in the same order for every share.
        text: Such as 3/8, the third of eight.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"expected --shard as 1/8 to 8/8, got {text!r}")
    return jobs[int(match[1]) - 1 :: int(match[2])]


def _output_beside(inputs: list[str], *, live: bool) -> str:
    """The output of files that nobody named one for. Folders, lists and streams have no such place."""
    for name in (name for text in inputs for name in _matching(text)):
        if live or Path(name).suffix.lower() in _LISTS or _source(name).kind != "file":
            raise InputError(f"{name} needs an output: add -o with a file or a folder")
    return _BESIDE


def _source(name: str) -> Source:
    return Source("url", name) if is_remote(name) else parse_source(name)


def _matching(text: str) -> list[str]:
    """The files that a pattern such as clips/*.mp4 names; other inputs stay as they are."""
    if not _PATTERN.search(text) or os.path.lexists(text) or "://" in text or is_pattern(text):
        return [text]
    from libranet.sequences import natural_key  # several files alone

    found = sorted(glob.glob(text, recursive=True), key=natural_key)
    if not found:
        raise InputError(f"nothing matches {text}: check the pattern")
    return found


def _files(source: Source, output: str) -> Iterator[tuple[Source, str]]:
    """Videos and images of an input, with their names below a folder as output."""
    if is_remote(source.name):
        yield from _remote_files(source)
    elif source.kind == "folder" and source.path is not None:
        yield from _below_folder(source.path, output)
    elif source.kind == "sequence" and not is_pattern(source.name):  # a folder of frames among other inputs
        yield source, Path(source.name).name
    elif source.kind == "file" and source.path is not None:
        yield source, source.path.name
    elif _FIELDS.search(output):
        raise InputError(f"a template such as {output} is for files and folders, got {source.name}")
    else:
        raise InputError(f"a {source.kind} must be the only input, got {source.name} and others: dehaze it on its own")


def _below_folder(folder: Path, output: str) -> Iterator[tuple[Source, str]]:
    from libranet.sequences import natural_order

    clips: set[Path] = set()
    for path in natural_order(folder.rglob("*")):
        below = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in below.parts)
        made_here = Path(output).resolve() in (path.resolve(), *path.resolve().parents)
        if hidden or made_here or path.parent in clips:
            continue
        if path.is_dir() and (sequence := folder_sequence(str(path), path)) is not None:
            clips.add(path)
            yield sequence, str(below)
        elif path.is_file() and _is_media(path.name):
            yield Source("file", str(path), path), str(below)


def _remote_files(source: Source) -> Iterator[tuple[Source, str]]:
    from libranet.cluster.storage import list_files  # only addresses of object stores need it

    address = source.name
    if _PATTERN.search(address):
        yield from ((Source("url", name), PurePosixPath(name).name) for name in list_files(address))
    elif _is_media(address):
        yield source, PurePosixPath(address).name
    else:
        below = address.rstrip("/") + "/"
        found = [name for name in list_files(address) if _is_media(name)]
        yield from ((Source("url", name), name.removeprefix(below)) for name in found)


def _from_list(inputs: list[str], output: str, adjust: Adjustments) -> list[Job]:
    from libranet.cli.dehaze_manifest import read_manifest

    if len(inputs) > 1:
        raise InputError(f"a list of jobs must be the only input, got {len(inputs)} inputs: give one list")
    if _FIELDS.search(output) or output == "-" or is_video_name(output):
        raise InputError(f"a list of jobs needs a folder as output, got -o {output}: its rows name the files")
    jobs = []
    for row in read_manifest(Path(inputs[0]), adjust):
        name = local_name(row.source)  # one that is missing fails when its turn comes, not the whole list
        source = Source("url", name) if is_remote(name) else Source("file", name, Path(name))
        if not row.output:
            target = _below(output, PurePosixPath(row.source).name)
        elif "://" in row.output or Path(row.output).is_absolute():
            target = local_name(row.output)
        else:
            target = f"{output.rstrip('/')}/{row.output}"
        jobs.append(Job(_kind(name, target), source, target, row.changes))
    return jobs


def _stream_job(sources: list[Source], output: str) -> Job:
    if len(sources) != 1:
        raise InputError(f"a stream must be the only input, got {len(sources)} inputs: give one input")
    if sources[0].kind == "folder":
        raise InputError(f"a folder cannot be a stream: give one file instead of {sources[0].name}")
    if output != "-" and not is_video_name(output) and not is_live_output(output):
        raise InputError(
            f"cannot write video to {output}: give -o - or a name such as out.mkv, or rtmp://, rtsp://, srt://, udp://"
        )
    return Job("stream", sources[0], output)


def _single(source: Source, output: str) -> Job:
    if source.kind == "sequence":
        return _job(source, output)
    assert source.path is not None
    # A shell may have made one name of clips/*.mp4: a new name without an ending is a folder, as for several inputs.
    new = not Path(output).suffix and not Path(output).name.startswith(".") and not os.path.lexists(output)
    if new or Path(output).is_dir() or output.endswith(("/", "\\")):
        output = _below(output, source.path.name)
    return _job(source, output)


def _kind(source: str, output: str, path: Path | None = None) -> Kind:
    """An image becomes an image; an animation may become a video as well, and a video numbered images."""
    images = 1
    if path is not None and is_image_name(source):
        from libranet.images import count_images  # only runs over images load their formats

        images = count_images(path)
    several = not is_image_name(source) or images > 1
    if several and is_pattern(output) and is_image_name(output):
        if is_remote(output):
            raise InputError(f"numbered images go to a folder on this machine, got -o {output}: write a video there")
        return "frames"
    if not is_image_name(source) and is_image_name(output):
        if path is not None:
            from libranet.video.opening import open_source

            open_source(parse_source(path)).close()  # a still image of another kind says what it is
        raise InputError(f"{source} is a video: give -o a pattern such as frames/%05d.png for its frames, not {output}")
    if not is_image_name(source):
        return "video"
    still = path is not None and is_video_name(output) and images == 1
    return "image" if still or not is_video_name(output) else "video"


def _is_media(name: str) -> bool:
    return is_image_name(name) or PurePosixPath(name).suffix.lower() in (*VIDEO_SUFFIXES, *_OTHER_IMAGES)


def _below(folder: str, name: str, kind: str = "file") -> str:
    """The name of an output in a folder. Clips of frames become folders."""
    name = name if kind == "sequence" else _writable(name)
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else str(Path(folder) / name)


def _writable(name: str) -> str:
    """The same name; formats that we only read become Matroska."""
    if is_image_name(name) or is_video_name(name) or PurePosixPath(name).suffix.lower() in _OTHER_IMAGES:
        return name
    return f"{name.removesuffix(PurePosixPath(name).suffix)}.mkv"


def _filled(template: str, path: PurePosixPath | Path, number: int) -> str:
    suffix = Path(_writable(path.name)).suffix
    values = {"name": path.name, "stem": path.stem, "suffix": suffix, "folder": str(path.parent)}
    return _FIELDS.sub(lambda match: {**values, "number": f"{number:04d}"}[match[1]], template)


def _checked(jobs: list[Job]) -> list[Job]:
    """Refuse a job that would replace the output or the input of another."""
    inputs = {os.path.realpath(job.source.path): job for job in jobs if job.source.path is not None}
    inputs |= {os.path.realpath(path): job for job in jobs for _, path in job.source.files}
    seen: dict[str, str] = {}
    for job, output in [(each, output) for each in jobs for output in each.outputs or (each.output,)]:
        target = str(output) if is_remote(str(output)) else os.path.realpath(output)
        if target in seen:
            raise InputError(
                f"{seen[target]} and {job.source.name} would both become {job.output}: "
                "dehaze them into two folders, or use {name} in a template"
            )
        if target in inputs and inputs[target] is not job:
            raise InputError(
                f"{job.source.name} would become {job.output}, which is an input as well: choose another output"
            )
        seen[target] = job.source.name
    return jobs
