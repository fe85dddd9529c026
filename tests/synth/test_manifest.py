"""The manifest of sources: read, drawn, located, and followed by `libranet synth`."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from clips import Clip as VideoClip
from clips import write_clip
from libranet.cli.main import build_app
from libranet.data.dataset import Clip, DatasetInfo, sha256
from libranet.errors import InputError
from libranet.flow import DisFlow
from libranet.haze.scattering import REGIMES
from libranet.synth.depth_estimators import LayoutPrior
from libranet.synth.manifest import OPEN_MANIFEST, ManifestRow, draw_manifest, locate, read_manifest, write_manifest
from libranet.synth.synthesize import SynthConfig, plan
from small_sets import texture

SHIPPED = Path(__file__).parents[2] / "recipes" / "uhv4k-sources.csv"


def test_the_shipped_manifest_has_equal_shares_of_every_regime():
    rows = read_manifest(SHIPPED)
    assert len(rows) == 100
    assert Counter(row.part for row in rows) == {"train": 80, "test": 20}
    regimes = Counter(row.regime for row in rows)
    assert set(regimes) == {regime.name for regime in REGIMES}
    assert max(regimes.values()) - min(regimes.values()) <= 1
    tested = Counter(row.regime for row in rows if row.part == "test")
    assert all(2 <= tested[regime.name] <= 3 for regime in REGIMES)


def test_what_is_written_is_read_again(tmp_path):
    rows = draw_manifest([f"{i}.mp4" for i in range(10)], seed=3, licence="CC0")
    rows[0] = ManifestRow("a, b.mp4", 1.5, "thin-grey", "test", "street", "Europe")
    write_manifest(rows, tmp_path / "sources.csv")
    assert read_manifest(tmp_path / "sources.csv") == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,colour\na.mp4,red\n", "unknown column 'colour'"),
        ("file,regime,part\na.mp4,foggy,test\n", "as the regime of a.mp4, got 'foggy'"),
        ("file,regime,part\na.mp4,thin-grey,both\n", "expected train or test as the part of a.mp4"),
        ("file,begin,regime,part\na.mp4,soon,thin-grey,test\n", "begin in seconds and a number of things, got 'soon'"),
        ("file,regime,part\na.mp4,thin-grey,test\na.mp4,thin-grey,train\n", "lists a.mp4 from 0 s twice"),
        ("# nothing\nfile,regime,part\n", "found none"),
        ("file,regime,part\n,thin-grey,test\n", "expected a file in every row"),
    ],
)
def test_a_mistake_in_a_manifest_is_named(tmp_path, text, message):
    (tmp_path / "sources.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_manifest(tmp_path / "sources.csv")


def test_videos_are_found_by_pattern_and_missing_ones_are_counted(tmp_path):
    (tmp_path / "Inter4K" / "UHD").mkdir(parents=True)
    (tmp_path / "Inter4K" / "UHD" / "7.mp4").touch()
    row = ManifestRow("**/UHD/7.mp4", regime="thin-grey", part="train", scene="street")
    (found,) = locate([row], [tmp_path])
    assert found.path.name == "7.mp4"
    assert found.describe()["scene"] == "street"
    with pytest.raises(InputError, match=r"1 of 2 sources of the manifest are not in .*; the first: 8.mp4"):
        locate([row, ManifestRow("8.mp4", regime="thin-grey", part="test")], [tmp_path])
    (tmp_path / "copy" / "UHD").mkdir(parents=True)
    (tmp_path / "copy" / "UHD" / "7.mp4").touch()
    with pytest.raises(InputError, match="fits several files"):
        locate([row], [tmp_path])


def test_synth_follows_the_manifest_and_draws_what_the_set_consists_of(tmp_path):
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in ("a.mp4", "b.mp4"):
        write_clip(folder / name, VideoClip(width=96, height=64, frames=20))
    run = CliRunner()
    drawn = run.invoke(build_app(), ["synth", str(folder), "--draw-manifest", "-o", str(tmp_path / "drawn.csv")])
    assert drawn.exit_code == 0, drawn.output
    assert [row.file for row in read_manifest(tmp_path / "drawn.csv")] == ["a.mp4", "b.mp4"]
    write_manifest(
        [
            ManifestRow("a.mp4", 0.2, "dense-warm", "test", "street", "Europe", "CC0"),
            ManifestRow("b.mp4", 0.0, "thin-grey", "train", "coast", "Asia"),
        ],
        tmp_path / "sources.csv",
    )
    made = run.invoke(
        build_app(),
        [
            *("synth", str(folder), "-o", str(tmp_path / "set"), "--manifest", str(tmp_path / "sources.csv")),
            *("--preset", "mini", "--frames", "2", "--size", "96x64"),
        ],
    )
    assert made.exit_code == 0, made.output
    info = DatasetInfo.load(tmp_path / "set")
    assert info.split == {"train": ("0001-b",), "test": ("0000-a",)}
    clip = Clip(tmp_path / "set" / "clips" / "0000-a").info
    assert clip.regime == "dense-warm"
    assert clip.source["begin"] == 0.2
    assert (clip.source["region"], clip.source["licence"]) == ("Europe", "CC0")
    later, sooner = (Clip(tmp_path / "set" / "clips" / name).frame("clear", 0) for name in ("0000-a", "0001-b"))
    assert (later != sooner).any(), "one begins later in the same video"

    shown = run.invoke(build_app(), ["data", "figures", str(tmp_path / "set"), "-o", str(tmp_path / "figures")])
    assert shown.exit_code == 0, shown.output
    assert "| set | measured | video | syn. | paired | 96x64 | 2 | 4 | depth, transmission, flow |" in shown.output
    assert "| UHV-4K | reported |" in shown.output
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"composition.svg", "composition.png", "datasets.md", "datasets.csv", "datasets.tex"}
    assert "Europe" in (tmp_path / "figures" / "composition.svg").read_text()


def test_the_open_set_has_the_papers_size_and_names_every_source():
    rows = read_manifest(OPEN_MANIFEST)
    assert Counter(row.part for row in rows) == {"train": 80, "test": 20}
    for part, most in (("train", 1), ("test", 1)):
        regimes = Counter(row.regime for row in rows if row.part == part)
        assert len(regimes) == 9
        assert max(regimes.values()) - min(regimes.values()) <= most
    assert all(row.scene and row.licence != "not stated" for row in rows)
    photos = [row for row in rows if row.file.startswith("uhd/")]
    assert len(photos) == 66
    assert all(row.depth and row.things and len(row.sha256) == 64 for row in photos)
    assert {row.part for row in photos if "/val_more/" in row.file} == {"test"}
    assert {row.part for row in photos if "/train_more/" in row.file} == {"train"}
    assert all(row.file.startswith("scene-") for row in rows if row not in photos)


@pytest.fixture
def photo_set(tmp_path) -> ManifestRow:
    """A photo whose map says near left and far right, in haze."""
    photo = texture(96, 128, 3)
    cv2.imwrite(str(tmp_path / "photo.png"), photo)
    depth = np.zeros((48, 64), np.uint8)
    depth[:, 32:] = 255
    cv2.imwrite(str(tmp_path / "depth.png"), depth)
    digest = sha256(tmp_path / "photo.png")
    return ManifestRow("photo.png", 0, "dense-white", "train", "wall", "", "CC0", "depth.png", 1, digest)


def test_a_photo_has_the_depth_of_its_map_and_only_its_own_bytes_will_do(photo_set, tmp_path):
    (source,) = locate([photo_set], [tmp_path])
    assert source.describe() == {
        "kind": "photo", "name": "photo.png", "licence": "CC0", "scene": "wall",
        "motion": "2.5-D camera move", "moving_things": 1, "depth": "map depth.png",
    }  # fmt: skip
    task = plan([source], SynthConfig("mini", 2, (128, 96), 64, 1), LayoutPrior, DisFlow())[0]
    first = next(iter(source.frames(task.request)))
    assert first.depth is not None
    assert first.depth[:20, :30].mean() < 0.1
    assert first.depth[:20, -30:].mean() > 0.9
    with pytest.raises(InputError, match=r"with the SHA-256 1{64} of the manifest"):
        locate([replace(photo_set, sha256="1" * 64)], [tmp_path])
    with pytest.raises(InputError, match=r"1 of 1 sources of the manifest are not in .*; the first: no.png"):
        locate([replace(photo_set, depth="no.png")], [tmp_path])


def test_synth_makes_the_first_clips_of_a_manifest(photo_set, tmp_path):
    scene = ManifestRow("scene-4", regime="thin-grey", part="test", scene="city", region="rendered")
    never = ManifestRow("never.png", regime="thin-grey", part="test")
    write_manifest([photo_set, scene, never], tmp_path / "sources.csv")
    arguments = [
        *("synth", str(tmp_path), "-o", str(tmp_path / "set"), "--manifest", str(tmp_path / "sources.csv")),
        *("--preset", "mini", "--frames", "2", "--size", "96x64", "--clips", "2"),
    ]
    made = CliRunner().invoke(build_app(), arguments)
    assert made.exit_code == 0, made.output
    assert "random layout" not in made.output, "no depth was drawn"
    info = DatasetInfo.load(tmp_path / "set")
    assert info.split == {"train": ("0000-photo",), "test": ("0001-scene-4",)}
    photo, rendered = (Clip(tmp_path / "set" / "clips" / name).info for name in info.names("all"))
    assert (photo.depth["estimator"], rendered.depth["estimator"]) == ("map depth.png", "exact")
    assert (rendered.source["scene"], rendered.source["region"]) == ("city", "rendered")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "--preset", "uhv4k-open"), "research/open_sources.sh"),
        (("--preset", "uhv4k-open"), "by default data/uhv4k-open"),
        ((), "expected videos, photos"),
    ],
)
def test_a_set_without_its_sources_says_where_they_come_from(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(build_app(), ["synth", *arguments, "-o", "set"])
    assert made.exit_code != 0
    assert message in str(made.exception)
    assert not (tmp_path / "set").exists()
