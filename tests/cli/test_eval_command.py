"""`libranet eval` as a user calls it."""

import csv
import io
import json
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

import libranet
from libranet.cli.main import main


def _write_set(folder: Path, *, clear: bool = True) -> Path:
    coarse = np.random.default_rng(0).integers(0, 255, (8, 10, 3), np.uint8)
    world = cv2.resize(coarse, (68, 48), interpolation=cv2.INTER_CUBIC)
    for index in range(3):
        frame = np.ascontiguousarray(world[:, 2 * index : 2 * index + 64])
        for side, image in (("clear", frame), ("hazy", cv2.addWeighted(frame, 0.6, np.full_like(frame, 230), 0.4, 0))):
            if side == "hazy" or clear:
                (folder / side).mkdir(parents=True, exist_ok=True)
                cv2.imwrite(str(folder / side / f"{index}.png"), image)
    return folder


def _call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["libranet", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_eval_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset, report = _write_set(tmp_path / "set"), tmp_path / "report"
    arguments = ("eval", str(dataset), "-o", str(report), "--model", "identity", "--model", "dcp", "--flow", "dis")
    arguments += ("--metrics", "psnr,ssim,temporal,musiq", "--table", "main", "--table", "temporal")
    assert _call(monkeypatch, *arguments) == 0
    shown = capsys.readouterr().out
    assert "not measured: MUSIQ" in shown
    assert "time per metric: " in shown
    assert "reported" in shown
    assert "measured" in shown
    summary = json.loads((report / "summary.json").read_text())
    assert summary["models"]["identity"]["psnr"]["mean"] > 5
    assert (summary["libranet"], summary["weights"]) == (libranet.__version__, {})
    assert "<h1>Evaluation on set</h1>" in (report / "report.html").read_text()

    stamp = (report / "clips" / "set" / "dcp.csv").stat().st_mtime_ns
    assert _call(monkeypatch, *arguments) == 0, "a second run takes over the results"
    assert (report / "clips" / "set" / "dcp.csv").stat().st_mtime_ns == stamp
    assert _call(monkeypatch, *arguments, "--fresh") == 0
    assert (report / "clips" / "set" / "dcp.csv").stat().st_mtime_ns != stamp


def test_a_table_for_a_file_has_the_standard_output_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = _write_set(tmp_path / "set")
    arguments = ("eval", str(dataset), "-o", str(tmp_path / "report"), "--model", "identity", "--metrics", "psnr")
    assert _call(monkeypatch, *arguments, "--table", "main", "--format", "csv") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("method,source,")
    assert {len(row) for row in csv.reader(io.StringIO(shown.out))} == {14}, "no line of anything else"
    assert "report: " in shown.err


def test_eval_without_ground_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = _write_set(tmp_path / "set", clear=False)
    arguments = ("eval", str(dataset / "hazy"), "-o", str(tmp_path / "out"), "--model", "identity", "--flow", "dis")
    assert _call(monkeypatch, *arguments, "--metrics", "psnr", "--metrics", "tof") == 0
    assert "the set has no ground truth" in capsys.readouterr().out


def test_eval_without_ground_truth_prints_blind_metrics_clip_by_clip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "clips").mkdir()
    for clip in ("one", "two"):
        _write_set(tmp_path / clip, clear=False).joinpath("hazy").rename(tmp_path / "clips" / clip)
    report = tmp_path / "out"
    arguments = ("-o", str(report), "--model", "identity", "--model", "dcp", "--metrics", "blind", "--flow", "dis")
    assert _call(monkeypatch, "eval", str(tmp_path / "clips"), *arguments) == 2
    assert "one/ and two/" in capsys.readouterr().err  # the same scene twice: hazy and clear, or two hazy clips?
    assert _call(monkeypatch, "eval", "--hazy", str(tmp_path / "clips"), *arguments) == 0
    shown = capsys.readouterr().out
    table = shown[shown.index("dcp, clip by clip") :]
    assert [line.split()[0] for line in table.splitlines() if line.strip().startswith(("one", "two", "mean"))] == [
        "one",
        "two",
        "mean",
    ]
    models = json.loads((report / "summary.json").read_text())["models"]
    same = {name: value["mean"] for name, value in models["identity"].items()}
    assert (same["edges"], same["gradient"], same["flicker"], same["contrast_gain"]) == (0.0, 1.0, 1.0, 1.0)
    assert (same["jump"], same["drift"]) == (same["jump_input"], same["drift_input"])
    dcp = {name: value["mean"] for name, value in models["dcp"].items()}
    assert dcp["contrast_gain"] > 1.1
    assert dcp["gradient"] > 1.1
    assert dcp["dark"] < same["dark"]
    assert dcp["jump_input"] == same["jump"]
    page = (report / "report.html").read_text()
    assert "flicker" in page
    assert "contrast gain" in page


