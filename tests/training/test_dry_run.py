"""`train --dry-run`, extending a run, and validation on clips that were held out of training."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from clear_images import small_source
from libranet.cli.main import build_app
from libranet.data import PairedClip
from libranet.data.frames import FrameFiles, write_png
from libranet.errors import CheckpointError, InputError
from libranet.network import LiBrANet
from libranet.training.config import LossConfig, PhotoSourceConfig, TrainConfig
from libranet.training.dry_run import plan_training
from libranet.training.loop import run_training
from libranet.training.start import train
from libranet.training.trainer import Trainer, learning_rate
from libranet.training.validation import HeldOutClip, hold_out, validate
from tiny_network import TINY

RECIPE = """
steps = 3
batch = 2
crops = [[32, 32]]
precision = "fp32"
[model]
encoder.size = 32
encoder.widths = [8, 8, 16, 16]
encoder.blocks = 1
fields.hidden = 16
refiner.width = 8
[loss]
perceptual = "none"
"""
PHOTOS = RECIPE + "[photos]\nscenes = 2\nlines = 48\n"
CONFIG = TrainConfig(
    steps=6, batch=4, precision="fp32", model=TINY, loss=LossConfig(perceptual="none"), photos=PhotoSourceConfig()
)


@pytest.fixture
def recipe(tmp_path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(PHOTOS)
    return path


def run(folder: Path, *, resume: bool = False, **changes) -> Trainer:
    config = dataclasses.replace(CONFIG, **changes)
    job = Trainer(config, steps=config.steps, device=torch.device("cpu"))
    run_training(job, small_source(), folder=folder, pairs=[], resume=resume)
    return job


def test_a_finished_run_is_extended_with_a_schedule_of_its_own(tmp_path, caplog):
    caplog.set_level("INFO")
    first = run(tmp_path)
    longer = run(tmp_path, resume=True, steps=16)
    assert (longer.progress.step, longer.progress.begin, longer.progress.end) == (16, 6, 16)
    assert "steps 6 to 16 have a warm-up and a cosine of their own" in caplog.text
    assert longer.optimiser.param_groups[0]["lr"] == pytest.approx(learning_rate(9, 10, CONFIG.optimiser))
    before, after = first.model.state_dict(), longer.model.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_an_extended_run_resumes_exactly(tmp_path):
    run(tmp_path / "a")
    straight = run(tmp_path / "a", resume=True, steps=12)
    run(tmp_path / "b")
    config = dataclasses.replace(CONFIG, steps=12)
    stopped = Trainer(config, steps=12, device=torch.device("cpu"))
    run_training(stopped, small_source(), folder=tmp_path / "b", pairs=[], resume=True, until=9)
    torch.manual_seed(4)
    resumed = run(tmp_path / "b", resume=True, steps=12)
    assert resumed.progress.begin == 6
    ours, theirs = straight.model.state_dict(), resumed.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_finished_run_says_so_and_cannot_shrink(tmp_path, caplog):
    caplog.set_level("INFO")
    run(tmp_path)
    written = (tmp_path / "state.safetensors").stat().st_mtime_ns
    run(tmp_path, resume=True)
    assert "is finished after 6 steps: to extend it" in caplog.text
    assert (tmp_path / "state.safetensors").stat().st_mtime_ns == written
    with pytest.raises(InputError, match="has done 6 steps already: expected more than that, got 5"):
        run(tmp_path, resume=True, steps=5)
    with pytest.raises(CheckpointError, match=r"other settings \(batch\)"):
        run(tmp_path, resume=True, steps=12, batch=2)


def test_a_dry_run_describes_the_run_and_writes_nothing(tmp_path, recipe):
    result = CliRunner().invoke(
        build_app(), ["train", str(recipe), "-o", str(tmp_path / "run"), "--dry-run", "--device", "cpu"]
    )
    assert result.exit_code == 0, result.output
    for words in ("2 images of 2 rendered scenes", "3 steps", "a new run", "perceptual term: none", "GB"):
        assert words in result.output
    assert not (tmp_path / "run").exists()


def test_a_dry_run_finds_what_would_stop_the_run(tmp_path, recipe):
    plan = plan_training(recipe, tmp_path / "run", device="cpu")
    assert plan.validation.startswith("none")
    for override, message in (
        ('photos.folders=["nowhere"]', "no photos at nowhere"),
        ("photos.scenes=0", "no clear images to train on"),
        ("init_from=none.safetensors", "none.safetensors"),
        ('loss.perceptual="vgg19"', "needs perceptual_source"),
        ("photos.lines=60000", "GB of memory, the run needs about"),
    ):
        with pytest.raises((InputError, CheckpointError), match=message):
            plan_training(recipe, tmp_path / "run", overrides=[override], device="cpu")
    with pytest.raises(InputError, match="nothing to resume"):
        plan_training(recipe, tmp_path / "run", resume=True, device="cpu")


def test_a_dry_run_knows_how_much_is_left(tmp_path, recipe):
    train(recipe, tmp_path / "run", device="cpu")
    with pytest.raises(InputError, match="already holds a run"):
        plan_training(recipe, tmp_path / "run", device="cpu")
    with pytest.raises(InputError, match="has done 3 steps already"):
        plan_training(recipe, tmp_path / "run", resume=True, device="cpu")
    plan = plan_training(recipe, tmp_path / "run", resume=True, overrides=["steps=10"], device="cpu")
    assert "7 steps" in plan.time
    assert "goes on at step 3" in plan.folder


def write_clips(folder: Path, names: list[str], frames: int = 3) -> None:
    rng = np.random.default_rng(0)
    for name in names:
        for side in ("hazy", "gt"):
            (folder / side / name).mkdir(parents=True)
            for index in range(frames):
                write_png(folder / side / name / f"{index}.png", rng.integers(0, 255, (40, 48, 3), np.uint8))


def test_held_out_clips_are_validated_on_and_not_trained_on(tmp_path):
    write_clips(tmp_path / "set", [f"clip{i}" for i in range(4)])
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        RECIPE
        + f'[paired]\npath = "{tmp_path}/set"\nlayout = "folders"\nworkers = 0\n'
        + "[validation]\nheld_out = 0.25\nframes = 2\n"
    )
    plan = plan_training(recipe, tmp_path / "run", device="cpu")
    assert "3 clips" in plan.data
    assert plan.validation == "1 held-out clips of 2 frames"
    train(recipe, tmp_path / "run", device="cpu")
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["group"] == "validation"] == [3]
    assert (tmp_path / "run" / "best.safetensors").is_file()
    with pytest.raises(CheckpointError, match=r"validation\.held_out"):
        train(recipe, tmp_path / "run", overrides=["validation.held_out=0.5", "steps=9"], resume=True, device="cpu")


def clip(name: str, truth: str) -> PairedClip:
    sides = (FrameFiles((Path(side) / "0.png",)) for side in (f"set/hazy/{name}", f"set/gt/{truth}"))
    return PairedClip(name, *sides)


def test_the_split_follows_names_and_keeps_versions_of_a_scene_together():
    clips = [clip(f"{scene}_{haze}", scene) for scene in "abcdefgh" for haze in ("thin", "dense")]
    train_part, held = hold_out(clips, 0.25)
    assert len(held) == 4
    assert {c.name[0] for c in held}.isdisjoint({c.name[0] for c in train_part})
    assert {c.name for c in hold_out(clips[::-1], 0.25)[1]} == {c.name for c in held}
    assert hold_out(clips, 0.0) == (clips, [])
    with pytest.raises(InputError, match="at least two scenes"):
        hold_out(clips[:2], 0.5)


def test_a_clip_is_validated_as_a_stream_over_its_middle(tmp_path):
    write_clips(tmp_path, ["c"], frames=7)
    files = [tuple(sorted((tmp_path / side / "c").iterdir())) for side in ("hazy", "gt")]
    held = HeldOutClip(PairedClip("c", *(FrameFiles(paths) for paths in files)), 3)
    shown = [hazy for hazy, _ in held.frames()]
    assert len(shown) == 3
    assert torch.equal(shown[0].permute(1, 2, 0), torch.from_numpy(held.clip.hazy.read(2)))
    score = validate(LiBrANet(TINY).eval(), [held])
    assert score.psnr == pytest.approx(score.hazy_psnr, abs=1e-3), "a fresh network is the identity"
    assert score.examples[0].shape == (3, 40, 144)


def test_photos_have_no_clips_to_hold_out(recipe):
    with pytest.raises(InputError, match="there is none"):
        plan_training(recipe, "runs/none", overrides=["validation.held_out=0.1"], device="cpu")
