"""The paper's hyper-parameters (its appendix table and eq. total_loss) against our defaults and the paper's recipes.

No other test looks at these numbers: a tenfold learning rate would pass all of them.
"""

import math
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from libranet.losses.objective import LossConfig, Objective
from libranet.losses.perceptual import DINOV2_HUB_ID, DinoV2Features
from libranet.network import LiBrANet
from libranet.network.libranet import Grids
from libranet.training.config import PhotoSourceConfig, TrainConfig
from libranet.training.dataloader import Batch
from libranet.training.recipe import load_recipe
from libranet.training.trainer import Trainer, build_optimiser, learning_rate
from tiny_network import TINY

RECIPES = Path(__file__).parents[2] / "recipes"
PAPER: dict[str, Any] = {
    "optimiser.kind": "adamw",
    "optimiser.lr": 1.5e-4,
    "optimiser.weight_decay": 1e-4,
    "optimiser.final_lr": 0.0,  # a whole cosine
    "optimiser.clip": 1.0,
    "batch": 16,
    "crops": ((512, 512),),
    "loss.charbonnier_epsilon": 1e-3,
    "loss.perceptual": "dinov2",
    "loss.perceptual_source": "",  # facebook/dinov2-small is ViT-S/14
    "loss.perceptual_crop": 0,  # the whole image
    "loss.perceptual_weight": 0.04,
    "loss.lie_weight": 0.2,
    "loss.lie.identity": 0.01,
    "loss.lie.spatial": 0.05,
    "loss.lie.temporal": 0.10,
    "loss.lie.guide": 0.02,
    "loss.colour_weight": 0.0,  # terms of our own
    "loss.field_weight": 0.0,
    "loss.consistency_weight": 0.0,
    "teacher.checkpoint": "",
    "model.window": 5,  # T
    "model.encoder.size": 256,  # S
    "model.encoder.widths": (24, 48, 96, 192),
    "model.fields.bins": 8,  # D
    "model.scale": 4,  # p
    "model.fields.attention_heads": 8,
    "model.parts.chromatic_field": True,
    "model.parts.temporal_field": True,
    "model.parts.refiner": True,
    "model.parts.cayley": True,
    "model.parts.adaptive_slicing": True,
}
EPOCHS = {"uhv4k": 200, "revide": 200, "hazeworld": 100}
WARMUP_EPOCHS = 5
PARAMETERS = 6.12e6


def setting(config: TrainConfig, name: str) -> Any:
    return reduce(getattr, name.split("."), config)


CONFIGS = {name: load_recipe(RECIPES / f"{name}.toml") for name in EPOCHS}
CONFIGS["defaults"] = TrainConfig(photos=PhotoSourceConfig())


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_settings_are_the_papers(config: TrainConfig) -> None:
    assert {name: setting(config, name) for name in PAPER} == PAPER
    assert sum(p.numel() for p in LiBrANet(config.model).parameters()) == pytest.approx(PARAMETERS, rel=0.01)


@pytest.mark.parametrize("name", EPOCHS)
def test_recipes_run_the_papers_epochs_in_half_precision(name: str) -> None:
    config = CONFIGS[name]
    assert (config.steps, config.epochs) == (0, EPOCHS[name])
    assert config.optimiser.warmup * config.epochs == pytest.approx(WARMUP_EPOCHS)
    assert config.precision == "fp16"
    assert config.paired is not None
    assert config.paired.layout == ("uhv4k" if name == "uhv4k" else "folders")


