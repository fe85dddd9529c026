"""Your own network, loss and data, named in a recipe as package.module:Name; own_parts.toml is that recipe."""

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from libranet import Dehazer
from libranet.network.base import Predicted
from libranet.runtime import load_network
from libranet.training.start import train


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 3, H, W]
        return x + self.body(x)


def edges(prediction: Predicted, clear: Tensor) -> Tensor:
    return (prediction.image.diff(dim=-1) - clear.diff(dim=-1)).abs().mean()


class Pairs(TensorDataset):  # any torch dataset; a list of libranet.data.PairedClip will do as well
    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"hazy": 0.5 * self.tensors[0][index][None] + 0.4, "clear": self.tensors[0][index]}


def open_pairs(path: str) -> Pairs:
    return Pairs(torch.rand(8, 3, 64, 64))


if __name__ == "__main__":
    outcome = train(__file__.replace(".py", ".toml"), "own", device="cpu")
    network = load_network("own_parts:Net", weights="own/model.safetensors", device="cpu")
    restored = Dehazer(network).image(torch.rand(3, 90, 160))
    print(f"{outcome.progress.step} steps, {network.architecture}, output {tuple(restored.shape)}")
