"""The list of jobs behind `libranet dehaze INPUT... -o OUTPUT`: which file becomes which."""

import glob
import os
import re
from pathlib import Path, PurePosixPath

from libranet.cli.dehaze_manifest import is_manifest, read_manifest
from libranet.cluster.storage import is_remote, list_files, local_name
from libranet.engine.adjust import Adjustments
from libranet.engine.jobs import Job, Kind
from libranet.errors import InputError
from libranet.images import count_images, is_image_name
from libranet.video.encoder import is_video_name
from libranet.video.source import Source, is_pattern, parse_source

_OTHER_VIDEOS = (".mpeg", ".wmv", ".flv", ".mts", ".3gp", ".ogv", ".vob", ".y4m")
_PATTERN = re.compile(r"[*?\[]")
_FIELDS = re.compile(r"\{(name|stem|suffix|folder|number)\}")


def plan_jobs(inputs: list[str], output: str, *, live: bool, adjust: Adjustments | None = None) -> list[Job]:
    """Turn inputs and output into jobs. Folders keep their structure.

    Args:
        inputs: As the user wrote them: files, folders, patterns such as clips/*.mp4, lists of jobs, addresses.
        output: A file, a folder, `-`, or a template such as clear/{stem}-clear.mp4.
        live: The source is live.
        adjust: Adjustments of all jobs, on which those of a list's rows come.

    Raises:
        InputError: The inputs and the output do not fit together.
    """
    if not output.strip():
        raise InputError("the output is empty: give -o a file, a folder, or - for y4m")
    inputs, output = [local_name(name) for name in inputs], local_name(output)
    if any(is_manifest(name) for name in inputs):
        return _checked(_from_manifests(inputs, output, adjust or Adjustments()))
    if any(is_remote(name) for name in (*inputs, output)):
        return _checked(_remote_jobs(inputs, output))
    sources = [parse_source(name) for text in inputs for name in _matching(text)]
    streams = [source for source in sources if source.kind in ("pipe", "url", "camera")]
    if streams or output == "-" or live:
        return [_stream_job(sources, output)]
    if _FIELDS.search(output):
        return _checked(_from_template(sources, output))
    if len(sources) == 1 and sources[0].kind != "folder":
        return [_single(sources[0], output)]
    if Path(output).suffix and not Path(output).is_dir():
        raise InputError(
            f"several inputs need a folder as output, got -o {output}: give a folder's name, or {{stem}}.mp4"
        )
    jobs: list[Job] = []
    for source in sources:
        assert source.path is not None or source.kind == "sequence"
        if source.kind == "sequence":
            raise InputError(f"a sequence must be the only input, got {source.name} and others: dehaze it on its own")
        assert source.path is not None
        if source.kind != "folder":
            jobs.append(_into_folder(source, Path(output) / source.path.name))
            continue
        found = _media_below(source.path, Path(output))
        jobs.extend(
            _into_folder(file, Path(output) / file.path.relative_to(source.path)) for file in found if file.path
        )
    if not jobs:
        raise InputError(f"no video or image was found in {', '.join(inputs)}: give a file or another folder")
    return _checked(jobs)


