"""The bank of clear images: what it knows about skies."""

import torch

from clear_images import bank_of, coloured_blocks, sky_over_ground


def test_a_sky_is_known_by_its_depth_and_its_mean_colour_is_kept():
    with_sky = sky_over_ground(rows=24, sky=(60, 120, 200))
    without, unknown = coloured_blocks(1), coloured_blocks(2, depth=False)
    without.depth[:] = 249
    bank = bank_of(with_sky, without, unknown)
    torch.testing.assert_close(bank.sky[0], torch.tensor([60, 120, 200]) / 255, atol=0.02, rtol=0)
    assert (bank.sky[1:] == 0).all()
    torch.testing.assert_close(bank.skyline, torch.tensor([24 / 72, 0, 0]))
    torch.testing.assert_close(bank.open_sky, torch.tensor([24 / 72, 0, 0]))
