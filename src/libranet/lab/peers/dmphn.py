"""DMPHN (Das and Dutta, CVPR workshops 2020), trained by its makers on NH-HAZE: real haze from a machine.

A pyramid of patches: quarters, halves, then the whole frame, each level correcting the input of the next.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from libranet.lab.peers.convolutions import conv
from libranet.network.peer import Peer, PeerConfig
from libranet.thirdparty import find_model, load_weights


class Dmphn(Peer):
    """The network with its makers' weights, which no training changes."""

    def __init__(self, *, cache: Path | None = None) -> None:
        super().__init__(PeerConfig("dmphn", divisor=8))
        for level in (1, 2, 3):
            self.add_module(f"encoder_lv{level}", _Encoder())
            self.add_module(f"decoder_lv{level}", _Decoder())
        self.load_state_dict(load_weights(find_model(self.architecture), cache))
        self.requires_grad_(False)

    def restore(self, frames: Tensor) -> Tensor:
        whole = frames[:, 0] - 0.5
        halves = whole.chunk(2, dim=2)
        quarters = [
            torch.cat([self.get_submodule("encoder_lv3")(q) for q in half.chunk(2, dim=3)], dim=3) for half in halves
        ]
        corrected = [half + self.get_submodule("decoder_lv3")(f) for half, f in zip(halves, quarters, strict=True)]
        features = torch.cat([self.get_submodule("encoder_lv2")(half) for half in corrected], dim=2)
        features = features + torch.cat(quarters, dim=2)
        residual = self.get_submodule("decoder_lv2")(features)
        last = self.get_submodule("encoder_lv1")(whole + residual) + features
        result: Tensor = self.get_submodule("decoder_lv1")(last) + 0.5
        return result


class _Block(nn.Sequential):
    """Two convolutions with the input added; `0` and `2` are the names in the makers' file."""

    def __init__(self, width: int) -> None:
        super().__init__(conv(width, width), nn.ReLU(), conv(width, width))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = super().forward(x)
        return result + x


class _Encoder(nn.Sequential):
    """Frame to features of 128 maps at a quarter of the size. The numbers of layers are the makers'."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("layer1", conv(3, 32))
        self.add_module("layer2", _Block(32))
        self.add_module("layer3", _Block(32))
        self.add_module("layer5", conv(32, 64, stride=2))
        self.add_module("layer6", _Block(64))
        self.add_module("layer7", _Block(64))
        self.add_module("layer9", conv(64, 128, stride=2))
        self.add_module("layer10", _Block(128))
        self.add_module("layer11", _Block(128))


class _Decoder(nn.Sequential):
    """The way back."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("layer13", _Block(128))
        self.add_module("layer14", _Block(128))
        self.add_module("layer16", nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1))
        self.add_module("layer17", _Block(64))
        self.add_module("layer18", _Block(64))
        self.add_module("layer20", nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1))
        self.add_module("layer21", _Block(32))
        self.add_module("layer22", _Block(32))
        self.add_module("layer24", conv(32, 3))
