"""Neighbourhood attention (Hassani et al., CVPR 2023) in plain torch: every pixel attends to k x k pixels around it."""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class NeighbourhoodAttention(nn.Module):
    """Attention with a table of position biases. At borders the window slides inwards: it always has k x k places."""

    def __init__(self, heads: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.heads, self.kernel, self.dilation = heads, kernel, dilation
        self.table = nn.Parameter(torch.zeros(heads, 2 * kernel - 1, 2 * kernel - 1))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(
        self,
        query: Tensor,  # [B, C, H, W]; H and W at least kernel x dilation
        key: Tensor,  # likewise
        value: Tensor,  # likewise
    ) -> Tensor:  # [B, C, H, W]
        if self.training:  # the backward pass would keep k x k copies of keys and values
            return checkpoint(self._attend, query, key, value, use_reentrant=False)
        return self._attend(query, key, value)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        # One place of the window at a time: all together would take k x k times the memory of a map.
        query, key, value = (x.unflatten(1, (self.heads, -1)) for x in (query, key, value))  # [B, heads, d, H, W]
        query = query * query.shape[2] ** -0.5
        rows, columns = (neighbours(side, self.kernel, self.dilation, query.device) for side in query.shape[-2:])
        table = self.table.to(query.dtype)
        logits = []
        for row, row_offset in zip(*rows, strict=True):
            keys, biases = key.index_select(3, row), table.index_select(1, row_offset)
            logits += [
                (query * keys.index_select(4, column)).sum(dim=2) + biases.index_select(2, column_offset)
                for column, column_offset in zip(*columns, strict=True)
            ]
        weights = iter(torch.stack(logits).softmax(dim=0).to(value.dtype).unsqueeze(3))  # [B, heads, 1, H, W] each
        mixed = torch.zeros_like(query)
        for row in rows[0]:
            values = value.index_select(3, row)
            for column in columns[0]:
                mixed = mixed + values.index_select(4, column) * next(weights)
        return mixed.flatten(1, 2)


def neighbours(
    length: int, kernel: int, dilation: int, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:  # [kernel, length] each
    """Find the neighbours of every place along an axis, and where their biases are in the table.

    Places that are equal modulo the dilation form a group; a place sees consecutive members of its own.
    """
    place = torch.arange(length, device=device)
    own, phase = place // dilation, place % dilation
    last = (length - 1 - phase) // dilation + 1 - kernel
    first = (own - (kernel - 1) // 2).clamp(min=0).minimum(last)
    members = first + torch.arange(kernel, device=device)[:, None]
    return members * dilation + phase, members - own + kernel - 1
