"""Deformable convolution (v2) in plain torch: one sampling per tap, no extension."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TAPS = 9


class DeformableConv(nn.Module):
    """A 3x3 convolution whose taps are moved by predicted offsets and weighted by predicted masks."""

    def __init__(self, width: int, *, groups: int, largest: float | None = None) -> None:
        """Make the layers.

        Args:
            groups: Channels of a group share their offsets.
            largest: Offsets are this times tanh of the prediction; None takes them as predicted.
        """
        super().__init__()
        self.groups, self.largest = groups, largest
        self.predict = nn.Conv2d(width, 3 * TAPS * groups, 3, padding=1)
        nn.init.zeros_(self.predict.weight)
        nn.init.zeros_(self.predict.bias)  # type: ignore[arg-type]
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(
        self,
        x: Tensor,  # [B, C, H, W]
        guide: Tensor,  # [B, C, H, W], what the offsets are predicted from
        flow: Tensor | None = None,  # [B, 2, H, W] in pixels (x, y), added to all offsets
    ) -> Tensor:
        offsets, mask = self.predict(guide).split([2 * TAPS * self.groups, TAPS * self.groups], dim=1)
        offsets = offsets.float() if self.largest is None else self.largest * offsets.float().tanh()
        offsets = offsets.unflatten(1, (self.groups, TAPS, 2)).flatten(0, 1)  # [B g, 9, (y, x), H, W]
        if flow is not None:
            offsets = offsets + flow.float().flip(1).repeat_interleave(self.groups, dim=0)[:, None]
        mask = mask.sigmoid().unflatten(1, (self.groups, TAPS)).flatten(0, 1)  # [B g, 9, H, W]
        grouped = x.unflatten(1, (self.groups, -1)).flatten(0, 1)  # [B g, C / g, H, W]
        result = self.conv.bias[:, None, None].expand(len(x), -1, *x.shape[-2:])  # type: ignore[index]
        for tap in range(TAPS):
            row, column = divmod(tap, 3)
            place = offsets[:, tap] + offsets.new_tensor([row - 1.0, column - 1.0]).view(2, 1, 1)
            taken = sample(grouped, place.flip(1)) * mask[:, tap, None]
            taken = taken.unflatten(0, (-1, self.groups)).flatten(1, 2)
            result = result + F.conv2d(taken, self.conv.weight[:, :, row, column, None, None])
        return result


def sample(
    x: Tensor,  # [B, C, H, W]
    flow: Tensor,  # [B, 2, H, W] in pixels: (x, y)
    *,
    border: bool = False,
) -> Tensor:  # [B, C, H, W]
    """Read a map at every pixel's place plus its flow, bilinearly; outside are zeros, or with `border` its border.

    Positions are in float32: half cannot hold those of a large map.
    """
    height, width = x.shape[-2:]
    xs = torch.arange(width, device=x.device) + flow[:, 0].float()
    ys = torch.arange(height, device=x.device)[:, None] + flow[:, 1].float()
    places = torch.stack([2 * xs / max(width - 1, 1) - 1, 2 * ys / max(height - 1, 1) - 1], dim=-1)
    mode = "border" if border else "zeros"
    return F.grid_sample(x.float(), places, padding_mode=mode, align_corners=True).to(x.dtype)