def test_the_open_sets_recipe_changes_only_length_and_size() -> None:
    config = load_recipe(RECIPES / "uhv4k-open.toml")
    free = {"optimiser.lr", "batch", "crops", "loss.perceptual_source"}
    assert {name: setting(config, name) for name in PAPER if name not in free} == {
        name: value for name, value in PAPER.items() if name not in free
    }
    assert config.optimiser.warmup == CONFIGS["uhv4k"].optimiser.warmup
    assert config.steps * config.batch == 20_000
    assert config.photos is not None
    # A crop shows as much of a frame as 512 of 2160 lines.
    zoom, lines = config.photos.haze.geometry.zoom, config.photos.lines
    assert zoom == pytest.approx((512 / 2160,) * 2, rel=0.01)
    assert config.crops[0][0] / lines == pytest.approx(512 / 2160)
    haze = config.photos.haze
    assert haze.shares == {name: float(name == "regimes") for name in haze.shares}
    assert (haze.regimes.jitter, haze.camera.noise_std, haze.geometry.prior_depth_probability) == (0, 0, 0)


def test_defaults_warm_up_as_long_as_the_longest_run() -> None:
    assert CONFIGS["defaults"].optimiser.warmup == pytest.approx(WARMUP_EPOCHS / max(EPOCHS.values()))


def test_the_schedule_is_linear_then_a_cosine_to_zero() -> None:
    config, an_epoch = CONFIGS["uhv4k"], 10
    steps, warm = EPOCHS["uhv4k"] * an_epoch, WARMUP_EPOCHS * an_epoch
    for step in (0, 17, warm - 1, warm, 700, 1500, steps - 1):
        cosine = 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - 1 - warm)))
        expected = 1.5e-4 * ((step + 1) / warm if step < warm else cosine)
        assert learning_rate(step, steps, config.optimiser) == pytest.approx(expected, abs=1e-12)


def test_adamw_decays_weights_and_gradients_are_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    optimiser = build_optimiser(LiBrANet(TINY), CONFIGS["uhv4k"].optimiser)
    assert type(optimiser) is torch.optim.AdamW
    assert [group["weight_decay"] for group in optimiser.param_groups] == [1e-4, 0.0]
    assert all((group["lr"], group["betas"]) == (1.5e-4, (0.9, 0.999)) for group in optimiser.param_groups)

    clips: list[float] = []
    clip = torch.nn.utils.clip_grad_norm_
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda p, norm: clips.append(norm) or clip(p, norm))
    config = TrainConfig(batch=1, precision="fp32", model=TINY, loss=LossConfig("none"), photos=PhotoSourceConfig())
    trainer = Trainer(config, steps=4, device=torch.device("cpu"))
    trainer.step(Batch(torch.rand(1, 5, 3, 32, 32), torch.rand(1, 3, 32, 32)))
    assert clips == [1.0]


def test_the_objective_is_the_papers_sum() -> None:
    generator = torch.Generator().manual_seed(0)

    def rand(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator)

    image, clear, chromatic, temporal = (
        rand(2, 3, 8, 9),
        rand(2, 3, 8, 9),
        rand(2, 2, 12, 8, 4, 5),
        rand(2, 12, 5, 4, 5),
    )
    objective = Objective(LossConfig(perceptual="none"), torch.device("cpu"))
    objective.perceptual = lambda a, b: (a - b).square().sum()  # type: ignore[assignment]
    total = objective(SimpleNamespace(image=image, small=None, grids=Grids(chromatic, temporal)), clear).total

    pixel = ((image - clear) ** 2 + 1e-6).sqrt().mean()
    identity = (chromatic[:, :, :9].square().mean() + temporal[:, :9].square().mean()) / 2
    spatial = sum(grid.diff(dim=dim).square().mean() for grid in (chromatic, temporal) for dim in (-1, -2)) / 2
    along_time, guide = temporal.diff(dim=2).square().mean(), (chromatic[:, 0] - chromatic[:, 1]).abs().mean()
    lie = 0.01 * identity + 0.05 * spatial + 0.10 * along_time + 0.02 * guide
    torch.testing.assert_close(total, 1.0 * pixel + 0.04 * (image - clear).square().sum() + 0.2 * lie)


def test_the_perceptual_term_is_dinov2_small() -> None:
    assert DINOV2_HUB_ID == "facebook/dinov2-small"
    assert DinoV2Features.PATCH == 14
