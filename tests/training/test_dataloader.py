"""Batches: haze over clear images by seed and step alone, windows and pairs in motion, and paired datasets on disk."""

import multiprocessing
import os
import signal
from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch

from clear_images import NO_HAZE, bank_of, coloured_blocks, haze_config, small_source, source_over
from libranet.errors import InputError
from libranet.training.config import PairedSourceConfig
from libranet.training.dataloader import PairedSource, open_training_clips
from libranet.training.distributed import Shard
from libranet.training.image_bank import render_scenes

QUIET = haze_config(camera={"noise_std": 0.0})


def test_shapes_and_ranges():
    source = small_source()
    for step, size in ((0, (32, 32)), (1, (32, 48))):
        batch = source.batch(step, Shard())
        assert batch.hazy.shape == (4, 5, 3, *size)
        assert batch.clear.shape == (4, 3, *size)
        for tensor in (batch.hazy, batch.clear):
            assert tensor.min() >= 0
            assert tensor.max() <= 1


def test_a_step_always_gives_the_same_batch_and_steps_differ():
    first, again, other = (
        small_source().batch(3, Shard()),
        small_source().batch(3, Shard()),
        small_source().batch(5, Shard()),
    )
    assert torch.equal(first.hazy, again.hazy)
    assert torch.equal(first.clear, again.clear)
    assert not torch.equal(first.hazy, other.hazy)
    assert not torch.equal(first.hazy, small_source(seed=1).batch(3, Shard()).hazy)


def test_shards_of_two_processes_join_to_the_batch_of_one():
    # Sensor noise is each process's own.
    whole = small_source(haze=QUIET).batch(2, Shard())
    parts = [small_source(haze=QUIET).batch(2, Shard(rank, 2)) for rank in range(2)]
    assert torch.equal(torch.cat([part.hazy for part in parts]), whole.hazy)
    assert torch.equal(torch.cat([part.clear for part in parts]), whole.clear)


def test_without_haze_the_centre_frame_is_the_clear_one():
    batch = small_source(haze=NO_HAZE).batch(0, Shard())
    assert (batch.hazy[:, 2] - batch.clear).abs().max() <= 0.5 / 255 + 1e-6


def test_motion_moves_the_frames_and_stillness_keeps_them():
    moving, mixed = (
        small_source(haze=haze_config(QUIET, geometry={"still_probability": still, "motion": 0.05}), batch=16)
        .batch(0, Shard())
        .hazy
        for still in (0.0, 0.5)
    )
    assert (moving[:, 0] - moving[:, 4]).abs().mean() > 0.01
    stays = (mixed[:, 0] == mixed[:, 4]).flatten(1).all(1)
    assert 2 < int(stays.sum()) < 14


def test_still_windows_hold_their_frame_once():
    batch = small_source(haze=haze_config(geometry={"still_probability": 1.0})).batch(0, Shard())
    assert batch.still
    assert batch.hazy.shape[1] == 1


