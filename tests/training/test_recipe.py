"""Recipes: tables become dataclasses, a recipe may extend another, old names still work, mistakes are named."""

import dataclasses
import logging
from pathlib import Path

import pytest

from libranet.errors import InputError
from libranet.training.config import HazeConfig, TrainConfig
from libranet.training.recipe import OLD_KEYS, REMOVED_KEYS, load_recipe, rename_old_keys

ROOT = Path(__file__).parents[2]
SHIPPED = sorted([*(ROOT / "recipes").rglob("*.toml"), *(ROOT / "research").rglob("*.toml")])


def write(tmp_path, text: str, name: str = "recipe.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_tables_become_dataclasses(tmp_path):
    config = load_recipe(
        write(
            tmp_path,
            "steps = 5\ncrops = [[64, 96]]\n[model]\nwindow = 3\n[loss.lie]\ntemporal = 0\n[photos]\nscenes = 2\n",
        )
    )
    assert isinstance(config, TrainConfig)
    assert config.crops == ((64, 96),)
    assert config.model.window == 3
    assert config.loss.lie.temporal == 0.0
    assert config.photos.scenes == 2


def test_overrides_reach_nested_settings(tmp_path):
    path = write(tmp_path, "[photos]\n")
    overrides = ["steps=7", "optimiser.lr=1e-3", "loss.perceptual=none", "photos.haze.density.beta=[1, 2]"]
    config = load_recipe(path, overrides)
    assert (config.steps, config.optimiser.lr, config.loss.perceptual) == (7, 1e-3, "none")
    assert config.photos.haze.density.beta == (1.0, 2.0)


BAD = {
    "stepz = 5\n[photos]\n": r"unknown setting 'stepz'",
    'steps = "five"\n[photos]\n': r"steps must be int, got 'five'",
    "[photos]\n[paired]\n": r"exactly one of \[photos\] and \[paired\]",
    "steps = 0\n[photos]\n": r"expected steps, or epochs over a paired dataset",
    "[photos]\n[model]\nwindow = 4\n": r"model: expected an odd window length",
    '[photos]\n[loss]\nperceptual = "resnet"\n': r"perceptual must be one of none, dinov2, vgg16, vgg19, got 'resnet'",
    "[photos]\n[photos.haze.density]\nbeta = [3, 1]\n": r"beta as \(low, high\)",
    "[photos]\n[photos.haze.sky]\nswap_probability = 2\n": r"swap_probability in \[0, 1\], got 2",
    "[photos]\n[photos.haze.airlight]\ntint_std = -1\n": r"tint_std of at least 0, got -1",
    "[photos]\n[photos.haze]\ndensity = 3\n": r"density must be a table, got 3",
    "batch = 3\n[photos]\n[loss]\nconsistency_weight = 1.0\n": r"even batch with loss.consistency_weight, got batch=3",
    "[photos]\n[photos.haze]\ntilt = 8.0\n": r"photos.haze.tilt was removed",
    "[photos\n": "is not valid TOML",
    'extends = "nowhere.toml"\n': r"no recipe at .*nowhere.toml, which .*recipe.toml extends",
    "extends = 3\n": r"extends must be the path of a recipe, got 3",
    'extends = "recipe.toml"\n': r"recipe.toml extends itself: .*recipe.toml -> .*recipe.toml",
}


@pytest.mark.parametrize("text", BAD)
def test_mistakes_are_named(tmp_path, text):
    with pytest.raises(InputError, match=BAD[text]):
        load_recipe(write(tmp_path, text))


def test_bad_overrides_and_paths_are_named(tmp_path):
    with pytest.raises(InputError, match="no recipe at"):
        load_recipe(tmp_path / "nowhere.toml")
    with pytest.raises(InputError, match="expected --set key=value, got 'steps'"):
        load_recipe(write(tmp_path, "[photos]\n"), ["steps"])


def test_a_recipe_takes_over_what_it_does_not_change(tmp_path):
    (tmp_path / "inner").mkdir()
    write(tmp_path, "steps = 5\nseed = 1\n[photos]\nlines = 90\n[photos.haze.density]\nbeta = [1, 2]\n", "base.toml")
    write(tmp_path, 'extends = "../base.toml"\nseed = 2\n[photos.haze.density]\nnear = [0, 1]\n', "inner/middle.toml")
    last = write(tmp_path, 'extends = "middle.toml"\n[photos]\nlines = 72\n', "inner/last.toml")
    config = load_recipe(last, ["steps=9"])
    assert (config.steps, config.seed, config.photos.lines) == (9, 2, 72)
    assert (config.photos.haze.density.beta, config.photos.haze.density.near) == ((1, 2), (0, 1))


def test_old_names_still_work_and_a_note_names_the_new_ones(tmp_path, caplog):
    base = write(tmp_path, "[photos.haze.regimes]\nprobability = 0.2\n[photos.haze.density]\nnear = [0, 1]\n", "b.toml")
    text = f'extends = "{base.name}"\n[loss]\nsteady_weight = 2.0\n[photos.haze]\neven = 0.4\nregimes = 0.6\ntilt = 0\n'
    with caplog.at_level(logging.WARNING):
        config = load_recipe(write(tmp_path, text), ["photos.haze.airlight=[0.7, 0.8]"])
    haze = config.photos.haze
    assert (haze.density.uniform_probability, haze.regimes.probability, haze.density.near) == (0.4, 0.6, (0, 1))
    assert haze.airlight.brightness == (0.7, 0.8)
    assert config.loss.consistency_weight == 2.0
    assert len(caplog.messages) == 2  # one for the recipe, one for the override
    assert "photos.haze.even is now photos.haze.density.uniform_probability" in caplog.messages[0]
    assert "photos.haze.tilt is gone" in caplog.messages[0]


def test_every_old_name_has_a_setting_and_groups_stay_small():
    groups = {f.name: f.default_factory() for f in dataclasses.fields(HazeConfig)}
    settings = {f"photos.haze.{name}.{f.name}" for name, group in groups.items() for f in dataclasses.fields(group)}
    assert {new for new in OLD_KEYS.values() if "haze" in new} <= settings
    assert not OLD_KEYS.keys() & REMOVED_KEYS.keys()
    assert all(len(dataclasses.fields(group)) <= 10 for group in groups.values())
    assert rename_old_keys({"photos": {"haze": {"airlight": {"tint_std": 0.1}}, "lines": 9}, "loss": {}}) == (
        {"photos": {"haze": {"airlight": {"tint_std": 0.1}}, "lines": 9}, "loss": {}},
        [],
    )


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_recipes_are_valid_and_have_no_old_names(path, caplog):
    with caplog.at_level(logging.WARNING):
        config = load_recipe(path)
    assert config.name == path.stem
    assert caplog.messages == []
