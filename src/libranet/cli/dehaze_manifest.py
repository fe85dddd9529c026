"""Lists of jobs as files: CSV with a header, or JSON lines, with a source, an output and options in each row."""

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from libranet.cli.units import parse_bitrate, parse_strength, parse_time
from libranet.engine.options import Adjustments
from libranet.errors import InputError


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false", "yes", "no", "1", "0"):
        raise ValueError(text)
    return text.lower() in ("true", "yes", "1")


_OPTIONS: dict[str, Callable[[str], Any]] = {
    "steady": float,
    "start": lambda text: parse_time(text, "start"),
    "end": lambda text: parse_time(text, "end"),
    "crf": int,
    "bitrate": parse_bitrate,
    "deinterlace": _flag,
    "shot_detection": _flag,
    **dict.fromkeys(("backend", "compare", "view", "codec", "preset", "pix_fmt", "audio"), str),
}
_ADJUSTMENTS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("exposure", "mask"), str),
    **dict.fromkeys(("protect_sky", "protect_shadows", "color"), float),
}
NAMES = ("strength", *_OPTIONS, *_ADJUSTMENTS)
"""Options that a row may have, as the command line names them."""


_NOTES = ("reason", "attempts")
"""What a list of jobs that were given up says besides them."""


@dataclass(frozen=True)
class Row:
    """One line of a list."""

    source: str
    output: str = ""
    """Empty where the output gets its name from the source."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `DehazeOptions`."""


def read_manifest(path: Path, base: Adjustments) -> list[Row]:
    """Read a list of jobs. Names in it are relative to the list's folder.

    Args:
        path: A CSV file with a header, or JSON lines: `source`, `output` and options, or `options` as an object.
        base: Adjustments of the command line, on which those of a row come.
    """
    rows: list[Row] = []
    for number, values in _lines(path):
        where = f"{path}, line {number}"
        for name in _NOTES:
            values.pop(name, None)
        options = dict(values.pop("options", None) or {})
        source = str(values.pop("source", "") or "").strip()
        output = str(values.pop("output", "") or "").strip()
        if not source:
            raise InputError(f"{where} has no source: every row needs one")
        options |= {key: value for key, value in values.items() if value not in (None, "")}
        if options.get("mask"):
            options["mask"] = _beside(path, str(options["mask"]).strip())
        rows.append(Row(_beside(path, source), output, _changes(options, base, where)))
    if not rows:
        raise InputError(f"{path} has no rows: write a source and an output in each")
    return rows


def format_row(source: str, output: str, changes: Mapping[str, Any], **notes: Any) -> str:
    """Write a job as a line of a list that `read_manifest` takes."""
    options: dict[str, Any] = {}
    for name, value in changes.items():
        if isinstance(value, Adjustments):
            plain = Adjustments()
            options |= {key: given for key in _ADJUSTMENTS if (given := getattr(value, key)) != getattr(plain, key)}
            if value.strength_keys:
                options["strength"] = ",".join(f"{time}:{strength}" for time, strength in value.strength_keys)
        else:
            options.setdefault("pix_fmt" if name == "pixel_format" else name, value)
    return json.dumps({"source": source, "output": output, "options": options, **notes})


def _lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path} ({error}): check the file") from None
    if path.suffix.lower() != ".csv":
        lines = enumerate(text.splitlines(), start=1)
        return [(number, _object(line, f"{path}, line {number}")) for number, line in lines if line.strip()]
    reader = csv.DictReader(text.splitlines())
    if "source" not in (reader.fieldnames or ()):
        raise InputError(f"{path} has no column source: its first line names the columns")
    found = []
    for row in reader:
        where, values = f"{path}, line {reader.line_num}", dict[str, Any](row)
        if None in row:
            raise InputError(f"{where} has more values than the header: quote commas")
        if values.get("options"):
            values["options"] = _object(values["options"], f"{where}, column options")
        found.append((reader.line_num, values))
    return found


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where} is no JSON ({error}): write an object") from None
    if not isinstance(value, dict):
        raise InputError(f"{where} is no JSON object: write {{...}}")
    return value


def _changes(options: dict[str, Any], base: Adjustments, where: str) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    adjust: dict[str, Any] = {}
    for name, value in options.items():
        key, text = name.strip().lower().replace("-", "_"), str(value).strip()
        try:
            if key == "strength":
                changes["strength"], adjust["strength_keys"] = parse_strength(text)
            elif key in _ADJUSTMENTS:
                adjust[key] = _ADJUSTMENTS[key](text)
            elif key in _OPTIONS:
                changes["pixel_format" if key == "pix_fmt" else key] = _OPTIONS[key](text)
            else:
                raise InputError(f"{where} has the unknown option {name!r}: use {', '.join(NAMES)}")
        except ValueError as error:
            reason = error.sentence if isinstance(error, InputError) else f"{name} = {text!r} cannot be read"
            raise InputError(reason if where in reason else f"{where}: {reason}") from None
    if adjust:
        changes["adjust"] = replace(base, **adjust)
    return changes


def _beside(path: Path, name: str) -> str:
    if "://" in name or Path(name).is_absolute():
        return name
    return str(path.parent / name)
