"""The manifest of a set: which clear clip, from when on, with which haze, in which part. A CSV file to edit by hand."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from libranet.atomic import write_atomically
from libranet.errors import InputError
from libranet.haze.scattering import REGIMES, assign_regimes
from libranet.sequences import is_video_file, natural_order
from libranet.synth.sources import VideoSource
from libranet.synth.synthesize import split_clips


@dataclass(frozen=True)
class ManifestRow:
    """One clip."""

    file: str
    """Path of the video below one of the source folders; `*` and `**` stand for what copies name differently."""
    begin: float = 0.0  # seconds into the video
    regime: str = ""  # one of the nine haze regimes
    part: str = ""  # train or test
    scene: str = ""  # what it shows, for the composition figure; may be empty
    region: str = ""  # where it was filmed, likewise
    licence: str = "not stated"

    def __post_init__(self) -> None:
        if not self.file:
            raise InputError("expected a file in every row of a manifest")
        if not 0 <= self.begin < float("inf"):
            raise InputError(f"expected begin in seconds from 0 on, got {self.begin} for {self.file}")
        if self.regime not in {regime.name for regime in REGIMES}:
            known = ", ".join(regime.name for regime in REGIMES)
            raise InputError(f"expected one of {known} as the regime of {self.file}, got {self.regime!r}")
        if self.part not in ("train", "test"):
            raise InputError(f"expected train or test as the part of {self.file}, got {self.part!r}")


COLUMNS = tuple(field.name for field in fields(ManifestRow))


def draw_manifest(files: Sequence[str], *, seed: int = 0, licence: str = "not stated") -> list[ManifestRow]:
    """Give clips a regime and a part: every nine clips have every regime once, and test has a fifth of each regime."""
    names = [f"{index:06d}" for index in range(len(files))]
    regimes = {name: regime.name for name, regime in zip(names, assign_regimes(len(files), seed), strict=True)}
    parts = split_clips(regimes, seed)
    test = set(parts["test"])
    return [
        ManifestRow(file, regime=regimes[name], part="test" if name in test else "train", licence=licence)
        for name, file in zip(names, files, strict=True)
    ]


def list_videos(folders: Sequence[Path]) -> list[str]:
    """The videos below some folders, by their path in it."""
    found = [
        path.relative_to(folder).as_posix()
        for folder in folders
        for path in natural_order(folder.rglob("*"))
        if is_video_file(path)
    ]
    if not found:
        raise InputError(f"expected videos below {', '.join(map(str, folders))}, found none")
    return found


def read_manifest(path: Path) -> list[ManifestRow]:
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"could not read the manifest {path}: {error}") from None
    reader = csv.DictReader(lines)
    if unknown := set(reader.fieldnames or ()) - set(COLUMNS):
        raise InputError(f"{path} has unknown column {min(unknown)!r}: expected some of {', '.join(COLUMNS)}")
    rows = []
    for values in reader:
        given = {key: value.strip() for key, value in values.items() if key in COLUMNS and value and value.strip()}
        try:
            begin = float(given.pop("begin", "0"))
            rows.append(ManifestRow(**{"file": "", **given}, begin=begin))  # type: ignore[arg-type]
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except ValueError:
            raise InputError(f"{path}: expected begin in seconds, got {values.get('begin')!r}") from None
    if not rows:
        raise InputError(f"expected rows in the manifest {path}, found none")
    seen = [(row.file, row.begin) for row in rows]
    if len(set(seen)) < len(seen):
        double = next(entry for entry in seen if seen.count(entry) > 1)
        raise InputError(f"{path} lists {double[0]} from {double[1]:g} s twice")
    return rows


def write_manifest(rows: Sequence[ManifestRow], path: Path) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) | {"begin": f"{row.begin:g}"} for row in rows)
    write_atomically(path, text.getvalue().encode())


def locate(rows: Sequence[ManifestRow], folders: Sequence[Path]) -> list[VideoSource]:
    """Find the video of every row below the source folders."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"expected a folder with the manifest's videos, got {folder}")
    found: list[VideoSource] = []
    missing: list[str] = []
    for row in rows:
        fitting = [path for folder in folders for path in natural_order(folder.glob(row.file)) if path.is_file()]
        if len(fitting) > 1:
            raise InputError(f"{row.file} of the manifest fits several videos: {fitting[0]} and {fitting[1]}")
        if fitting:
            found.append(VideoSource(fitting[0], row.licence, row.begin, row.scene, row.region))
        else:
            missing.append(row.file)
    if missing:
        where = ", ".join(map(str, folders))
        raise InputError(
            f"{len(missing)} of {len(rows)} videos of the manifest are not in {where}; the first: {missing[0]}"
        )
    return found
