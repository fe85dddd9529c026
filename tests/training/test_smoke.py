"""The smoke recipe as a user runs it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from libranet.metrics import psnr
from libranet.network import load_model
from libranet.training.distributed import Shard
from libranet.training.recipe import load_recipe
from libranet.training.start import build_source, train

RECIPE = Path(__file__).parents[2] / "recipes" / "smoke.toml"


@pytest.mark.slow
def test_the_smoke_recipe_gains_three_decibels(tmp_path):
    train(RECIPE, tmp_path, device="cpu")
    model = load_model(tmp_path / "model.safetensors")
    # Other scenes, crops and haze than it was trained on.
    source, _ = build_source(load_recipe(RECIPE, ["seed=77", "photos.scenes=4"]), torch.device("cpu"))
    before, after = [], []
    for step in range(8):
        batch = source.batch(step, Shard())
        with torch.no_grad():
            restored = model.predict(batch.hazy, still=batch.still).image
        middle = batch.hazy.shape[1] // 2
        before += [psnr(a, b) for a, b in zip(batch.hazy[:, middle], batch.clear, strict=True)]
        after += [psnr(a, b) for a, b in zip(restored, batch.clear, strict=True)]
    # A sample without haze has nothing to gain, and one of them at 40 dB outweighs ten hazy ones.
    hazy = np.array(before) < 25.0
    assert hazy.mean() > 0.7
    gain = np.array(after)[hazy] - np.array(before)[hazy]
    print(f"smoke: {np.array(before)[hazy].mean():.2f} -> {np.array(after)[hazy].mean():.2f} dB")
    assert gain.mean() >= 3.0
