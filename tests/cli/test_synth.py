"""`libranet synth` and `libranet data` as a user types them."""

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from libranet.cli.main import main
from libranet.data import DatasetInfo
from libranet.synth import depth_estimators


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr("sys.argv", ["libranet", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out + captured.err


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for seed, name in enumerate(("lake", "hill")):
        coarse = np.random.default_rng(seed).integers(30, 220, (12, 20, 3), np.uint8)
        cv2.imwrite(str(folder / f"{name}.jpg"), cv2.resize(coarse, (320, 192), interpolation=cv2.INTER_CUBIC))
    return folder


@pytest.fixture
def made(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    options = ("--preset", "mini", "--size", "160x96", "--frames", "3", "--workers", "1", "--licence", "CC0-1.0")
    code, text = run(capsys, monkeypatch, "synth", str(photos), "-o", str(tmp_path / "set"), *options)
    assert code == 0
    assert "2 clips accepted (1 train, 1 test)" in text
    assert "the depth of your sources will be a random layout" in text
    return tmp_path / "set"


def test_a_set_is_made_shown_checked_and_reported(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = DatasetInfo.load(made)
    assert info.generator["depth"] == ["layout-prior 1 (weight-free, random, not an estimate)"]
    code, text = run(capsys, monkeypatch, "data", "check", str(made), "--remeasure")
    assert (code, "2 clips whole, 2 accepted, 0 flagged" in text) == (0, True)
    code, text = run(capsys, monkeypatch, "data", "show", str(made))
    assert code == 0
    assert "0000-hill" in text
    assert "mean hazy PSNR" in text
    page = (made / "report.html").read_text()
    assert page.count("<img src='data:image/jpeg;base64,") == 10
    assert page.count(">passed<") == 10
    assert "CC0-1.0" in page
    (made / "report.html").unlink()
    code, _ = run(capsys, monkeypatch, "data", "report", str(made))
    assert code == 0
    assert (made / "report.html").read_text() == page


def cut_png(folder: Path) -> Path:
    path = folder / "clips" / "0000-hill" / "hazy" / "00001.png"
    path.write_bytes(path.read_bytes()[:500])
    return path


def change_byte(folder: Path) -> Path:
    path = folder / "clips" / "0001-lake" / "transmission" / "00002.exr"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    return path


def remove_modality(folder: Path) -> Path:
    shutil.rmtree(folder / "clips" / "0001-lake" / "depth")
    return folder / "clips" / "0001-lake" / "depth" / "00000.exr"


def spoil_clip_json(folder: Path) -> Path:
    path = folder / "clips" / "0001-lake" / "clip.json"
    path.write_text(path.read_text()[:300])
    return path


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (cut_png, "wrong checksum"),
        (change_byte, "wrong checksum"),
        (remove_modality, "missing file"),
        (spoil_clip_json, "could not read"),
    ],
)
def test_check_names_the_damaged_file(spoil, words, made, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    path = spoil(made)
    code, text = run(capsys, monkeypatch, "data", "check", str(made))
    assert code == 2
    assert words in text
    assert str(path) in text.replace("\n", "")
    assert "Traceback" not in text


def test_a_failing_source_gives_exit_code_two_and_the_others_a_set(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"nothing here")
    arguments = [str(photos / "lake.jpg"), str(tmp_path / "bad.mp4"), "-o", str(tmp_path / "set")]
    options = ("--preset", "mini", "--size", "160x96", "--frames", "2", "--workers", "1")
    code, text = run(capsys, monkeypatch, "synth", *arguments, *options)
    assert code == 2
    assert "1 of 2 sources gave no clip" in text
    assert "bad.mp4" in text
    assert DatasetInfo.load(tmp_path / "set").names("all") == ("0000-lake",)
    code, text = run(capsys, monkeypatch, "data", "check", str(tmp_path / "set"))
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.mp4",), "got 'nowhere.mp4'"),
        (("procedural", "--depth", "magic"), "expected --depth as prior"),
        (("procedural", "--depth", "onnx:none.onnx"), "none.onnx"),
        (("procedural", "--flow", "magic"), "expected --flow as dis"),
        (("procedural", "--flow", "raft:none.pth"), "found no file none.pth"),
        (("procedural", "--size", "big"), "WIDTHxHEIGHT"),
        (("procedural", "--frames", "1"), "at least 2 frames"),
        (("procedural", "--workers", "0"), "at least one worker"),
        (("procedural", "--noise", "2"), "noise in 0..0.5"),
        (("procedural", "--device", "gpu9"), "unknown device 'gpu9'"),
        (("nowhere.mp4", "--device", "cuda:99"), "--device" if not torch.cuda.is_available() else "no device cuda:99"),
    ],
)
def test_mistakes_are_one_sentence(arguments, words, tmp_path, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    code, text = run(capsys, monkeypatch, "synth", *arguments, "-o", str(tmp_path / "set"))
    assert code == 2
    assert words in text
    assert "Traceback" not in text
    assert not (tmp_path / "set" / "dataset.json").exists()


def test_check_of_something_else_and_of_an_unfinished_set(made, tmp_path, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    code, text = run(capsys, monkeypatch, "data", "check", str(tmp_path / "none"))
    assert code == 2
    assert "dataset.json, which is missing" in text.replace("\n", " ")
    path = made / "dataset.json"
    path.write_text(path.read_text().replace('"complete": true', '"complete": false'))
    code, text = run(capsys, monkeypatch, "data", "check", str(made))
    assert code == 2
    assert "run its `libranet synth` command again" in text


@pytest.mark.slow
def test_the_mini_preset_from_nothing_twice(tmp_path, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    checksums = []
    for name in ("first", "second"):
        code, _ = run(capsys, monkeypatch, "synth", "procedural", "-o", str(tmp_path / name), "--preset", "mini")
        assert code == 0
        code, text = run(capsys, monkeypatch, "data", "check", str(tmp_path / name))
        assert (code, "8 clips whole" in text) == (0, True)
        checksums.append({p.parent.name: p.read_bytes() for p in (tmp_path / name).rglob("clip.json")})
    assert len(checksums[0]) == 8
    assert checksums[0] == checksums[1]


@pytest.mark.parametrize(
    ("source", "options", "reason"),
    [
        ("procedural", (), "takes clear video"),
        ("photos", ("--depth", "prior"), "needs estimated depth, got --depth prior"),
        ("photos", ("--flow", "dis"), "needs RAFT, got --flow dis"),
    ],
)
def test_the_papers_preset_takes_no_substitutes(source, options, reason, photos, tmp_path, capsys, monkeypatch):
    source = str(photos) if source == "photos" else source
    output = tmp_path / "set"
    code, text = run(capsys, monkeypatch, "synth", source, "-o", str(output), "--preset", "uhv4k-paper", *options)
    assert code != 0
    assert reason in text
    assert not output.exists()


def test_the_papers_preset_says_how_to_get_raft_before_it_asks_for_depth(photos, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(depth_estimators, "TransformersDepth", lambda *_, **__: pytest.fail("a gigabyte for nothing"))
    code, text = run(capsys, monkeypatch, "synth", str(photos), "-o", str(tmp_path / "set"), "--preset", "uhv4k-paper")
    assert code == 2
    assert "libranet weights pull raft-small" in text
    assert not (tmp_path / "set").exists()
