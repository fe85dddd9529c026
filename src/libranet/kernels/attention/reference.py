"""Multi-head attention over short sequences, in plain torch."""

import torch.nn.functional as F
from torch import Tensor


def attend(
    query: Tensor,  # [N, t, C]; the kernel takes t = T
    key_value: Tensor,  # [N, T, 2 * C]
    heads: int,
) -> Tensor:  # [N, t, C]
    def split(x: Tensor) -> Tensor:  # [N, t, C] -> [N, heads, t, C / heads]
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    key, value = key_value.chunk(2, dim=-1)
    mixed = F.scaled_dot_product_attention(split(query), split(key), split(value))
    return mixed.transpose(1, 2).flatten(2)
