import json

import pytest

import libranet
from libranet.cli.main import main
from libranet.network import save_checkpoint


def run(capsys, monkeypatch, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["libranet", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


def test_json_has_the_papers_figures(capsys, monkeypatch):
    code, out, _ = run(capsys, monkeypatch, "info", "--json")
    report = json.loads(out)
    assert code == 0
    assert abs(report["parameters"] / 6.12e6 - 1) < 0.01
    assert abs(report["gflops"] / 282 - 1) < 0.03
    assert report["size"] == "3840x2160"
    assert report["window"] == 5
    assert report["libranet"] == libranet.__version__
    assert (report["weights_name"], report["weights_version"]) == ("libranet-base", "1.3")
    assert {"name", "parameters", "window_gflops", "stream_gflops"} <= report["parts"][0].keys()


def test_the_table_names_every_part_and_the_paper(capsys, monkeypatch):
    code, out, _ = run(capsys, monkeypatch, "info", "--size", "1280x720")
    assert code == 0
    for word in ("chromatic.encoder", "temporal.attention", "refiner", "total", "paper", "6,120,000"):
        assert word in out


def test_a_checkpoint_is_counted_as_it_is(capsys, monkeypatch, tiny_model, tmp_path):
    save_checkpoint(tiny_model, tmp_path / "t.safetensors")
    _, out, _ = run(capsys, monkeypatch, "info", "--json", "--model", str(tmp_path / "t.safetensors"))
    assert json.loads(out)["parameters"] == sum(p.numel() for p in tiny_model.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--size", "big"), "expected a size as WIDTHxHEIGHT, for example 3840x2160, got 'big'"),
        (("--size", "8x8"), "at least 16x16, got 8x8"),
        (("--model", "nowhere.safetensors"), "no checkpoint at nowhere.safetensors"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(capsys, monkeypatch, arguments, message):
    code, out, err = run(capsys, monkeypatch, "info", *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert out == ""


def test_version(capsys, monkeypatch):
    code, out, _ = run(capsys, monkeypatch, "--version")
    assert (code, out.strip()) == (0, libranet.__version__)