def select_shard(jobs: list[Job], text: str) -> list[Job]:
    """Return one of n shares of the jobs, for job arrays: every n-th job.

    Args:
        jobs: All of them, in the same order for every share.
        text: Such as 3/8, the third of eight.

    Raises:
        InputError: The text is no such share.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"expected --shard as 1/8 to 8/8, got {text!r}")
    return jobs[int(match[1]) - 1 :: int(match[2])]


def _matching(text: str) -> list[str]:
    """The files that a pattern such as clips/*.mp4 names; other inputs stay as they are."""
    if not any(sign in text for sign in "*?[") or os.path.lexists(text) or "://" in text or is_pattern(text):
        return [text]
    found = sorted(glob.glob(text, recursive=True))
    if not found:
        raise InputError(f"nothing matches {text}: check the pattern")
    return found


def _from_manifests(inputs: list[str], output: str, adjust: Adjustments) -> list[Job]:
    if len(inputs) > 1:
        raise InputError(f"a list of jobs must be the only input, got {len(inputs)} inputs: give one list")
    if _FIELDS.search(output) or output == "-" or is_video_name(output):
        raise InputError(f"a list of jobs needs a folder as output, got -o {output}: its rows name the files")
    jobs = []
    for row in read_manifest(Path(inputs[0]), adjust):
        name = row.output or PurePosixPath(row.source).name
        target = name if "://" in name or Path(name).is_absolute() else f"{output.rstrip('/')}/{name}"
        if not row.output and not is_image_name(name) and not is_video_name(name):
            target = str(Path(target).with_suffix(".mkv")) if "://" not in target else f"{target}.mkv"
        name = local_name(row.source)  # one that is missing fails when its turn comes, not the whole list
        source = _remote_source(name) if is_remote(name) else Source("file", name, Path(name))
        jobs.append(Job(_kind_by_name(source.name, target), source, local_name(target), row.changes))
    return jobs


def _remote_jobs(inputs: list[str], output: str) -> list[Job]:
    """Jobs with files in object stores. Folders keep their structure below a folder as output."""
    files: list[tuple[str, str]] = []  # address and name below the output
    for text in inputs:
        if is_remote(text) and not is_image_name(text) and not _is_media(text) and not _PATTERN.search(text):
            below = text.rstrip("/") + "/"
            files += [(name, name.removeprefix(below)) for name in list_files(text) if _is_media(name)]
        elif is_remote(text):
            found = list_files(text) if _PATTERN.search(text) else [text]
            files += [(name, PurePosixPath(name).name) for name in found]
        else:
            for name in _matching(text):
                root = Path(name)
                media = _media_below(root, None) if root.is_dir() else [parse_source(name)]
                files += [(m.name, str(Path(m.name).relative_to(root)) if root.is_dir() else root.name) for m in media]
    if not files:
        raise InputError(f"no video or image was found in {', '.join(inputs)}: give a file or another folder")
    jobs = []
    for number, (name, below) in enumerate(files, start=1):
        path = PurePosixPath(name)
        if _FIELDS.search(output):
            values = {"name": path.name, "stem": path.stem, "suffix": path.suffix, "folder": str(path.parent)}
            target = _filled(output, {**values, "number": f"{number:04d}"})
        elif len(inputs) == len(files) == 1 and (is_video_name(output) or is_image_name(output)):
            target = output
        else:
            target = f"{output.rstrip('/')}/{below}"
            if not is_image_name(target) and not is_video_name(target):
                target = f"{target[: -len(path.suffix)]}.mkv"
        source = _remote_source(name) if is_remote(name) else parse_source(name)
        jobs.append(Job(_kind_by_name(name, target), source, target))
    return jobs


def _remote_source(address: str) -> Source:
    return Source("url", address)


def _kind_by_name(source: str, output: str) -> Kind:
    return "image" if is_image_name(source) and not is_video_name(output) else "video"


def _is_media(name: str) -> bool:
    return is_video_name(name) or is_image_name(name) or PurePosixPath(name).suffix.lower() in _OTHER_VIDEOS


def _stream_job(sources: list[Source], output: str) -> Job:
    if len(sources) != 1:
        raise InputError(f"a stream must be the only input, got {len(sources)} inputs: give one input")
    if sources[0].kind == "folder":
        raise InputError(f"a folder cannot be a stream: give one file instead of {sources[0].name}")
    if output != "-" and not is_video_name(output):
        raise InputError(f"cannot write video to {output}: give -o - or a name such as out.mkv")
    return Job("stream", sources[0], output)


def _single(source: Source, output: str) -> Job:
    if source.kind == "sequence":
        return Job("sequence" if is_pattern(output) and is_image_name(output) else "video", source, output)
    assert source.path is not None
    if Path(output).is_dir() or output.endswith(("/", "\\")):
        return _into_folder(source, Path(output) / source.path.name)
    return Job(_kind(source.path, output), source, output)


def _kind(source: Path, output: str) -> Kind:
    """An image becomes an image; an animation may become a video as well."""
    if not is_image_name(source):
        return "video"
    return "video" if is_video_name(output) and count_images(source) > 1 else "image"


def _into_folder(source: Source, output: Path) -> Job:
    assert source.path is not None
    if is_image_name(source.path):
        return Job("image", source, str(output))
    if not is_video_name(output):
        output = output.with_suffix(".mkv")
    return Job("video", source, str(output))


def _from_template(sources: list[Source], template: str) -> list[Job]:
    files: list[Source] = []
    for source in sources:
        if source.kind == "folder" and source.path is not None:
            files += _media_below(source.path, None)
        elif source.kind == "file":
            files.append(source)
        else:
            raise InputError(f"a template such as {template} is for files and folders, got {source.name}")
    if not files:
        raise InputError(f"no video or image was found in {', '.join(source.name for source in sources)}")
    jobs = []
    for number, source in enumerate(files, start=1):
        path = source.path
        assert path is not None
        values = {
            "name": path.name,
            "stem": path.stem,
            "suffix": path.suffix,
            "folder": str(path.parent),
            "number": f"{number:04d}",
        }
        output = _filled(template, values)
        jobs.append(Job(_kind(path, output), source, output))
    return jobs


def _filled(template: str, values: dict[str, str]) -> str:
    return _FIELDS.sub(lambda match: values[match[1]], template)


def _media_below(folder: Path, output: Path | None) -> list[Source]:
    found = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        inside_output = output is not None and output.resolve() in path.resolve().parents
        if path.is_file() and _is_media(path.name) and not hidden and not inside_output:
            found.append(Source("file", str(path), path))
    return found


def _checked(jobs: list[Job]) -> list[Job]:
    """Refuse a job that would replace the output or the input of another."""
    inputs = {os.path.realpath(job.source.path): job for job in jobs if job.source.path is not None}
    seen: dict[str, str] = {}
    for job in jobs:
        target = job.output if is_remote(job.output) else os.path.realpath(job.output)
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
