import numpy as np
import torch
from pictures import coloured_blocks

from libranet.training.photo_bank import load_bank, recolour_skies


def test_skies_get_other_colours_and_the_ground_keeps_its_own():
    picture = coloured_blocks(0)
    picture.depth[:24] = 255
    picture.image[:] = 120
    pictures = list(recolour_skies([picture, coloured_blocks(1, depth=False)], 3, seed=0))
    assert [p.name for p in pictures] == ["blocks-0", "blocks-0+0", "blocks-0+1", "blocks-0+2", "blocks-1"]
    bank = load_bank(pictures, lines=72, device=torch.device("cpu"))
    skies, ground = bank.fine[:4, :, 4].float().mean(-1), bank.fine[:4, :, 40:]
    assert (skies[0] == 120).all()
    assert all((skies[i] - skies[j]).abs().max() > 3 for i in range(4) for j in range(i))
    assert (ground == 120).all()
    assert torch.equal(bank.depth[0], bank.depth[3])


def test_the_same_seed_gives_the_same_skies():
    picture = coloured_blocks(0)
    picture.depth[:24] = 255
    first, again, other = ([*recolour_skies([picture], 1, seed=seed)][1].sky_factor for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
