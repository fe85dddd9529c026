"""The bank of clear images: what it knows about skies, and its density maps."""

import cv2
import numpy as np
import pytest
import torch

from clear_images import bank_of, coloured_blocks, haze_config, sky_over_ground
from libranet.errors import InputError
from libranet.haze.sampler import draw_samples
from libranet.training.image_bank import DENSITY_SIZE, load_bank, read_density


def test_a_sky_is_known_by_its_depth_and_its_mean_colour_is_kept():
    with_sky = sky_over_ground(rows=24, sky=(60, 120, 200))
    without, unknown = coloured_blocks(1), coloured_blocks(2, depth=False)
    without.depth[:] = 249
    bank = bank_of(with_sky, without, unknown)
    torch.testing.assert_close(bank.facts.sky[0], torch.tensor([60, 120, 200]) / 255, atol=0.02, rtol=0)
    assert (bank.facts.sky[1:] == 0).all()
    torch.testing.assert_close(bank.facts.skyline, torch.tensor([24 / 72, 0, 0]))
    torch.testing.assert_close(bank.facts.open_sky, torch.tensor([24 / 72, 0, 0]))


def test_density_maps_are_spread_over_the_whole_range_and_lend_their_shape_to_haze(tmp_path):
    ramp = np.tile(np.linspace(100, 140, 64).astype(np.uint8), (64, 1))
    cv2.imwrite(str(tmp_path / "a.png"), ramp)
    density = read_density(tmp_path)
    assert density.shape == (1, DENSITY_SIZE, DENSITY_SIZE)
    assert float(density.min()) == 0.0
    assert float(density.max()) == 1.0
    bank = load_bank([coloured_blocks(1)], lines=72, device=torch.device("cpu"), density=density)
    haze = haze_config(density={"bank_probability": 1.0, "clear_probability": 0.0})
    index, generator = torch.zeros(200, dtype=torch.long), torch.Generator().manual_seed(0)
    drawn, _ = draw_samples(haze, bank, index, (32, 32), generator)
    patches = drawn.scattering.patches[:, 0]
    assert float(patches.abs().max()) < 1
    downwards, rightwards = (patches.diff(dim=axis).mean(dim=(1, 2)) for axis in (1, 2))
    over_ground = downwards > 0.02
    assert 60 < int(over_ground.sum()) < 140  # the others show the map, which grows to the right
    assert float(rightwards[~over_ground].mean()) > 0.01


def test_a_folder_without_density_maps_is_refused(tmp_path):
    with pytest.raises(InputError, match="no PNG density maps"):
        read_density(tmp_path)
