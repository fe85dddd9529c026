"""A teacher's output is mixed into the truth, and libranet-small keeps within its budget."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from libranet.errors import InputError
from libranet.network import LiBrANet, packaged_weights, save_checkpoint
from libranet.network.config import SMALL
from libranet.network.cost import measure_cost
from libranet.runtime import load_network
from libranet.runtime.gpu.support import why_not_network
from libranet.training.config import LossConfig, PhotoSourceConfig, TeacherConfig, TrainConfig
from libranet.training.dataloader import Batch
from libranet.training.recipe import load_recipe
from libranet.training.trainer import Trainer
from tiny_network import TINY, make_config

RECIPE = Path(__file__).parents[2] / "recipes" / "libranet-small.toml"


def test_small_keeps_within_its_budget_and_has_fused_kernels():
    cost = measure_cost(SMALL)
    assert cost.parameters * 2 <= 2.5e6
    assert cost.gflops <= 60
    assert why_not_network(SMALL) is None


@pytest.mark.parametrize("stage", ["1-stills", "2-finish"])
def test_the_stages_train_small_and_may_have_a_teacher(stage: str):
    config = load_recipe(RECIPE.with_name(f"libranet-small-{stage}.toml"), ["teacher.checkpoint=base"])
    free = {"drop_path": 0.0, "dropout": 0.0, "encoder_size": SMALL.encoder.size}
    assert make_config(config.model, **free) == make_config(SMALL, **free)
    assert config.teacher.checkpoint == "base"


def test_the_weights_in_the_package_are_smalls():
    assert packaged_weights("small").stat().st_size <= 2.6e6
    network = load_network("small", device="cpu")
    assert isinstance(network, LiBrANet)
    assert network.config == replace(SMALL, dense_fog=True)
    assert network.weights.name == "libranet-small"


def test_the_truth_is_mixed_with_the_teachers_output(tiny_model, tmp_path):
    save_checkpoint(tiny_model, tmp_path / "teacher.safetensors")
    config = TrainConfig(
        steps=4,
        precision="fp32",
        model=TINY,
        loss=LossConfig(perceptual="none"),
        photos=PhotoSourceConfig(),
        teacher=TeacherConfig(str(tmp_path / "teacher.safetensors"), share=0.25),
    )
    trainer = Trainer(config, steps=4, device=torch.device("cpu"))
    hazy = torch.rand(2, 5, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    batch = Batch(hazy, hazy[:, 2] ** 2)
    taught = trainer._taught(batch)
    with torch.no_grad():
        expected = 0.75 * batch.clear + 0.25 * tiny_model.predict(hazy).image
    assert torch.allclose(taught.clear, expected, atol=1e-5)
    assert torch.equal(taught.hazy, hazy)
    before = [p.clone() for p in trainer.teacher.parameters()]
    trainer.step(batch)
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.teacher.parameters(), strict=True))


def test_a_share_beyond_one_is_refused():
    with pytest.raises(InputError, match=r"share from 0 to 1, got 1\.5"):
        TeacherConfig(share=1.5)


def test_base_is_a_name_of_the_packaged_network():
    if not packaged_weights().is_file():
        pytest.skip("no weights in this checkout")
    network = load_network("base", device="cpu")
    assert isinstance(network, LiBrANet)
    assert network.weights.name == "libranet-base"
