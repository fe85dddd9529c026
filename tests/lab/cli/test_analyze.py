"""`libranet analyze` from a checkpoint and a set to numbers and figures."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from libranet.cli.main import build_app
from libranet.errors import InputError
from libranet.lab.analysis.run import PROBES
from libranet.network import LiBrANet, save_checkpoint
from small_sets import RampSource, make_set


def run(*arguments: str) -> str:
    result = CliRunner().invoke(build_app(), ["analyze", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_every_probe_gives_numbers_and_two_figures(
    tmp_path: Path, tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn.manifold")
    monkeypatch.setattr("libranet.lab.analysis.run.EDGES", (24, 36))
    monkeypatch.setattr("libranet.lab.analysis.anatomy.CELLS", 100)
    monkeypatch.setattr("libranet.lab.analysis.plotting._DPI", 50)
    make_set([RampSource()], tmp_path / "set")
    save_checkpoint(tiny_model, tmp_path / "net.safetensors", name="tiny", version="1")
    arguments = [str(tmp_path / "net.safetensors"), str(tmp_path / "set"), "-o", str(tmp_path / "out")]
    printed = run(*arguments, "--frames", "2")
    assert "log-log slope" in printed
    assert "r within frames" in printed
    content = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert list(content["probes"]) == list(PROBES)
    assert (content["weights_name"], content["frames_per_clip"]) == ("tiny", 2)
    assert not [name for name, probe in content["probes"].items() if "not_measured" in probe]
    for name in PROBES:
        assert (tmp_path / "out" / f"{name}.svg").read_text().startswith("<?xml")
        assert (tmp_path / "out" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(InputError, match="has an analysis already"):
        run(*arguments)
    printed = run(*arguments, "--overwrite", "--probes", "invertibility")
    assert "nearest eigenvalue to -2" in printed
    assert list(json.loads((tmp_path / "out" / "analysis.json").read_text())["probes"]) == ["invertibility"]


def test_mistakes_are_named_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no probe is called 'colour'"):
        run("libranet", str(tmp_path), "-o", str(tmp_path / "out"), "--probes", "colour")
    with pytest.raises(InputError, match="no dataset at"):
        run("libranet", str(tmp_path / "none"), "-o", str(tmp_path / "out"), "--probes", "heatmap")
    assert not (tmp_path / "out").exists()
