import contextlib
import sys

import pytest

from libranet.training import start
from libranet.training.loop import Outcome
from libranet.training.start import main
from libranet.training.state import Progress


def test_a_mistake_is_one_sentence(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "wrong.toml"
    recipe.write_text("stepz = 5\n[photos]\n")
    monkeypatch.setattr(sys, "argv", ["start", str(recipe), "-o", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "unknown setting 'stepz'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_stopped_run_is_no_success_for_scripts(monkeypatch: pytest.MonkeyPatch, interrupted: bool) -> None:
    monkeypatch.setattr(start, "train", lambda *_, **__: Outcome(Progress(step=3, end=9), interrupted, 1.0))
    monkeypatch.setattr(sys, "argv", ["start", "recipe.toml", "-o", "run"])
    with pytest.raises(SystemExit) if interrupted else contextlib.nullcontext() as end:
        main()
    assert not interrupted or end.value.code == 130
