import torch

from libranet.models.calibrate import bake_strength


def test_a_baked_strength_is_the_strength(tiny_model):
    frames = torch.rand(1, 5, 3, 33, 47)
    wanted = {s: tiny_model(frames, strength=0.7 * s) for s in (0.5, 1.0)}
    bake_strength(tiny_model, 0.7)
    for strength, expected in wanted.items():
        torch.testing.assert_close(tiny_model(frames, strength=strength), expected, rtol=0, atol=1e-5)
