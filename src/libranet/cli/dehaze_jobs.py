"""The list of jobs behind `libranet dehaze INPUT... -o OUTPUT`: which file becomes which."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from libranet.errors import InputError
from libranet.images import count_images, is_image_name
from libranet.video.encoder import is_video_name
from libranet.video.source import Source, is_pattern, parse_source

Kind = Literal["video", "image", "sequence", "stream"]

_OTHER_VIDEOS = (".mpeg", ".wmv", ".flv", ".mts", ".3gp", ".ogv", ".vob", ".y4m")
_FIELDS = re.compile(r"\{(name|stem|suffix|folder|number)\}")


@dataclass(frozen=True)
class Job:
    """One input and its output."""

    kind: Kind
    source: Source
    output: str


def plan_jobs(inputs: list[str], output: str, *, live: bool) -> list[Job]:
    """Turn inputs and output into jobs. Folders keep their structure.

    Args:
        inputs: As the user wrote them.
        output: A file, a folder, `-`, or a template such as clear/{stem}-clear.mp4.
        live: The source is live.

    Raises:
        InputError: The inputs and the output do not fit together.
    """
    if not output.strip():
        raise InputError("the output is empty: give -o a file, a folder, or - for y4m")
    sources = [parse_source(name) for name in inputs]
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
        known = is_video_name(path) or is_image_name(path) or path.suffix.lower() in _OTHER_VIDEOS
        if path.is_file() and known and not hidden and not inside_output:
            found.append(Source("file", str(path), path))
    return found


def _checked(jobs: list[Job]) -> list[Job]:
    seen: dict[str, str] = {}
    for job in jobs:
        if job.output in seen:
            raise InputError(
                f"{seen[job.output]} and {job.source.name} would both become {job.output}: "
                "dehaze them into two folders, or use {name} in a template"
            )
        seen[job.output] = job.source.name
    return jobs
