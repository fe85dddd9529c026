"""A network for tests: every part of the real one, and fast."""

from typing import Any

import torch

from libranet.network import LiBrANet, LiBrANetConfig


def make_config(base: LiBrANetConfig | None = None, **settings: Any) -> LiBrANetConfig:
    """A configuration that differs from another one, or from the default, in some settings of a checkpoint's header."""
    return LiBrANetConfig.from_stored((base or LiBrANetConfig()).stored() | settings)


TINY = make_config(
    encoder_size=32,
    encoder_widths=(8, 8, 8, 16),
    encoder_blocks=1,
    head_hidden=8,
    attention_heads=2,
    ffn_ratio=2,
    refiner_width=8,
    drop_path=0.0,
    dropout=0.0,
)
"""A network with every part of the real one, small enough for tests that run it many times."""

SMALLEST = make_config(
    window=3,
    encoder_size=16,
    encoder_widths=(8, 16),
    encoder_blocks=1,
    head_hidden=8,
    attention_heads=2,
    refiner_width=16,
    drop_path=0.0,
    dropout=0.0,
)
"""One that the fused kernels cover, and that Triton's interpreter runs in seconds."""


def perturb(model: LiBrANet, *, seed: int = 0, scale: float = 0.05) -> LiBrANet:
    """Give the zero-initialised layers small random weights, so that the network does something."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "project" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    return model.eval()
