"""The manifest of a set: which clear clip, from when on, with which haze, in which part. A CSV file to edit by hand."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from libranet.atomic import write_atomically
from libranet.data.dataset import sha256
from libranet.errors import InputError
from libranet.haze.scattering import REGIMES, assign_regimes
from libranet.images import is_image_name
from libranet.sequences import is_video_file, natural_order
from libranet.synth.sources import ClipSource, PhotoSource, SceneSource, VideoSource
from libranet.synth.synthesize import split_clips

OPEN_MANIFEST = Path(__file__).with_name("uhv4k-open.csv")
"""The sources of the preset `uhv4k-open`: photos of Ubuntu's archive, and rendered scenes."""
_SCENE = re.compile(r"scene-(\d+)")


@dataclass(frozen=True)
class ManifestRow:
    """One clip."""

    file: str
    """Path of the video or photo below one of the source folders; `*` and `**` stand for what copies name differently.
    `scene-7` is a rendered scene."""
    begin: float = 0.0  # seconds into the video
    regime: str = ""  # one of the nine haze regimes
    part: str = ""  # train or test
    scene: str = ""  # what it shows, for the composition figure; may be empty
    region: str = ""  # where it was filmed, likewise
    licence: str = "not stated"
    depth: str = ""  # of a photo: path of its depth map below one of the folders
    things: int = 0  # of a photo: how many things move through it
    sha256: str = ""  # of the file, where only its very bytes will do

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
            begin, things = float(given.pop("begin", "0")), int(given.pop("things", "0"))
            rows.append(ManifestRow(**{"file": "", **given}, begin=begin, things=things))  # type: ignore[arg-type]
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except ValueError:
            got = f"{values.get('begin')!r} and {values.get('things')!r}"
            raise InputError(f"{path}: expected begin in seconds and a number of things, got {got}") from None
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


def locate(rows: Sequence[ManifestRow], folders: Sequence[Path], device: str = "cpu") -> list[ClipSource]:
    """Find the source of every row below the folders; scenes are rendered on `device`."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"expected a folder with the manifest's videos and photos, got {folder}")
    found: list[ClipSource] = []
    missing: list[str] = []
    for row in rows:
        if scene := _SCENE.fullmatch(row.file):
            found.append(SceneSource(int(scene[1]), device, row.region, row.scene))
            continue
        paths = [_find(pattern, folders) for pattern in (row.file, row.depth) if pattern]
        if None in paths:
            missing.append(row.file if paths[0] is None else row.depth)
        else:
            found.append(_open(row, *paths))  # type: ignore[arg-type]
    if missing:
        where = ", ".join(map(str, folders)) or "no folder"
        raise InputError(
            f"{len(missing)} of {len(rows)} sources of the manifest are not in {where}; the first: {missing[0]}"
        )
    return found


def _find(pattern: str, folders: Sequence[Path]) -> Path | None:
    fitting = [path for folder in folders for path in natural_order(folder.glob(pattern)) if path.is_file()]
    if len(fitting) > 1:
        raise InputError(f"{pattern} of the manifest fits several files: {fitting[0]} and {fitting[1]}")
    return fitting[0] if fitting else None


def _open(row: ManifestRow, path: Path, depth_map: Path | None = None) -> ClipSource:
    if row.sha256 and (found := sha256(path)) != row.sha256:
        raise InputError(f"expected {path} with the SHA-256 {row.sha256} of the manifest, got {found}")
    if is_image_name(path):
        return PhotoSource(path, row.licence, row.scene, row.region, depth_map=depth_map, things=row.things)
    return VideoSource(path, row.licence, row.scene, row.region, begin=row.begin)
