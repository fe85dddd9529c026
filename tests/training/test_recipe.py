"""Recipes: tables become dataclasses, a recipe may extend another, mistakes are named."""

import dataclasses
from pathlib import Path

import pytest

from libranet.errors import InputError
from libranet.training.config import PairedSourceConfig, PhotoSourceConfig, TrainConfig
from libranet.training.recipe import load_recipe

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
    "stepz = 5\n[photos]\n": r"unknown setting 'stepz': did you mean 'steps'",
    "ema = 0.9\n[photos]\n": r"unknown setting 'ema': did you mean 'optimiser.ema'",
    "[photos]\n[photos.haze.density]\nclear_share = 1\n": r"density has unknown setting 'clear_share'.*'clear_prob",
    'steps = "five"\n[photos]\n': r"steps must be int, got 'five'",
    "[photos]\n[paired]\n": r"exactly one of \[photos\] and \[paired\]",
    "steps = 0\n[photos]\n": r"expected steps, or epochs over a paired dataset",
    "[photos]\n[model]\nwindow = 4\n": r"model: expected an odd window length",
    '[photos]\n[loss]\nperceptual = "resnet"\n': r"perceptual must be one of none, dinov2, vgg16, vgg19, got 'resnet'",
    "[photos]\n[photos.haze.density]\nbeta = [3, 1]\n": r"beta as \(low, high\)",
    "[photos]\n[photos.haze.sky]\nswap_probability = 2\n": r"swap_probability in \[0, 1\], got 2",
    "[photos]\n[photos.haze.varied]\ntint_std = -1\n": r"tint_std of at least 0, got -1",
    "[photos]\n[photos.haze]\ndensity = 3\n": r"density must be a table, got 3",
    "batch = 3\n[photos]\n[loss]\nconsistency_weight = 1.0\n": r"even batch with loss.consistency_weight, got batch=3",
    "[photos]\n[photos.haze.varied]\nshare = 0\n": r"haze: expected a kind of haze with a share above 0",
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
    with pytest.raises(InputError, match="expected set key=value, got 'steps'"):
        load_recipe(write(tmp_path, "[photos]\n"), ["steps"])


def test_a_recipe_takes_over_what_it_does_not_change(tmp_path):
    (tmp_path / "inner").mkdir()
    write(tmp_path, "steps = 5\nseed = 1\n[photos]\nlines = 90\n[photos.haze.density]\nbeta = [1, 2]\n", "base.toml")
    write(tmp_path, 'extends = "../base.toml"\nseed = 2\n[photos.haze.density]\nnear = [0, 1]\n', "inner/middle.toml")
    last = write(tmp_path, 'extends = "middle.toml"\n[photos]\nlines = 72\n', "inner/last.toml")
    config = load_recipe(last, ["steps=9"])
    assert (config.steps, config.seed, config.photos.lines) == (9, 2, 72)
    assert (config.photos.haze.density.beta, config.photos.haze.density.near) == ((1, 2), (0, 1))


def test_groups_stay_small():
    def check(cls: type) -> None:
        groups = [f.default_factory for f in dataclasses.fields(cls) if dataclasses.is_dataclass(f.default_factory)]
        settings = [f for f in dataclasses.fields(cls) if f.default not in (None, dataclasses.MISSING)]
        assert len(settings) <= 11, cls
        for group in groups:
            check(group)

    for cls in (TrainConfig, PhotoSourceConfig, PairedSourceConfig):
        check(cls)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_recipes_are_valid(path):
    assert load_recipe(path).name == path.stem
