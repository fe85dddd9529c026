"""`libranet bench` as a user runs it."""

import csv
import json
from pathlib import Path

import pytest

from libranet.cli.main import main
from libranet.images import read_image
from libranet.lab.bench import this_machine

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def run(capsys, monkeypatch, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["libranet", "bench", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


def test_tables_and_plots(capsys, monkeypatch, tmp_path: Path):
    quality = tmp_path / "psnr.json"
    quality.write_text(json.dumps({"libranet-plain": 20.5, "uhdformer": 21.0}))
    folder = tmp_path / "bench"
    code, out, err = run(
        capsys,
        monkeypatch,
        *("--models", "libranet-plain,uhdformer,clahe", "--sizes", "64x48,96x64", "--device", "cpu"),
        *("--seconds", "0.01", "--quality", str(quality), "-o", str(folder)),
    )
    assert code == 0
    assert out == (folder / "bench.md").read_text()
    assert "| uhdformer | 64x48 | 0.34 |" in out
    assert "UHDformer (uhdformer) | 4K | 20.33 | 33,300 |" in out
    assert "reported |" in out
    assert "uhdformer, 96x64" in err
    rows = list(csv.DictReader((folder / "bench.csv").open()))
    assert [(row["model"], row["width"]) for row in rows] == [
        (model, width) for width in ("64", "96") for model in ("libranet-plain", "uhdformer", "clahe")
    ]
    assert all(float(row["milliseconds"]) > 0 for row in rows)
    content = json.loads((folder / "bench.json").read_text())
    assert content["rows"][1]["parameters"] == 339_323
    assert content["rows"][1]["backend"] == rows[1]["backend"] == "plain"
    assert content["date"]
    assert (folder / "fps-by-size.svg").read_text().count("<polyline") == 3
    assert (folder / "quality-by-fps.svg").read_text().count(">uhdformer<") == 1


def test_the_list_names_what_is_there_and_what_is_not(capsys, monkeypatch):
    code, out, _ = run(capsys, monkeypatch, "--list")
    assert code == 0
    for word in ("dehazeformer-b", "libranet weights pull", "not here: cg-idn"):
        assert word in out


def test_a_peer_whose_weights_are_missing_is_named(capsys, monkeypatch, tmp_path: Path):
    monkeypatch.setattr("libranet.thirdparty.cache.default_cache", lambda: tmp_path)
    code, out, _ = run(
        capsys,
        monkeypatch,
        "--models",
        "maxim-indoor,clahe",
        "--sizes",
        "64x48",
        "--seconds",
        "0.01",
        "--device",
        "cpu",
    )
    assert code == 0
    assert "Not measured: maxim-indoor: maxim-indoor is not in the cache" in out
    assert "| clahe |" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--models", "cg-idn"), "cg-idn is not among the peers: its makers released no code"),
        (("--models", "nothing"), "no checkpoint at nothing"),
        (("--sizes", "8x8"), "at least 16x16"),
        (("--seconds", "0"), "expected a positive time"),
        (("--device", "cpu", "--precision", "fp16"), "fp16 needs a GPU"),
        (("--quality", "q.json"), "give its folder with --output"),
    ],
)
def test_mistakes_are_one_sentence(capsys, monkeypatch, arguments, message):
    code, out, err = run(capsys, monkeypatch, *arguments)
    assert code == 2
    assert message in err
    assert out == ""


@pytest.mark.parametrize("suffix", ["png", "svg", "json"])
def test_this_machine(capsys, monkeypatch, tmp_path: Path, suffix: str):
    monkeypatch.setattr(this_machine, "SIZE", (192, 128))
    monkeypatch.setattr(this_machine, "_COPIED", 1 << 16)
    monkeypatch.setattr(this_machine, "_MATRIX", 64)
    card = tmp_path / f"card.{suffix}"
    code, out, _ = run(capsys, monkeypatch, "--me", "--device", "cpu", "--seconds", "0.05", "--json", "-o", str(card))
    assert code == 0
    found = json.loads(out)
    assert all(found[name] > 0 for name in ("base", "small", "decode", "encode", "gigabytes", "gigaflops"))
    assert found["small"] > found["base"]
    assert found["backend"] == "plain"
    if suffix == "png":
        assert read_image(card).rgb.shape[1] == 1350
    elif suffix == "svg":
        assert card.read_text().lstrip().startswith("<?xml")
    else:
        assert json.loads(card.read_text()) == found


def test_the_others_are_results_of_this_repository():
    for other in this_machine.OTHERS:
        result = json.loads((RESULTS / other.source).read_text())
        if "rows" in result:
            rows = [row for row in result["rows"] if row["model"] == "libranet" and row["size"] == [1920, 1080]]
            assert other.base == pytest.approx(rows[0]["fps"], abs=0.05)
            assert other.date == result["date"]
            continue
        kind = "numba-bf16" if "BF16" in other.device else "numba-fp32"
        values = result["results"]["1920x1080"]
        assert other.base == pytest.approx(1 / values[f"base, {kind}"]["wall"], abs=0.006)
        assert other.small == pytest.approx(1 / values[f"small, {kind}"]["wall"], abs=0.006)
        assert result["machine"]["date"].startswith(other.date)
        assert result["machine"]["device"] == other.device.split(",")[0]


@pytest.mark.parametrize(
    ("decode", "encode", "base", "gigaflops", "words"),
    [
        (100.0, 5.0, 30.0, 9e9, "its codec: encoding H.264 gives 5.0"),
        (100.0, 90.0, 30.0, 9e9, "the network for memory"),
        (100.0, 90.0, 30.0, 1.0, "the network for compute"),
    ],
)
def test_what_bounds(decode, encode, base, gigaflops, words):
    machine = this_machine.Machine(
        "CPU", "cpu-fp32", "avx2", 2, base, 60.0, decode, encode, 1.0, gigaflops, 0.0, "2026-11-18"
    )
    assert words in machine.bound


def test_a_card_of_another_kind_is_refused_before_anything_is_measured(capsys, monkeypatch, tmp_path: Path):
    code, _, err = run(capsys, monkeypatch, "--me", "-o", str(tmp_path / "card.bmp"))
    assert code == 2
    assert "card.png" in err
