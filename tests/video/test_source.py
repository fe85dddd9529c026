"""The one parser of inputs."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libranet.errors import InputError
from libranet.video.source import numbered_name, parse_source


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("-", "pipe"),
        ("camera:0", "camera"),
        ("/dev/video3", "camera"),
        ("rtsp://camera/stream", "url"),
        ("https://example.org/a%20b.mp4", "url"),
        ("/dev/stdin", "pipe"),
        (".", "folder"),
    ],
)
def test_kinds(text, kind):
    assert parse_source(text).kind == kind


@pytest.mark.parametrize("text", ["", "  ", "nowhere.mp4", "file:nowhere.mp4", "f_%04d.png", "file://"])
def test_what_is_not_there_is_one_sentence(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        parse_source(text)


NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=40
).filter(lambda name: name not in (".", "..", "-") and len(name.encode()) < 200 and name.strip())


@settings(max_examples=150, deadline=None)
@given(name=NAMES)
def test_a_file_that_exists_is_always_meant(name, tmp_path_factory):
    """Whatever its name: percent signs, colons, schemes, spaces."""
    folder = tmp_path_factory.mktemp("names")
    path = folder / name
    path.write_bytes(b"x")
    source = parse_source(path)
    assert (source.kind, source.path) == ("file", path)
    assert source.location == f"file:{path}"
    assert parse_source(f"file:{path}").path == path
    assert parse_source(f"file://{path}").path == path


@settings(max_examples=100, deadline=None)
@given(
    before=st.text("abc_. -", max_size=6),
    after=st.sampled_from([".png", ".jpg", "-x.tif"]),
    width=st.integers(0, 6),
    numbers=st.sets(st.integers(0, 120_000), min_size=1, max_size=8),
)
def test_every_number_of_a_sequence_is_found_in_order(before, after, width, numbers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sequence")
    pattern = f"{folder}/n{before}%{f'0{width}' if width else ''}d{after}"
    for number in numbers:
        numbered_name(pattern, number).write_bytes(b"x")
    (folder / "other.txt").touch()
    source = parse_source(pattern)
    assert [number for number, _ in source.files] == sorted(numbers)
    assert [path for _, path in source.files] == [numbered_name(pattern, number) for number in sorted(numbers)]


def test_wrong_digits_are_explained(tmp_path):
    (tmp_path / "f_0001.png").touch()
    with pytest.raises(InputError, match="%04d"):
        parse_source(str(tmp_path / "f_%d.png"))


def test_a_file_without_permission_is_named(tmp_path):
    path = tmp_path / "secret.mp4"
    path.write_bytes(b"x")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root may read everything")
    with pytest.raises(InputError, match="permissions"):
        parse_source(path)
