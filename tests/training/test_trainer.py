"""The schedule, and on a GPU the recorded training step against the plain one."""

import dataclasses
import itertools
from pathlib import Path

import pytest
import torch

from libranet.training.config import LossConfig, OptimiserConfig, PhotoSourceConfig, TrainConfig
from libranet.training.dataloader import Batch
from libranet.training.trainer import Trainer, learning_rate
from tiny_network import make_config

CONFIG = TrainConfig(
    precision="fp32",
    model=make_config(drop_path=0.0, dropout=0.0),
    loss=LossConfig(perceptual="none"),
    photos=PhotoSourceConfig(),
)


def trainer(*, fused: bool = True) -> Trainer:
    return Trainer(dataclasses.replace(CONFIG, fused=fused), steps=100, device=torch.device("cuda"))


def batch(seed: int, height: int, width: int) -> Batch:
    generator = torch.Generator("cuda").manual_seed(seed)
    frames = torch.rand(2, 5, 3, height, width, generator=generator, device="cuda")
    return Batch(frames, frames[:, 2] ** 2)


def test_the_schedule_warms_up_and_falls_as_a_cosine() -> None:
    config = OptimiserConfig(lr=1.0, warmup=0.1)
    rates = [learning_rate(step, 100, config) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == rates[10] == pytest.approx(1.0)
    assert all(a >= b for a, b in itertools.pairwise(rates[10:]))
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)
    assert rates[55] == pytest.approx(0.5, abs=0.02)


@pytest.mark.gpu
@pytest.mark.usefixtures("exact_convolutions")
def test_losses_follow_the_plain_step() -> None:
    jobs = [trainer(fused=fused) for fused in (True, False)]
    assert jobs[0].whole_step is not None
    for step in range(8):
        data = batch(step, *((64, 96), (80, 64))[step % 2])  # two shapes, so two recordings that take turns
        fused, plain = (float(job.step(data)[0].total.detach()) for job in jobs)
        assert fused == pytest.approx(plain, rel=2e-3), step


@pytest.mark.gpu
@pytest.mark.usefixtures("exact_convolutions")
def test_a_bad_step_changes_nothing() -> None:
    job = trainer()
    job.step(batch(0, 64, 64))
    before = [p.clone() for model in (job.model, job.ema.model) for p in model.parameters()]
    bad = batch(1, 64, 64)
    job.step(Batch(bad.hazy * float("nan"), bad.clear))
    after = [p for model in (job.model, job.ema.model) for p in model.parameters()]
    job.settle()
    assert job.progress.bad_steps == 1
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.gpu
@pytest.mark.usefixtures("exact_convolutions")
def test_resuming_goes_on_where_it_stopped(tmp_path: Path) -> None:
    job = trainer()
    job.step(batch(0, 64, 64))
    job.save(tmp_path, {})
    other = trainer()
    other.resume(tmp_path)
    losses = [[float(j.step(batch(s, 64, 64))[0].total.detach()) for s in (1, 2, 3)] for j in (job, other)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
