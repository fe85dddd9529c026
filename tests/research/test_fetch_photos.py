"""Photos out of packages: one made here is fetched, checked, opened and brought to size; wrong ones are refused."""

import hashlib
import io
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pytest
import zstandard

TOOL = "fetch_photos"
INSIDE = "usr/share/backgrounds/A hill.jpg"


def as_jpeg(width: int, height: int) -> bytes:
    image = np.zeros((height, width, 3), np.uint8)
    image[:, : width // 2] = (200, 120, 40)
    return cv2.imencode(".jpg", image)[1].tobytes()


def as_package(photo: bytes, compression: str) -> bytes:
    """A Debian package: an ar archive whose data.tar holds the photo."""
    files = io.BytesIO()
    with tarfile.open(fileobj=files, mode="w:xz" if compression == "xz" else "w") as tar:
        entry = tarfile.TarInfo(f"./{INSIDE}")
        entry.size = len(photo)
        tar.addfile(entry, io.BytesIO(photo))
    content = files.getvalue()
    if compression == "zst":
        content = zstandard.ZstdCompressor().compress(content)
    deb = b"!<arch>\n"
    for name, data in (("debian-binary", b"2.0\n."), (f"data.tar.{compression}", content)):
        deb += f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return deb


@pytest.fixture(params=["xz", "zst"])
def archive(tmp_path, request) -> Path:
    """An archive with one package, and beside it the list that names its photo twice, for training and validation."""
    deb = as_package(as_jpeg(5000, 3000), request.param)
    folder = tmp_path / "archive" / "pool"
    folder.mkdir(parents=True)
    (folder / "hills_1_all.deb").write_bytes(deb)
    lines = [f"package\tpool/hills_1_all.deb\t{hashlib.sha256(deb).hexdigest()}"]
    names = ("train_more/hill", "val_more/hill")
    lines += [f"photo\t{name}\thills_1_all.deb\t{INSIDE}\tCC0\tsomebody" for name in names]
    (tmp_path / "list.txt").write_text("# a comment\n\n" + "\n".join(lines) + "\n")
    return tmp_path


def run(tool, archive: Path, *more: str) -> int:
    source = f"file://{archive}/archive"
    return tool.main(["-o", str(archive / "out"), "--archive", source, "--list", str(archive / "list.txt"), *more])


def test_photos_come_out_of_their_package_at_the_size_they_are_used_at(tool, archive, capsys):
    assert run(tool, archive) == 0
    train, val = (cv2.imread(str(archive / "out" / folder / "hill.jpg")) for folder in ("train_more", "val_more"))
    assert train.shape == (720, 1200, 3)
    assert val.shape == (2160, 3840, 3)
    assert abs(int(val[1000, 1900, 0]) - 200) < 6, "the centre is kept: colours change in the middle"
    assert val[1000, 1940, 0] < 6
    assert "2 photos written" in capsys.readouterr().out


def test_whole_photos_are_the_packages_own_bytes(tool, archive, capsys, monkeypatch):
    assert run(tool, archive, "--whole", "train_more/hill") == 0
    assert (archive / "out" / "train_more" / "hill.jpg").read_bytes() == as_jpeg(5000, 3000)
    monkeypatch.setattr(tool, "VALIDATION_SIZE", (6000, 3000))
    assert run(tool, archive, "--whole", "val_more/hill") == 0
    assert not (archive / "out" / "val_more").exists(), "too small"
    assert "0 photos written" in capsys.readouterr().out.splitlines()[-1]


def test_what_is_there_is_left_alone(tool, archive, capsys):
    assert run(tool, archive, "train_more/hill") == 0
    kept = archive / "out" / "train_more" / "hill.jpg"
    kept.write_bytes(b"mine")
    assert run(tool, archive) == 0
    assert kept.read_bytes() == b"mine"
    assert "1 photos written" in capsys.readouterr().out.splitlines()[-1]


def test_a_package_that_is_not_the_listed_one_is_refused(tool, archive, capsys):
    path = archive / "archive" / "pool" / "hills_1_all.deb"
    path.write_bytes(path.read_bytes() + b"more")
    assert run(tool, archive) == 2
    assert "expected SHA-256" in capsys.readouterr().err
    assert not (archive / "out").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("photo\ttrain_more/x\tnowhere.deb\tx\tCC0\ty", "line 6: expected a package, or a photo of one above"),
        ("photo\ttrain_more/x\thills_1_all.deb\tusr/none.jpg\tCC0\ty", "has no file usr/none.jpg"),
        ("package\tpool/none.deb\t00\nphoto\tval_more/x\tnone.deb\tx\tCC0\ty", "cannot download"),
    ],
)
def test_mistakes_in_the_list_get_one_sentence(tool, archive, capsys, line, message):
    with (archive / "list.txt").open("a") as file:
        file.write(line + "\n")
    assert run(tool, archive) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_unknown_name(tool, archive, capsys):
    assert run(tool, archive, "train_more/none") == 2
    assert "no photo named train_more/none" in capsys.readouterr().err


def test_the_shipped_list_names_every_photo_once_and_says_its_licence(tool):
    packages, photos = tool.read_list(tool.LIST)
    names = [photo.name for photo in photos]
    assert len(set(names)) == len(names) > 200
    assert {photo.package for photo in photos} == set(packages)
    assert {name.split("/")[0] for name in names} == {"train_more", "train_various", "val_more"}
    assert all(len(package.sha256) == 64 for package in packages.values())
    lines = [line.split("\t") for line in tool.LIST.read_text().splitlines() if line.startswith("photo\t")]
    assert all(licence.strip() for *_, licence, _ in lines)
