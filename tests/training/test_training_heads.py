"""Heads as they are trained: units that stay alive, a grey level as the origin, and an ordinary checkpoint."""

import copy

import pytest
import torch

from libranet.errors import InputError
from libranet.network import LiBrANet, load_model
from libranet.network.layers import GridHead
from libranet.network.liveness import LIVE_ABOVE
from libranet.training.config import LossConfig, OptimiserConfig, PhotoSourceConfig, TrainConfig
from libranet.training.dataloader import Batch
from libranet.training.trainer import Trainer
from libranet.training.training_heads import TrainingHead, UnitNorm, fold_heads, prepare_heads, preserve_heads
from tiny_network import TINY, make_config, perturb


def test_centring_changes_nothing_that_the_network_computes(tiny_model: LiBrANet) -> None:
    frames = torch.rand(1, 5, 3, 32, 40)
    centred = copy.deepcopy(tiny_model)
    prepare_heads(centred, 0.8)
    plain = fold_heads(centred)
    assert isinstance(centred.chromatic.head, TrainingHead)
    assert not any(isinstance(module, TrainingHead) for module in plain.modules())
    assert not torch.equal(centred.chromatic.head.project.weight, tiny_model.chromatic.head.project.weight)
    for model in (centred, plain):
        assert torch.allclose(model(frames), tiny_model(frames), atol=1e-5)


def test_a_matrix_alone_leaves_the_pivot_where_it_is() -> None:
    model = LiBrANet(TINY).eval()
    prepare_heads(model, 0.8)
    with torch.no_grad():
        bias = model.chromatic.head.project.bias.view(2, 12, -1)
        bias[:, [0, 4, 8]] = 0.1  # more contrast
    grids = model.predict_grids(torch.rand(1, 5, 3, 32, 32)).chromatic[0, 0, :, 0, 0, 0]
    moved = grids[:9].view(3, 3) @ torch.full((3,), 0.8) + grids[9:]
    assert float(grids[0].detach()) == pytest.approx(0.1)
    assert torch.allclose(moved, torch.zeros(3), atol=1e-6)


@pytest.mark.parametrize("missing", ["chromatic_field", "temporal_field"])
def test_variants_without_a_field(missing: str) -> None:
    model = perturb(LiBrANet(make_config(TINY, **{missing: False})).eval())
    frames = torch.rand(1, 5, 3, 32, 40)
    centred = copy.deepcopy(model)
    prepare_heads(centred, 0.7)
    assert torch.allclose(centred(frames), model(frames), atol=1e-5)


def test_heads_can_be_trained_as_the_paper_writes_them() -> None:
    config = TrainConfig(
        batch=2, precision="fp32", model=TINY, photos=PhotoSourceConfig(), loss=LossConfig(perceptual="none"),
        optimiser=OptimiserConfig(head_norm=False, ema=0.0),
    )  # fmt: skip
    trainer = Trainer(config, steps=10, device=torch.device("cpu"))
    frames = torch.rand(2, 5, 3, 32, 32)
    trainer.step(Batch(frames, frames[:, 2] * 0.5))
    assert not any(isinstance(module, UnitNorm) for module in trainer.model.modules())
    saved, trained = fold_heads(trainer.ema.model).state_dict(), trainer.model.state_dict()
    assert saved.keys() == trained.keys(), "there is nothing to fold"
    with pytest.raises(InputError, match=r"pivot = 0"):
        OptimiserConfig(head_norm=False, pivot=0.8)


def test_a_run_with_a_pivot_leaves_an_ordinary_checkpoint(tmp_path) -> None:
    config = TrainConfig(
        batch=2, precision="fp32", model=TINY, photos=PhotoSourceConfig(), loss=LossConfig(perceptual="none"),
        optimiser=OptimiserConfig(lr=1e-3, pivot=0.8, ema=0.0),
    )  # fmt: skip
    trainer = Trainer(config, steps=10, device=torch.device("cpu"))
    frames = torch.rand(2, 5, 3, 32, 32)
    for _ in range(2):
        trainer.step(Batch(frames, frames[:, 2] * 0.5))
    trainer.save(tmp_path, {})
    loaded, averaged = load_model(tmp_path / "model.safetensors"), trainer.ema.model.eval()
    assert averaged.temporal.head.norm.mean.abs().max() > 0
    assert (averaged(frames) - frames[:, 2]).abs().max() > 1e-4
    assert torch.allclose(loaded(frames), averaged(frames), atol=1e-5)


class ConstantFeatures(torch.nn.Module):
    """Features as a trained encoder gives them: to the head they are mostly a constant."""

    def forward(self, n: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(n)
        return 10 + 0.5 * torch.randn(n, 8, 4, 4, generator=generator)


@pytest.mark.parametrize("trained", [False, True])
def test_units_stay_alive_over_features_that_are_mostly_constant(trained: bool) -> None:
    torch.manual_seed(0)
    head = GridHead(8, 16, 12, 0.0)
    torch.nn.init.normal_(head.project.weight, std=0.05)
    if trained:
        head = TrainingHead(head, bins=1, pivot=0.0)
    features = ConstantFeatures()
    optimiser = torch.optim.Adam(head.parameters(), lr=1e-2)
    for step in range(60):  # the target pushes all units one way, as the first steps of a run do
        optimiser.zero_grad()
        (head(features(4 + step % 3)) + 1).square().mean().backward()
        optimiser.step()
    plain = head.eval().fold() if trained else head
    highest = plain.expand(features(32)).amax(dim=(0, 2, 3))
    live = float((highest > LIVE_ABOVE).float().mean())
    assert (live == 1.0) if trained else (live < 0.7)


def test_a_run_from_a_checkpoint_begins_where_the_checkpoint_is(tiny_model: LiBrANet) -> None:
    frames = torch.rand(8, 5, 3, 32, 40, generator=torch.Generator().manual_seed(1))
    model = copy.deepcopy(tiny_model)
    prepare_heads(model, 0.8)
    preserve_heads(model, frames, still=False)
    assert torch.allclose(model.eval()(frames), tiny_model(frames), atol=1e-5)
    in_training = model.train().predict(frames).image
    assert torch.allclose(in_training, tiny_model(frames), atol=1e-3)


def test_a_batch_that_is_not_finite_leaves_the_statistics() -> None:
    norm = UnitNorm(3)
    norm(torch.randn(4, 3, 2, 2))
    before = norm.mean.clone(), norm.variance.clone()
    norm(torch.full((4, 3, 2, 2), torch.nan))
    assert torch.equal(before[0], norm.mean)
    assert torch.equal(before[1], norm.variance)
