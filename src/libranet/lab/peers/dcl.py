"""DCL (Fan et al., AAAI 2025): its dehazing network, which sees one frame and keeps no state.

Depth, pose and the neighbouring frames serve the makers' losses, which need no pairs. Trained with pairs, this is DCL's
generator, not DCL.
"""

from torch import Tensor, nn

from libranet.lab.peers.convolutions import conv, double
from libranet.network.padding import ReflectConv
from libranet.network.peer import Peer, PeerConfig

WIDTHS = (64, 128, 256)
BLOCKS = 9


def normal(layer: nn.Conv2d) -> nn.Sequential:
    return nn.Sequential(layer, nn.InstanceNorm2d(layer.out_channels), nn.ReLU(inplace=True))


class Block(nn.Module):
    """A residual block whose maps are continued by reflection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            normal(ReflectConv(width, width, 3)), ReflectConv(width, width, 3), nn.InstanceNorm2d(width)
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Dcl(Peer):
    """The published generator."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("dcl", divisor=4))
        fine, middle, coarse = WIDTHS
        self.embed = normal(ReflectConv(3, fine, 7))
        self.downs = nn.Sequential(normal(conv(fine, middle, stride=2)), normal(conv(middle, coarse, stride=2)))
        self.blocks = nn.Sequential(*(Block(coarse) for _ in range(BLOCKS)))
        self.ups = nn.ModuleList((normal(conv(coarse, middle)), normal(conv(middle, fine))))
        self.out = ReflectConv(fine, 3, 7)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def restore(self, frames: Tensor) -> Tensor:
        """Restore one frame. There is no skip from the input: the network draws the whole frame."""
        x = self.blocks(self.downs(self.embed(frames[:, 0])))
        for up in self.ups:
            x = up(double(x))
        return self.out(x).tanh() * 0.5 + 0.5
