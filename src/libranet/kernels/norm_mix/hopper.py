"""Launches of normalise + GELU + mix on Hopper."""

from torch import Tensor

from libranet.kernels.conv3x3.hopper import CHANNELS
from libranet.kernels.launch import Blocks, launch, processors
from libranet.kernels.tiles import ceil_div

BLOCK = 128  # pixels per step
RING = 2  # steps in shared memory
PER_PROCESSOR = 3  # programs per multiprocessor


def normalise_mix_out(
    raw: Tensor,  # [B, h, w, 64] fp16
    fold: Tensor,  # [B, 2, 64] fp32
    out: Tensor,  # [B, h, w, 64] fp16, written; may be a channel slice of a wider map, or `skip` itself
    *,
    skip: Tensor,  # [B, h, w, 64] fp16
    mix: Tensor,  # [64, 64] fp16, a 1x1 convolution
    mix_bias: Tensor,  # [64] fp32
) -> None:
    """skip + mix(GELU(factor * raw + summand)) + mix_bias."""
    b, height, width, _ = raw.shape
    blocks = ceil_div(height * width, BLOCK)

    def describe(x: Tensor) -> Blocks:
        return Blocks(x.flatten(1, 2), (1, BLOCK, CHANNELS))

    launch("norm_mix.gluon.normalise_mix_kernel", (min(processors(raw.device) * PER_PROCESSOR, b * blocks),))(
        describe(raw), describe(skip), Blocks(mix, (CHANNELS, CHANNELS)),
        fold, mix_bias, describe(out), b * blocks, blocks, RING=RING, num_warps=4,
    )  # fmt: skip
