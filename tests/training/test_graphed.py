"""The recorded training step against the plain one, on a GPU."""

import dataclasses
from pathlib import Path

import pytest
import torch

from libranet.models import LiBrANetConfig
from libranet.training.batches import Batch
from libranet.training.config import LossConfig, PhotoSourceConfig, TrainConfig
from libranet.training.loop import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.usefixtures("exact_convolutions"),
]

CONFIG = TrainConfig(
    precision="fp32",
    model=LiBrANetConfig(drop_path=0.0, dropout=0.0),
    loss=LossConfig(perceptual="none"),
    photos=PhotoSourceConfig(),
)


def trainer(*, fused: bool = True) -> Trainer:
    return Trainer(dataclasses.replace(CONFIG, fused=fused), steps=100, device=torch.device("cuda"))


def batch(seed: int, height: int, width: int) -> Batch:
    generator = torch.Generator("cuda").manual_seed(seed)
    frames = torch.rand(2, 5, 3, height, width, generator=generator, device="cuda")
    return Batch(frames, frames[:, 2] ** 2)


def test_losses_follow_the_plain_step() -> None:
    jobs = [trainer(fused=fused) for fused in (True, False)]
    assert jobs[0].gradients is not jobs[0]._compute_gradients
    for step in range(8):
        data = batch(step, *((64, 96), (80, 64))[step % 2])  # two shapes, so two recordings that take turns
        fused, plain = (float(job.step(data)[0].total.detach()) for job in jobs)
        assert fused == pytest.approx(plain, rel=2e-3), step


def test_a_bad_step_changes_nothing() -> None:
    job = trainer()
    job.step(batch(0, 64, 64))
    before = [p.clone() for model in (job.model, job.ema.model) for p in model.parameters()]
    bad = batch(1, 64, 64)
    job.step(Batch(bad.hazy * float("nan"), bad.clear))
    after = [p for model in (job.model, job.ema.model) for p in model.parameters()]
    assert job.progress.bad_steps == 1
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_resuming_goes_on_where_it_stopped(tmp_path: Path) -> None:
    job = trainer()
    job.step(batch(0, 64, 64))
    job.save(tmp_path, {})
    other = trainer()
    other.resume(tmp_path)
    losses = [[float(j.step(batch(s, 64, 64))[0].total.detach()) for s in (1, 2, 3)] for j in (job, other)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
