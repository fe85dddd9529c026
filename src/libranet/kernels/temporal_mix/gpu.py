"""Launches of the block along time."""

from torch import Tensor

from libranet.kernels.launch import launch
from libranet.kernels.temporal_mix.reference import MixWeights
from libranet.kernels.tiles import ceil_div, power_of_2


def mix_out(
    features: Tensor,  # [ring, gh, gw, C] fp16
    windows: Tensor,  # [B, T] int64, slots of the ring
    weights: MixWeights,
    out: Tensor,  # [B, gh, gw, C] fp16, written
    *,
    scratch: Tensor,  # [B, T, gh * gw, 3 N] fp16: keys, values and queries
) -> None:
    batch, length = windows.shape
    _, height, width, channels = features.shape
    positions, n = height * width, scratch.shape[3] // 3
    per, pad = n // weights.heads, power_of_2(channels)
    block_n = min(128, n)
    launch("temporal_mix.triton._keys_kernel", (ceil_div(positions, 64), batch * length, 3 * n // block_n))(
        features, windows, weights.position, weights.keys, weights.keys_bias, scratch, weights.eps,
        T=length, POSITIONS=positions, C=channels, N=n, BLOCK=64, BLOCK_N=block_n, BLOCK_K=min(64, max(pad, 16)),
        num_warps=4,
    )  # fmt: skip
    launch("temporal_mix.triton._mix_kernel", (ceil_div(positions, 16), batch))(
        features, windows, weights.position, scratch, weights.out, weights.out_bias, weights.expand,
        weights.expand_bias, weights.shrink, weights.shrink_bias, out, weights.eps,
        T=length, POSITIONS=positions, C=channels, PAD=max(pad, 16), N=n,
        HEADS=min(weights.heads, max(64 // per, 1)), WIDTH=per, HIDDEN=weights.expand.shape[1],
        BLOCK=16, BLOCK_H=32, num_warps=4, num_stages=2,  # within the 99 KB of small GPUs
    )  # fmt: skip
