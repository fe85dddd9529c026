"""The list of jobs behind `libranet dehaze INPUT... -o OUTPUT`: which file becomes which."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from libranet.errors import InputError
from libranet.images import is_image_name
from libranet.video.camera import is_camera
from libranet.video.encoder import is_video_name

Kind = Literal["video", "image", "sequence", "stream"]

_OTHER_VIDEOS = (".mpg", ".mpeg", ".wmv", ".flv", ".m2ts", ".mts", ".3gp", ".mxf", ".ogv", ".vob", ".y4m", ".gif")


@dataclass(frozen=True)
class Job:
    """One input and its output."""

    kind: Kind
    source: str
    output: str


def plan_jobs(inputs: list[str], output: str, *, live: bool) -> list[Job]:
    """Turn inputs and output into jobs. Folders keep their structure.

    Raises:
        InputError: The inputs and the output do not fit together.
    """
    if "-" in inputs or any("://" in name or is_camera(name) for name in inputs) or output == "-" or live:
        return [_stream_job(inputs, output)]
    folders = [name for name in inputs if Path(name).is_dir()]
    if len(inputs) == 1 and not folders:
        return [_single(inputs[0], output)]
    if Path(output).suffix and not Path(output).is_dir():
        raise InputError(f"several inputs need a folder as output, got -o {output}: give a folder's name")
    jobs: list[Job] = []
    for name in inputs:
        path = Path(name)
        if not path.is_dir():
            jobs.append(_into_folder(path, Path(output) / path.name))
            continue
        found = _media_below(path, Path(output))
        jobs.extend(_into_folder(file, Path(output) / file.relative_to(path)) for file in found)
    if not jobs:
        raise InputError(f"no video or image was found in {', '.join(inputs)}: give a file or another folder")
    _refuse_doubles(jobs)
    return jobs


def _stream_job(inputs: list[str], output: str) -> Job:
    if len(inputs) != 1:
        raise InputError(f"a stream must be the only input, got {len(inputs)} inputs: give one input")
    if inputs[0] == "-" and output != "-" and not is_video_name(output):
        raise InputError(f"cannot write video to {output}: give -o - or a name such as out.mkv")
    return Job("stream", inputs[0], output)


def _single(name: str, output: str) -> Job:
    path = Path(name)
    if Path(output).is_dir() or output.endswith(("/", "\\")):
        return _into_folder(path, Path(output) / path.name)
    if "%" in path.name:
        return Job("sequence" if "%" in output else "video", name, output)
    if is_image_name(path):
        return Job("image", name, output)
    return Job("video", name, output)


def _into_folder(source: Path, output: Path) -> Job:
    if is_image_name(source):
        return Job("image", str(source), str(output))
    if not is_video_name(output):
        output = output.with_suffix(".mkv")
    return Job("video", str(source), str(output))


def _media_below(folder: Path, output: Path) -> list[Path]:
    found = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        inside_output = output.resolve() in path.resolve().parents
        known = is_video_name(path) or is_image_name(path) or path.suffix.lower() in _OTHER_VIDEOS
        if path.is_file() and known and not hidden and not inside_output:
            found.append(path)
    return found


def _refuse_doubles(jobs: list[Job]) -> None:
    seen: dict[str, str] = {}
    for job in jobs:
        if job.output in seen:
            raise InputError(
                f"{seen[job.output]} and {job.source} would both become {job.output}: dehaze them into two folders"
            )
        seen[job.output] = job.source
