import cv2
import numpy as np
import pytest
import torch

from libranet.errors import InputError
from libranet.training.batches import Share
from libranet.training.config import PairedSourceConfig
from libranet.training.paired import PairedBatches, open_training_clips


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


def source(config: PairedSourceConfig, *, batch: int = 4) -> PairedBatches:
    clips = open_training_clips(config)
    return PairedBatches(
        clips, batch=batch, crop=32, window=5, seed=0, workers=config.workers, device=torch.device("cpu")
    )


def levels(batch) -> list[int]:
    return [round(float(image.mean()) * 255) for image in batch.clear]


def test_an_epoch_sees_every_window_once_and_hazy_belongs_to_clear(data):
    batches = [source(data).batch(step, Share()) for step in range(3)]
    seen = [level for batch in batches for level in levels(batch)]
    assert sorted(seen) == sorted(20 * clip + 3 * frame for clip in range(3) for frame in range(4))
    for batch in batches:
        assert batch.hazy.shape == (4, 5, 3, 32, 32)
        torch.testing.assert_close(batch.hazy[:, 2] - batch.clear, torch.full_like(batch.clear, 100 / 255))


def test_any_step_can_be_the_first(data):
    straight = source(data)
    expected = [straight.batch(step, Share()) for step in range(7)]
    late = source(data)
    for step in (4, 5, 6):
        assert torch.equal(late.batch(step, Share()).hazy, expected[step].hazy)
    assert levels(expected[0]) != levels(expected[3])  # another epoch, another order


def test_processes_share_a_batch(data):
    whole = source(data).batch(1, Share())
    parts = [source(data).batch(1, Share(rank, 2)) for rank in range(2)]
    assert torch.equal(torch.cat([part.clear for part in parts]), whole.clear)


def test_missing_and_tiny_sets_are_named(data, tmp_path):
    with pytest.raises(InputError, match="no data set at nowhere"):
        open_training_clips(PairedSourceConfig(path="nowhere"))
    with pytest.raises(InputError, match="at least one batch of 40 windows, the data set has 12"):
        source(data, batch=40)
