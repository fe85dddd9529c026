import torch

from clear_pictures import coloured_blocks
from libranet.training.photo_bank import load_bank


def test_a_sky_is_known_by_its_depth_and_its_mean_colour_is_kept():
    with_sky, without, unknown = coloured_blocks(0), coloured_blocks(1), coloured_blocks(2, depth=False)
    with_sky.depth[:], without.depth[:] = 100, 249
    with_sky.depth[:24] = 255
    with_sky.image[: with_sky.image.shape[0] * 24 // with_sky.depth.shape[0]] = (60, 120, 200)
    bank = load_bank([with_sky, without, unknown], lines=72, device=torch.device("cpu"))
    torch.testing.assert_close(bank.sky[0], torch.tensor([60, 120, 200]) / 255, atol=0.02, rtol=0)
    assert (bank.sky[1:] == 0).all()
    torch.testing.assert_close(bank.skyline, torch.tensor([24 / 72, 0, 0]))
    torch.testing.assert_close(bank.open_sky, torch.tensor([24 / 72, 0, 0]))
