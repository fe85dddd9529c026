"""The manifest of sources: read, drawn, located, and followed by `libranet synth`."""

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clips import Clip as VideoClip
from clips import write_clip
from libranet.cli.main import build_app
from libranet.data.dataset import Clip, DatasetInfo
from libranet.errors import InputError
from libranet.haze.scattering import REGIMES
from libranet.synth.manifest import ManifestRow, draw_manifest, locate, read_manifest, write_manifest

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
        ("file,begin,regime,part\na.mp4,soon,thin-grey,test\n", "begin in seconds, got 'soon'"),
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
    with pytest.raises(InputError, match=r"1 of 2 videos of the manifest are not in .*; the first: 8.mp4"):
        locate([row, ManifestRow("8.mp4", regime="thin-grey", part="test")], [tmp_path])
    (tmp_path / "copy" / "UHD").mkdir(parents=True)
    (tmp_path / "copy" / "UHD" / "7.mp4").touch()
    with pytest.raises(InputError, match="fits several videos"):
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
