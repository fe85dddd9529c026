import sys

import pytest

from libranet.training.start import main


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
