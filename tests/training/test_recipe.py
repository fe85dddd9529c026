import itertools
from pathlib import Path

import pytest

from libranet.errors import InputError
from libranet.training.config import OptimiserConfig, TrainConfig
from libranet.training.optimiser import learning_rate
from libranet.training.recipe import load_recipe

RECIPES = Path(__file__).parents[2] / "recipes"


def write(tmp_path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
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
    config = load_recipe(path, ["steps=7", "optimiser.lr=1e-3", "loss.perceptual=none", "photos.haze.beta=[1, 2]"])
    assert (config.steps, config.optimiser.lr, config.loss.perceptual) == (7, 1e-3, "none")
    assert config.photos.haze.beta == (1.0, 2.0)


BAD = {
    "stepz = 5\n[photos]\n": r"unknown setting 'stepz'",
    'steps = "five"\n[photos]\n': r"steps must be int, got 'five'",
    "[photos]\n[paired]\n": r"exactly one of \[photos\] and \[paired\]",
    "steps = 0\n[photos]\n": r"expected steps, or epochs over a paired set",
    "[photos]\n[model]\nwindow = 4\n": r"model: expected an odd window length",
    '[photos]\n[loss]\nperceptual = "resnet"\n': r"perceptual must be one of none, dinov2, vgg16, vgg19, got 'resnet'",
    "[photos]\n[photos.haze]\nbeta = [3, 1]\n": r"beta as \(low, high\)",
    "batch = 3\n[photos]\n[loss]\nsteady_weight = 1.0\n": r"an even batch with loss.steady_weight, got batch=3",
    "[photos\n": "is not valid TOML",
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


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_recipes_are_valid(path):
    config = load_recipe(path)
    assert config.name == path.stem


def test_the_schedule_warms_up_and_falls_as_a_cosine():
    config = OptimiserConfig(lr=1.0, warmup=0.1)
    rates = [learning_rate(step, 100, config) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == rates[10] == pytest.approx(1.0)
    assert all(a >= b for a, b in itertools.pairwise(rates[10:]))
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)
    assert rates[55] == pytest.approx(0.5, abs=0.02)
