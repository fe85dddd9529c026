"""`libranet ablate` from the command line."""

from pathlib import Path

from typer.testing import CliRunner

from libranet.cli.main import build_app

ROOT = Path(__file__).parents[3]


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where no weights are
    tiny = [
        "precision=fp32",
        "batch=2",
        "crops=[[32, 32]]",
        "photos.folders=[]",
        "photos.scenes=1",
        "model.encoder.size=32",
    ]
    arguments = ["ablate", str(ROOT / "recipes" / "ablations"), "-o", str(tmp_path / "out"), "--dry-run"]
    arguments += ["--device", "cpu", "--set", "loss.perceptual=none", *(part for s in tiny for part in ("--set", s))]
    result = CliRunner().invoke(build_app(), arguments)
    assert result.exit_code == 0, result.output
    for words in ("no-cayley: model.parts.cayley = False", "the same as full here", "24 runs with 3 seeds", "s a step"):
        assert words in result.output
    said = " ".join(result.output.split())
    assert "1 images of 1 rendered scenes; haze on the fly: 100% regimes" in said
    assert "9 clips of 5 frames at 1920x1080, rendered from the scenes 900000 on, which no training takes" in said
    assert not (tmp_path / "out").exists()


def test_missing_photos_have_a_way_forward(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where no data is
    arguments = ["ablate", str(ROOT / "recipes" / "ablations"), "-o", str(tmp_path / "out"), "--dry-run"]
    result = CliRunner().invoke(build_app(), [*arguments, "--device", "cpu", "--set", "loss.perceptual=none"])
    assert result.exit_code != 0
    assert "photos.scenes=40" in result.exception.sentence
