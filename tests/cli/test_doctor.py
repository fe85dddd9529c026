"""`libranet doctor` tells the truth about this machine."""

import json
from pathlib import Path

import torch
from typer.testing import CliRunner

import libranet
from libranet.cli.doctor import diagnose
from libranet.cli.main import build_app
from libranet.kernels.native import library
from libranet.network import LiBrANet, packaged_weights, read_checkpoint_info, save_checkpoint
from tiny_network import make_config


def test_names_the_path_and_the_reason() -> None:
    result = CliRunner().invoke(build_app(), ["doctor", "--json"])
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts["torch"] == torch.__version__
    assert facts["libranet"] == libranet.__version__
    assert facts["weights_name"] == "libranet-base"
    assert facts["weights_version"] == read_checkpoint_info(packaged_weights()).version
    if not torch.cuda.is_available():
        assert facts["path"] == "plain"
        assert "needs an NVIDIA GPU" in facts["why"]


def test_names_the_kernels_that_the_packaged_weights_take(monkeypatch) -> None:
    monkeypatch.undo()  # tests take the plain network otherwise
    facts = diagnose()
    if torch.cuda.is_available():
        return
    assert facts["cpu_kernels"] == (library.level() or "none")
    assert (facts["path"] == "plain") == (facts["cpu_kernels"] == "none")


def test_without_the_library_it_says_so(monkeypatch) -> None:
    monkeypatch.setattr(
        "libranet.kernels.native.library.why_no_library", lambda: "built without a C compiler: install one"
    )
    facts = diagnose()
    if not torch.cuda.is_available():
        assert facts["path"] == "plain"
        assert facts["cpu-fp32"] == "not here: built without a C compiler: install one"


def test_table_shows_every_fact() -> None:
    result = CliRunner().invoke(build_app(), ["doctor"])
    assert result.exit_code == 0
    shown = "".join(result.stdout.split())
    for name, value in diagnose().items():
        assert name.replace("_", " ") in result.stdout
        assert "".join(value.split()) in shown  # extras in brackets, too


def test_reads_a_checkpoint(tmp_path: Path) -> None:
    config = make_config(encoder_widths=(8, 8, 8, 16), encoder_size=32, head_hidden=8, refiner_width=8, refiner=False)
    path = tmp_path / "net.safetensors"
    save_checkpoint(LiBrANet(config), path)
    result = CliRunner().invoke(build_app(), ["doctor", "--model", str(path), "--json"])
    facts = json.loads(result.stdout)
    assert facts["path"] == "plain"
    assert (facts["weights"], facts["weights_name"], facts["weights_version"]) == (str(path), "net", "unversioned")