@pytest.mark.parametrize(("still", "frames"), [(0.0, 6), (1.0, 2)])
def test_consecutive_windows_share_their_frames(still: float, frames: int):
    haze = haze_config(NO_HAZE, geometry={"still_probability": still, "motion": 0.05})
    batch = small_source(haze=haze, batch=4, outputs=2).batch(0, Shard())
    assert batch.hazy.shape[:2] == (2, frames)
    centres = batch.hazy[:, (frames - 2) // 2 :][:, :2].flatten(0, 1)
    torch.testing.assert_close(batch.clear, centres, atol=0.51 / 255, rtol=0)
    for first in (0, 2):
        assert (batch.clear[first] - batch.clear[first + 1]).abs().mean() > 0.003
    assert (batch.clear[0] - batch.clear[1]).abs().mean() < (batch.clear[0] - batch.clear[2]).abs().mean()


@pytest.mark.parametrize("aspect_jitter", [0.0, 0.5])
def test_crops_stay_inside_narrow_images(aspect_jitter: float):
    # A red portrait image: the rest of its canvas must never be seen.
    image = coloured_blocks(0, height=72, width=40)
    image.image[:] = (200, 10, 10)
    bank = bank_of(image)
    assert float(bank.facts.width[0]) < 0.35
    bank.fine[..., 41:] = 255
    haze = haze_config(NO_HAZE, geometry={"aspect_jitter": aspect_jitter})
    assert source_over(bank, haze, crops=((32, 32),)).batch(0, Shard()).hazy[:, :, 1].max() < 0.1


def test_crops_may_be_wider_or_narrower_than_they_are():
    image = coloured_blocks(0)
    image.image[..., 0] = np.linspace(0, 255, image.image.shape[1])
    image.image[..., 1] = np.linspace(0, 255, image.image.shape[0])[:, None]
    bank = bank_of(image)
    ratios = []
    for jitter in (0.0, 0.3):
        haze = haze_config(NO_HAZE, geometry={"aspect_jitter": jitter, "still_probability": 1.0})
        red, green = source_over(bank, haze, crops=((32, 32),)).batch(0, Shard()).clear[:, :2].unbind(1)
        across, down = (red[:, :, -1] - red[:, :, 0]).mean(1).abs(), (green[:, -1] - green[:, 0]).mean(1)
        ratios.append(torch.log(across / down))
    assert ratios[0].std() < 0.03
    assert ratios[1].std() > 0.08
    assert (ratios[1] - ratios[0].mean()).abs().max() < 0.35


def test_rendered_scenes_bring_their_depth():
    scenes = render_scenes(1, 1, seed=3, lines=36, device=torch.device("cpu"))
    bank = bank_of(*scenes, coloured_blocks(0), lines=36)
    assert bank.facts.has_depth.tolist() == [True, True]
    assert bank.depth[0].float().std() > 5


@pytest.fixture
def data(tmp_path):
    """Three clips of four frames in two folders; each frame has a grey level of its own."""
    for name in ("hazy", "clear"):
        for clip in range(3):
            folder = tmp_path / name / f"clip{clip}"
            folder.mkdir(parents=True)
            for frame in range(4):
                level = 20 * clip + 3 * frame + (100 if name == "hazy" else 0)
                cv2.imwrite(str(folder / f"{frame:03d}.png"), np.full((48, 64, 3), level, np.uint8))
    return PairedSourceConfig(path=str(tmp_path), layout="folders", workers=0)


def paired(config: PairedSourceConfig, *, batch: int = 4) -> PairedSource:
    clips = open_training_clips(config)
    return PairedSource(
        clips, batch=batch, crop=32, window=5, seed=0, workers=config.workers, device=torch.device("cpu")
    )


def levels(batch) -> list[int]:
    return [round(float(image.mean()) * 255) for image in batch.clear]


def test_an_epoch_sees_every_window_once_and_hazy_belongs_to_clear(data):
    batches = [paired(data).batch(step, Shard()) for step in range(3)]
    seen = [level for batch in batches for level in levels(batch)]
    assert sorted(seen) == sorted(20 * clip + 3 * frame for clip in range(3) for frame in range(4))
    for batch in batches:
        assert batch.hazy.shape == (4, 5, 3, 32, 32)
        torch.testing.assert_close(batch.hazy[:, 2] - batch.clear, torch.full_like(batch.clear, 100 / 255))


def test_any_step_can_be_the_first(data):
    straight = paired(data)
    expected = [straight.batch(step, Shard()) for step in range(7)]
    late = paired(data)
    for step in (4, 5, 6):
        assert torch.equal(late.batch(step, Shard()).hazy, expected[step].hazy)
    assert levels(expected[0]) != levels(expected[3])  # another epoch, another order


def test_processes_share_a_batch(data):
    whole = paired(data).batch(1, Shard())
    parts = [paired(data).batch(1, Shard(rank, 2)) for rank in range(2)]
    assert torch.equal(torch.cat([part.clear for part in parts]), whole.clear)


def test_worker_processes_read_the_same(data):
    workers = paired(replace(data, workers=1))
    assert torch.equal(workers.batch(0, Shard()).hazy, paired(data).batch(0, Shard()).hazy)


def test_a_signal_to_the_group_leaves_the_workers_to_the_loop(data):
    """SIGTERM reaches every process of a group. A dead worker would keep the loop from saving its state."""
    source = paired(replace(data, workers=1))
    source.batch(0, Shard())
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGTERM)
    expected = paired(data)
    for step in (1, 2):
        assert torch.equal(source.batch(step, Shard()).hazy, expected.batch(step, Shard()).hazy)


def test_missing_and_tiny_sets_are_named(data):
    with pytest.raises(InputError, match="no dataset at nowhere"):
        open_training_clips(PairedSourceConfig(path="nowhere"))
    with pytest.raises(InputError, match="at least one batch of 40 windows, the dataset has 12"):
        paired(data, batch=40)


@pytest.mark.parametrize(("hazy", "clear"), [("input", "target"), ("Train/hazy", "Train/GT"), ("hazy", "clean")])
def test_a_set_is_trained_on_in_its_own_layout_even_if_smaller_than_the_crop(hazy, clear, tmp_path):
    for side, value in ((hazy, 200), (clear, 100)):
        (tmp_path / side / "clip").mkdir(parents=True)
        for index in range(3):
            cv2.imwrite(str(tmp_path / side / "clip" / f"{index}.png"), np.full((24, 40, 3), value, np.uint8))
    clips = open_training_clips(PairedSourceConfig(path=str(tmp_path), layout="folders"))
    source = PairedSource(clips, batch=2, crop=32, window=3, seed=0, workers=0, device=torch.device("cpu"))
    batch = source.batch(0, Shard())
    assert batch.hazy.shape == (2, 3, 3, 32, 32)
    assert float(batch.clear.mean()) == pytest.approx(100 / 255)
    with pytest.raises(InputError, match="expected hazy and clear frames in"):
        open_training_clips(PairedSourceConfig(path=str(tmp_path / hazy), layout="folders"))
