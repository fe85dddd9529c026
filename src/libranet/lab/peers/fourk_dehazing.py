"""4KDehazing (Zheng et al., CVPR 2021): a bilateral grid and a small restored image, both from U-Nets at low size."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.network.peer import Peer, PeerConfig

GRID_INPUT, IMAGE_INPUT = 256, 320  # sides of the squares that the two U-Nets see
GRID = (12, 16, 16, 16)  # coefficients, depth, height and width of the bilateral grid


class DoubleConv(nn.Sequential):
    """Two convolutions with batch norms."""

    def __init__(self, inputs: int, middle: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, middle, 3, padding=1),
            nn.BatchNorm2d(middle),
            nn.ReLU(inplace=True),
            nn.Conv2d(middle, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    """A U-Net of four levels with three output channels in [0, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = DoubleConv(3, 64, 64)
        self.downs = nn.ModuleList(DoubleConv(a, b, b) for a, b in ((64, 128), (128, 256), (256, 512), (512, 512)))
        self.ups = nn.ModuleList(DoubleConv(a, a // 2, b) for a, b in ((1024, 256), (512, 128), (256, 64), (128, 64)))
        self.last = nn.Conv2d(64, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        skips = [self.first(x)]
        for down in self.downs:
            skips.append(down(F.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for up in self.ups:
            skip = skips.pop()
            enlarged = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
            rows, columns = skip.shape[-2] - enlarged.shape[-2], skip.shape[-1] - enlarged.shape[-1]
            enlarged = F.pad(enlarged, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
            x = up(torch.cat([skip, enlarged], dim=1))
        return self.last(x).sigmoid()


class Guide(nn.Sequential):
    """The guide of one colour: it sees that channel alone, at full size."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.PReLU(),
            nn.Conv2d(16, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.PReLU(),
            nn.Conv2d(16, 1, 1),
            nn.Tanh(),
        )


class FourKDehazing(Peer):
    """The published network; `unused` is registered there, too, and takes no part."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("4kdehazing"))
        self.grid_net, self.image_net = UNet(), UNet()
        self.guides = nn.ModuleList(Guide() for _ in range(3))
        self.points = nn.ModuleList(nn.Conv2d(3, 3, 1) for _ in range(3))
        self.shared = nn.PReLU()
        self.unused = nn.PReLU()
        self.fuse = nn.Sequential(nn.Conv2d(9, 16, 3, padding=1), nn.PReLU(), nn.Conv2d(16, 3, 1), nn.PReLU())
        self.gain = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.PReLU(), nn.Conv2d(8, 3, 3, padding=1), nn.PReLU())

    def restore(self, frames: Tensor) -> Tensor:
        frame = frames[:, 0]
        values = F.adaptive_avg_pool2d(self.grid_net(_resize(frame, (GRID_INPUT, GRID_INPUT))), (64, 256))
        grid = values.reshape(-1, *GRID)  # a plain reshape: the axes of the grid are not those of the image
        small = self.image_net(_resize(frame, (IMAGE_INPUT, IMAGE_INPUT)))
        image = _resize(small, (frame.shape[-2], frame.shape[-1]))
        parts = []
        for colour, (guide, point) in enumerate(zip(self.guides, self.points, strict=True)):
            coefficients = slice_grid(grid, guide(frame[:, colour : colour + 1]))
            parts.append(_apply(coefficients, self.shared(point(image))))
        haze = self.fuse(torch.cat(parts, dim=1))
        return self.shared(self.gain(haze) * frame - haze + 1)


def slice_grid(
    grid: Tensor,  # [B, 12, D, gh, gw]
    guide: Tensor,  # [B, 1, H, W] in [-1, 1]
) -> Tensor:  # [B, 12, H, W]
    """Read the grid at every pixel; the corner pixels lie on its corners. In float32: 4K needs finer positions."""
    height, width = guide.shape[-2:]
    ys = torch.linspace(-1, 1, height, device=guide.device)
    xs = torch.linspace(-1, 1, width, device=guide.device)
    y, x = torch.meshgrid(ys, xs, indexing="ij")
    plane = torch.stack([x, y], dim=-1).expand(len(guide), -1, -1, -1)
    places = torch.cat([plane, guide[:, 0, ..., None].float()], dim=-1)[:, None]  # [B, 1, H, W, 3]
    return F.grid_sample(grid.float(), places, align_corners=True)[:, :, 0].to(grid.dtype)


def _apply(coefficients: Tensor, image: Tensor) -> Tensor:  # [B, 12, H, W], [B, 3, H, W] -> [B, 3, H, W]
    rows = coefficients.unflatten(1, (3, 4))
    return (rows[:, :, :3] * image[:, None]).sum(dim=2) + rows[:, :, 3]


def _resize(image: Tensor, size: tuple[int, int]) -> Tensor:
    return F.interpolate(image, size=size, mode="bicubic", align_corners=True)
