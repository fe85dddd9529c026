"""The multi-scale residual block of MIRNet (Zamir et al., ECCV 2020), with one column and three scales.

Its width doubles where its size halves. No convolution has a bias, and all attention units share one PReLU slope.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SCALES = 3
SQUEEZE = 8


def conv(entering: int, leaving: int, size: int) -> nn.Conv2d:
    return nn.Conv2d(entering, leaving, size, padding=size // 2, bias=False)


class DualAttention(nn.Module):
    """A residual block that weighs its places and its channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = conv(width, width, 3), conv(width, width, 3)
        self.places = conv(2, 1, 5)
        self.channels = nn.Sequential(
            conv(width, width // SQUEEZE, 1), nn.ReLU(inplace=True), conv(width // SQUEEZE, width, 1)
        )
        self.join = conv(2 * width, width, 1)

    def forward(self, x: Tensor, slope: Tensor) -> Tensor:
        found = self.second(F.prelu(self.first(x), slope.to(x.dtype)))
        extremes = torch.cat([found.amax(dim=1, keepdim=True), found.mean(dim=1, keepdim=True)], dim=1)
        places = found * self.places(extremes).sigmoid()
        channels = found * self.channels(found.mean(dim=(2, 3), keepdim=True)).sigmoid()
        return x + self.join(torch.cat([places, channels], dim=1))


class BlurDown(nn.Module):
    """Halves the size of a map that was blurred against aliasing."""

    kernel: Tensor

    def __init__(self) -> None:
        super().__init__()
        row = torch.tensor([0.25, 0.5, 0.25])
        self.register_buffer("kernel", torch.outer(row, row)[None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        mode = "reflect" if min(x.shape[-2:]) > 1 else "replicate"
        padded = F.pad(x, (1, 1, 1, 1), mode=mode)
        return F.conv2d(padded, self.kernel.to(x.dtype).expand(x.shape[1], -1, -1, -1), stride=2, groups=x.shape[1])


class _TwoPaths(nn.Module):
    top: nn.Module
    bottom: nn.Module

    def forward(self, x: Tensor) -> Tensor:
        return self.top(x) + self.bottom(x)


class Down(_TwoPaths):
    """Halves the size and doubles the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.top = nn.Sequential(
            conv(width, width, 1),
            nn.PReLU(),
            conv(width, width, 3),
            nn.PReLU(),
            BlurDown(),
            conv(width, 2 * width, 1),
        )
        self.bottom = nn.Sequential(BlurDown(), conv(width, 2 * width, 1))


class Up(_TwoPaths):
    """Doubles the size and halves the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.top = nn.Sequential(
            conv(width, width, 1),
            nn.PReLU(),
            nn.ConvTranspose2d(width, width, 3, stride=2, padding=1, output_padding=1, bias=False),
            nn.PReLU(),
            conv(width, width // 2, 1),
        )
        self.bottom = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), conv(width, width // 2, 1)
        )


class SelectScale(nn.Module):
    """Mixes maps of equal size by weights for every channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(conv(width, width // SQUEEZE, 1), nn.PReLU())
        self.weigh = nn.ModuleList(conv(width // SQUEEZE, width, 1) for _ in range(SCALES))

    def forward(self, maps: list[Tensor]) -> Tensor:
        stacked = torch.stack(maps)
        summary = self.squeeze(stacked.sum(dim=0).mean(dim=(2, 3), keepdim=True))
        weights = torch.stack([layer(summary) for layer in self.weigh]).softmax(dim=0)
        return (stacked * weights.to(stacked.dtype)).sum(dim=0)


class MultiScaleBlock(nn.Module):
    """One block. The official one also has resamplers and mixers that only more columns would use."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width * 2**scale for scale in range(SCALES)]
        self.attend = nn.ModuleList(DualAttention(w) for w in widths)
        self.downs = nn.ModuleList(Down(w) for w in widths[:-1])
        self.ups = nn.ModuleList(
            nn.Sequential(*(Up(widths[level]) for level in range(scale, 0, -1))) for scale in range(1, SCALES)
        )
        self.select, self.out = SelectScale(width), conv(width, width, 3)

    def forward(self, x: Tensor, slope: Tensor) -> Tensor:
        found = [self.attend[0](x, slope)]
        for attend, down in zip(self.attend[1:], self.downs, strict=True):  # type: ignore[arg-type]
            found.append(attend(down(found[-1]), slope))
        same_size = [found[0], *(up(y) for up, y in zip(self.ups, found[1:], strict=True))]
        return x + self.out(self.select(same_size))


class MultiScaleBlocks(nn.Module):
    """Blocks of several widths with one PReLU slope between them."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((1,), 0.25))
        self.blocks = nn.ModuleList(MultiScaleBlock(width) for width in widths)

    def forward(self, index: int, x: Tensor) -> Tensor:
        return self.blocks[index](x, self.slope)
