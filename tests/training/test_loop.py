import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

from clear_images import haze_config, small_source
from libranet.engine import Dehazer
from libranet.errors import CheckpointError, InputError
from libranet.metrics import psnr
from libranet.network import load_model, read_checkpoint_info
from libranet.training.config import (
    IntervalConfig,
    LossConfig,
    OptimiserConfig,
    PhotoSourceConfig,
    TrainConfig,
    ValidationConfig,
)
from libranet.training.dataloader import Batch
from libranet.training.distributed import Shard, average_gradients
from libranet.training.loop import run_training
from libranet.training.trainer import Trainer, TrainingStoppedError
from libranet.training.training_heads import fold_heads
from libranet.training.validation import load_pairs
from tiny_network import TINY, make_config, perturb

CONFIG = TrainConfig(
    steps=20,
    batch=4,
    precision="fp32",
    every=IntervalConfig(log=5, checkpoint=100),
    model=make_config(TINY, drop_path=0.2, dropout=0.2),  # random parts, so that the RNG state matters
    loss=LossConfig(perceptual="none"),
    photos=PhotoSourceConfig(),
)


def trainer(config: TrainConfig = CONFIG) -> Trainer:
    return Trainer(config, steps=config.steps, device=torch.device("cpu"))


def run(folder: Path, *, config: TrainConfig = CONFIG, source=None, **options):
    job = trainer(config)
    outcome = run_training(job, source or small_source(), folder=folder, pairs=[], **options)
    return job, outcome


def weights(job: Trainer) -> dict[str, torch.Tensor]:
    return job.model.state_dict() | {f"ema.{k}": v for k, v in job.ema.model.state_dict().items()}


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_ten_steps_resume_ten_steps_equals_twenty_bit_for_bit(tmp_path, kind):
    config = dataclasses.replace(CONFIG, optimiser=OptimiserConfig(kind=kind))
    straight, _ = run(tmp_path / "a", config=config)
    run(tmp_path / "b", until=10, config=config)
    torch.manual_seed(999)  # whatever happened to the process in between
    resumed, outcome = run(tmp_path / "b", resume=True, config=config)
    assert outcome.progress.step == 20
    for name, tensor in weights(straight).items():
        assert torch.equal(tensor, weights(resumed)[name]), name
    a, b = (safetensors.torch.load_file(tmp_path / run / "state.safetensors") for run in "ab")
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_training_learns_and_leaves_a_checkpoint(tmp_path):
    config = dataclasses.replace(CONFIG, steps=40, model=TINY)
    config = dataclasses.replace(config, optimiser=dataclasses.replace(config.optimiser, lr=3e-3))
    job, _ = run(tmp_path, config=config)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    losses = [line["pixel"] for line in lines if line["group"] == "train"]
    assert losses[-1] < losses[0]
    assert {"lie_identity", "lie_spatial", "lie_temporal", "lie_guide", "psnr", "samples_per_second"} <= lines[0].keys()
    model = load_model(tmp_path / "model.safetensors")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, fold_heads(job.ema.model).state_dict()[name])
    provenance = read_checkpoint_info(tmp_path / "model.safetensors").provenance
    assert "WITHOUT a perceptual term" in provenance["warning"]
    assert provenance["recipe"]["loss"]["perceptual"] == "none"


class Poisoned:
    """A source whose batches are NaN at some steps."""

    def __init__(self, bad: set[int]) -> None:
        self.inner, self.bad = small_source(), bad

    def batch(self, step: int, shard: Shard) -> Batch:
        batch = self.inner.batch(step, shard)
        return Batch(batch.hazy * float("nan"), batch.clear) if step in self.bad else batch


def test_a_loss_that_is_not_finite_is_skipped_and_counted(tmp_path):
    job, outcome = run(tmp_path, source=Poisoned({3, 4, 9}))
    assert outcome.progress.bad_steps == 3
    assert outcome.progress.step == 20
    assert all(torch.isfinite(tensor).all() for tensor in weights(job).values())


def test_a_loss_that_stays_not_finite_stops_the_run(tmp_path):
    config = dataclasses.replace(CONFIG, optimiser=OptimiserConfig(max_bad_steps=4))
    with pytest.raises(TrainingStoppedError, match=r"not finite in 4 steps in a row \(step 6\): lower optimiser\.lr"):
        run(tmp_path, config=config, source=Poisoned(set(range(2, 20))))


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_signals_leave_a_whole_state(tmp_path, number):
    source, inner = small_source(), small_source()

    def batch(step: int, shard: Shard) -> Batch:
        if step == 6:
            os.kill(os.getpid(), number)
        return inner.batch(step, shard)

    source.batch = batch
    _, outcome = run(tmp_path / "a", source=source)
    assert outcome.interrupted
    assert outcome.progress.step == 7
    resumed, _ = run(tmp_path / "a", resume=True)
    straight, _ = run(tmp_path / "b")
    assert all(torch.equal(t, weights(resumed)[n]) for n, t in weights(straight).items())