def test_eval_with_ground_truth_leaves_blind_metrics_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, report = _write_set(tmp_path / "set"), tmp_path / "out"
    assert _call(monkeypatch, "eval", str(dataset), "-o", str(report), "--model", "identity", "--flow", "dis") == 0
    assert "edges" not in json.loads((report / "summary.json").read_text())["models"]["identity"]


def test_the_backend_is_named_and_can_be_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, report = _write_set(tmp_path / "set", clear=False), tmp_path / "out"
    arguments = ("eval", str(dataset / "hazy"), "-o", str(report), "--model", "libranet", "--metrics", "dark")
    assert _call(monkeypatch, *arguments, "--reproducible") == 0
    summary = json.loads((report / "summary.json").read_text())
    assert summary["backends"] == {"libranet": "plain"}
    assert summary["clips"][0]["backend"] == "plain"
    assert "libranet: backend plain" in (report / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "nosuch"), "expected a model"),
        (("--metrics", "psnrr"), "no metric is called"),
        (("--table", "mian"), "no table is called"),
        (("--detector", "no.onnx"), "no detector at no.onnx"),
        (("--precision", "fp16"), "fp16 needs a GPU"),
        (("--split", "test", "--cache", "x", "--flow", "raft"), "raft-small is not in the cache"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    dataset = _write_set(tmp_path / "set")
    fixed = () if "--model" in arguments else ("--model", "identity")
    assert _call(monkeypatch, "eval", str(dataset), "-o", str(tmp_path / "out"), *fixed, *arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert message in shown
    assert len(shown.strip().splitlines()) == 1


def test_a_table_needs_a_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _call(monkeypatch, "eval", "--table", "main") == 2
    assert "expected a dataset" in capsys.readouterr().err


def test_efficiency_of_one_size(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("eval", "--table", "efficiency", "--model", "dcp", "--device", "cpu")
    assert _call(monkeypatch, *arguments, "--size", "64x48") == 0
    assert "Efficiency at 64x48" in capsys.readouterr().out
    assert _call(monkeypatch, *arguments, "--size", "small") == 2
    assert "expected a size as WIDTHxHEIGHT" in capsys.readouterr().err


def test_fresh_spares_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, other = _write_set(tmp_path / "set"), tmp_path / "photos"
    other.mkdir()
    (other / "holiday.jpg").write_text("dear")
    arguments = ("--model", "identity", "--metrics", "psnr", "--fresh")
    assert _call(monkeypatch, "eval", str(dataset), "-o", str(other), *arguments) == 2
    assert (other / "holiday.jpg").is_file()


@pytest.mark.parametrize(
    ("hazy", "clear", "clips"),
    [
        ("Test/hazy/L003", "Test/gt/L003", {"L003"}),
        ("test/hazy/DAVIS/swan_0.05_0.9", "test/gt/DAVIS/swan", {"DAVIS-swan_0.05_0.9"}),
        ("input/one", "target/one", {"one"}),
    ],
)
def test_eval_reads_public_layouts_from_their_root(hazy, clear, clips, tmp_path, monkeypatch) -> None:
    frames = _write_set(tmp_path / "frames")
    for side, path in (("hazy", hazy), ("clear", clear)):
        (tmp_path / "set" / path).parent.mkdir(parents=True)
        (frames / side).rename(tmp_path / "set" / path)
    report = tmp_path / "report"
    arguments = ("eval", str(tmp_path / "set"), "-o", str(report), "--model", "identity", "--metrics", "psnr")
    assert _call(monkeypatch, *arguments) == 0
    assert {path.name for path in (report / "clips").iterdir()} == clips
