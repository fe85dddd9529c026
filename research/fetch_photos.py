"""Fetches the clear photos of research/more-photos.txt: wallpapers with free licences out of Ubuntu's package archive.

python research/fetch_photos.py -o PHOTOS [train_more/some_photo ...]

Writes PHOTOS/<folder>/<stem>.jpg: training photos with 720 pixels on the shorter side, validation photos as the centre
at 3840x2160. Every package is checked against the hash in the list before it is opened. Photos that are there
already are kept. With --whole, photos of at least 3840x2160 are written as their package has them, and others left out.
"""

import argparse
import io
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from libranet.atomic import atomic_file
from libranet.errors import InputError, LibraNetError
from libranet.thirdparty.fetch import check_hash, download

LIST = Path(__file__).with_name("more-photos.txt")
ARCHIVE = "https://archive.ubuntu.com/ubuntu"
TRAINING_SIDE, VALIDATION_SIZE = 720, (3840, 2160)
TRAINING_QUALITY, VALIDATION_QUALITY = 87, 92


@dataclass(frozen=True)
class Package:
    """A package of the archive: its path and its hash."""

    path: str
    sha256: str

    @property
    def file_name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Photo:
    """One photo of a package."""

    name: str
    """`<folder>/<stem>`."""
    package: str
    """The package's file name."""
    path: str
    """Its path inside the package."""


def read_list(path: Path) -> tuple[dict[str, Package], list[Photo]]:
    """Packages by file name, and photos; fields are separated by tabs (the file explains them)."""
    if not path.is_file():
        raise InputError(f"no list of photos at {path}")
    packages: dict[str, Package] = {}
    photos: list[Photo] = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, *fields = line.split("\t")
        if kind == "package" and len(fields) == 2:
            package = Package(*fields)
            packages[package.file_name] = package
        elif kind == "photo" and len(fields) == 5 and fields[1] in packages:
            photos.append(Photo(*fields[:3]))
        else:
            raise InputError(f"{path.name}, line {number}: expected a package, or a photo of one above, got '{line}'")
    return packages, photos


def fetch(package: Package, archive: str) -> bytes:
    """Download a package and check its hash."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / package.file_name
        download(f"{archive}/{package.path}", path)
        check_hash(path, package.sha256)
        return path.read_bytes()


def members(deb: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of an `ar` archive, the format of a package."""
    if not deb.startswith(b"!<arch>\n"):
        raise InputError("a package has to start as an ar archive; this one does not")
    at = 8
    while at + 60 <= len(deb):
        header = deb[at : at + 60]
        name, size = header[:16].decode().rstrip("/ "), int(header[48:58])
        yield name, deb[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


def unpack_zstd(data: bytes) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise InputError("this package is compressed with zstd: pip install zstandard, then run again") from None
    return zstandard.ZstdDecompressor().stream_reader(data).read()


def open_files(deb: bytes) -> tarfile.TarFile:
    """The files that a package installs."""
    for name, data in members(deb):
        if not name.startswith("data.tar"):
            continue
        return tarfile.open(fileobj=io.BytesIO(unpack_zstd(data) if name.endswith(".zst") else data))
    raise InputError("found no files in the package")


def prepare(encoded: bytes, name: str) -> bytes:
    """Turn a photo of a package into the JPEG for training or validation."""
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise InputError(f"cannot read the image of {name}")
    height, width = image.shape[:2]
    wide, high = VALIDATION_SIZE
    for_validation = name.startswith("val_")
    scale = max(wide / width, high / height) if for_validation else TRAINING_SIDE / min(height, width)
    size = (round(width * scale), round(height * scale))
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    if for_validation:
        top, left = (size[1] - high) // 2, (size[0] - wide) // 2
        image = image[top : top + high, left : left + wide]
    quality = VALIDATION_QUALITY if for_validation else TRAINING_QUALITY
    _, jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return jpeg.tobytes()


def is_uhd(encoded: bytes) -> bool:
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    return image is not None and image.shape[1] >= VALIDATION_SIZE[0] and image.shape[0] >= VALIDATION_SIZE[1]


def fetch_photos(
    photos: list[Photo], packages: dict[str, Package], out: Path, *, archive: str, whole: bool = False
) -> int:
    """Write the photos that are not there yet, package by package; return how many."""
    targets = {photo: out / f"{photo.name}{Path(photo.path).suffix.lower() if whole else '.jpg'}" for photo in photos}
    wanted = [photo for photo in photos if not targets[photo].is_file()]
    written = 0
    for package in dict.fromkeys(photo.package for photo in wanted):
        print(f"\r{written}/{len(wanted)} {package:<70.70}", end="", file=sys.stderr, flush=True)
        with open_files(fetch(packages[package], archive)) as files:
            for photo in (photo for photo in wanted if photo.package == package):
                try:
                    member = files.extractfile(f"./{photo.path}")
                except KeyError:
                    member = None
                if member is None:
                    raise InputError(f"{package} has no file {photo.path}, which the list names for {photo.name}")
                encoded = member.read()
                if whole and not is_uhd(encoded):
                    continue
                jpeg = encoded if whole else prepare(encoded, photo.name)
                targets[photo].parent.mkdir(parents=True, exist_ok=True)
                with atomic_file(targets[photo]) as partial:
                    partial.write_bytes(jpeg)
                written += 1
    if wanted:
        print(file=sys.stderr)
    return written


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for train_more/, train_various/, ...")
    parser.add_argument(
        "--archive",
        default=ARCHIVE,
        help=f"default: {ARCHIVE}; packages of releases that are no longer kept move to old-releases.ubuntu.com/ubuntu",
    )
    parser.add_argument("--whole", action="store_true", help="photos of at least 3840x2160, as they are; no others")
    parser.add_argument("--list", type=Path, default=LIST, help="default: research/more-photos.txt")
    parser.add_argument("names", nargs="*", help="<folder>/<stem> of single photos (default: all)")
    options = parser.parse_args(arguments)
    try:
        packages, photos = read_list(options.list)
        if options.names:
            known = {photo.name: photo for photo in photos}
            missing = [name for name in options.names if name not in known]
            if missing:
                raise InputError(f"no photo named {missing[0]} in {options.list}; names look like {photos[0].name}")
            photos = [known[name] for name in options.names]
        written = fetch_photos(photos, packages, options.out, archive=options.archive, whole=options.whole)
    except (LibraNetError, OSError, tarfile.TarError) as error:
        print(f"fetch_photos: {error}", file=sys.stderr)
        return 2
    others = "are smaller or were there already" if options.whole else "were there already"
    print(f"{written} photos written to {options.out}, {len(photos) - written} {others}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