def test_a_run_of_another_version_is_refused(tmp_path):
    run(tmp_path, until=2)
    path = tmp_path / "state.safetensors"
    with safetensors.safe_open(path, framework="pt") as file:
        header = file.metadata()
    safetensors.torch.save_file(safetensors.torch.load_file(path), path, header | {"format_version": "1"})
    with pytest.raises(CheckpointError, match=r"another version of libranet"):
        run(tmp_path, resume=True)


def test_validation_keeps_the_best_and_what_it_measures_is_what_ships(tmp_path, caplog):
    for name, offset in (("hazy", 60), ("clear", 0)):
        (tmp_path / name).mkdir()
        for number in range(2):
            image = np.random.default_rng(number).integers(0, 190, (40, 56, 3), np.uint8) + np.uint8(offset)
            cv2.imwrite(str(tmp_path / name / f"{number}.png"), image)
    pairs = load_pairs(ValidationConfig(hazy=(str(tmp_path / "hazy"),), clear=(str(tmp_path / "clear"),)))
    config = dataclasses.replace(
        CONFIG, steps=4, every=IntervalConfig(validation=2), optimiser=OptimiserConfig(pivot=0.8)
    )
    with caplog.at_level(logging.INFO):
        run_training(trainer(config), small_source(), folder=tmp_path / "run", pairs=pairs)
    assert [text.split(":")[0] for text in caplog.messages if text.startswith("validation")] == [
        "validation at step 2",
        "validation at step 4",
    ]
    assert len(list((tmp_path / "run" / "images").iterdir())) == 4
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    (last,) = (line for line in lines if line["group"] == "validation" and line["step"] == 4)
    shipped = Dehazer(load_model(tmp_path / "run" / "model.safetensors"), device="cpu")  # without dense fog
    assert (tmp_path / "run" / "best.safetensors").is_file()
    scores = [psnr(shipped.image(pair.hazy).float() / 255, pair.clear.float() / 255) for pair in pairs[0]]
    assert last["psnr"] == pytest.approx(np.mean(scores), abs=1e-4)


def test_folders_are_not_mixed_up(tmp_path):
    with pytest.raises(InputError, match="nothing to resume"):
        run(tmp_path, resume=True)
    run(tmp_path, until=2)
    with pytest.raises(InputError, match="already holds a run: add resume=True"):
        run(tmp_path, until=4)
    with pytest.raises(CheckpointError, match=r"other settings \(batch\)"):
        run(tmp_path, config=dataclasses.replace(CONFIG, batch=2), resume=True)
    state = tmp_path / "state.safetensors"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="damaged"):
        run(tmp_path, resume=True)


GLOO_WORKER = """
import sys, torch, dataclasses
sys.path[:0] = {paths!r}
from test_loop import CONFIG, TINY, perturb
from clear_images import haze_config, small_source
from libranet.training.distributed import join_processes, leave_processes, average_gradients
from libranet.training.trainer import Trainer
device = torch.device("cpu")
shard = join_processes(device)
config = dataclasses.replace(CONFIG, model=TINY)
job = Trainer(config, steps=20, device=device, shard=shard)
perturb(job.model).train()
batch = small_source(haze=haze_config(camera={{"noise_std": 0.0}})).batch(0, shard)
job.objective(job.model.predict(batch.hazy), batch.clear).total.backward()
average_gradients(job.model, shard)
if shard.rank == 0:
    torch.save({{n: p.grad for n, p in job.model.named_parameters()}}, {out!r})
leave_processes()
"""


def test_two_gloo_processes_give_the_gradients_of_one(tmp_path):
    out = tmp_path / "gradients.pt"
    script = tmp_path / "worker.py"
    here = Path(__file__).parent
    script.write_text(GLOO_WORKER.format(paths=[str(here), str(here.parent)], out=str(out)))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    joined = torch.load(out, weights_only=True)

    job = trainer(dataclasses.replace(CONFIG, model=TINY))
    perturb(job.model).train()  # or no gradient would come through the heads' norms
    batch = small_source(haze=haze_config(camera={"noise_std": 0.0})).batch(0, Shard())
    job.objective(job.model.predict(batch.hazy), batch.clear).total.backward()
    average_gradients(job.model, Shard())
    for name, parameter in job.model.named_parameters():
        torch.testing.assert_close(joined[name], parameter.grad, rtol=1e-4, atol=1e-7)


def test_a_batch_must_split_evenly():
    with pytest.raises(InputError, match="3 processes can share evenly, got a batch of 4"):
        Trainer(CONFIG, steps=1, device=torch.device("cpu"), shard=Shard(0, 3))


def test_signal_handlers_are_put_back(tmp_path):
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    run(tmp_path, until=1)
    assert signal.getsignal(signal.SIGTERM) == before
