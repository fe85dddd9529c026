"""The perceptual loss, over any extractor that turns images into a list of feature maps.

Two extractors: DINOv2 through `transformers` (the paper's choice) and VGG (the paper's ablation). Neither comes with
this package: their weights are given by path, or for DINOv2 also by hub id.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.errors import CheckpointError, MissingDependencyError, install_command

DINOV2_HUB_ID = "facebook/dinov2-small"
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


FeatureExtractor = Callable[[Tensor], list[Tensor]]
"""Turns images [B, 3, H, W] in [0, 1] into feature maps, one tensor per layer."""


class PerceptualLoss(nn.Module):
    """Mean over layers of the L1 distance between the features of two images. The extractor is frozen."""

    def __init__(self, extractor: FeatureExtractor) -> None:
        super().__init__()
        self.extractor = extractor
        if isinstance(extractor, nn.Module):
            extractor.eval().requires_grad_(False)

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:  # [B, 3, H, W] in [0, 1] both -> []
        with torch.no_grad():
            wanted = self.extractor(target)
        found = self.extractor(prediction)
        # Differences in the features' precision, sums in float32: no copies of large maps.
        distances = [(a - b).abs().mean(dtype=torch.float32) for a, b in zip(found, wanted, strict=True)]
        return torch.stack(distances).mean()


class DinoV2Features(nn.Module):
    """Patch tokens of chosen DINOv2 layers. Images are resized to whole patches of 14 pixels."""

    PATCH = 14

    def __init__(self, source: str | Path = DINOV2_HUB_ID, *, layers: Sequence[int] = (3, 6, 9, 12)) -> None:
        """`source` is a folder with the model as `transformers` saves it, or a hub id; `layers` count from 1."""
        super().__init__()
        try:
            from transformers import Dinov2Model
        except ImportError:
            raise MissingDependencyError(
                f"DINOv2 features need the package transformers: {install_command('hf')}"
            ) from None
        try:
            self.model = Dinov2Model.from_pretrained(str(source)).float()  # files may hold half precision
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise CheckpointError(
                f"no DINOv2 weights at {source} ({reason}): give a folder that holds {DINOV2_HUB_ID}, "
                "or choose another perceptual loss"
            ) from None
        depth = self.model.config.num_hidden_layers
        if not layers or not all(1 <= layer <= depth for layer in layers):
            raise CheckpointError(f"expected DINOv2 layers between 1 and {depth}, got {list(layers)}")
        self.layers = tuple(layers)
        self.normalise = ImageNetNormalise()

    def forward(self, images: Tensor) -> list[Tensor]:
        height, width = (max(round(side / self.PATCH), 1) * self.PATCH for side in images.shape[-2:])
        resized = F.interpolate(images, size=(height, width), mode="bilinear", align_corners=False, antialias=True)
        tokens, found = self.model.embeddings(self.normalise(resized)), {}
        # Not the model's own forward pass, which collects them by hooks: that was never tried in a CUDA graph.
        for number, layer in enumerate(self.model.encoder.layer, 1):
            tokens = layer(tokens)
            tokens = tokens[0] if isinstance(tokens, tuple) else tokens  # a tuple up to transformers 4
            found[number] = tokens[:, 1:]  # the first token is the class, not a patch
        return [found[layer] for layer in self.layers]


class VggFeatures(nn.Module):
    """Activations of VGG-16 or VGG-19 after the last ReLU of each of its five blocks.

    The weights are a safetensors file with torchvision's names (`features.0.weight`, ...). Other names are ignored.
    """

    BLOCKS: dict[int, tuple[int, ...]] = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}  # noqa: RUF012
    WIDTHS = (64, 128, 256, 512, 512)

    def __init__(self, weights: str | Path, *, depth: Literal[16, 19] = 19, taps: int = 5) -> None:
        """`taps` is how many of the five blocks are used, from the image on."""
        super().__init__()
        layers: list[nn.Module] = []
        self.tap_after: list[int] = []
        channels = 3
        for width, convolutions in zip(self.WIDTHS[:taps], self.BLOCKS[depth], strict=False):
            for _ in range(convolutions):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
            self.tap_after.append(len(layers) - 1)
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers[:-1])
        self.normalise = ImageNetNormalise()
        self._load(Path(weights), depth)

    def _load(self, path: Path, depth: int) -> None:
        if not path.is_file():
            raise CheckpointError(f"no VGG-{depth} weights at {path}: give a safetensors file with torchvision's names")
        try:
            state = safetensors.torch.load_file(path)
        except safetensors.SafetensorError as error:
            raise CheckpointError(f"{path} is not a safetensors file with VGG-{depth} weights ({error})") from None
        wanted = self.features.state_dict()
        found = {name: state.get(f"features.{name}") for name in wanted}
        for name, tensor in found.items():
            if tensor is None or tensor.shape != wanted[name].shape:
                shape = "nothing" if tensor is None else f"shape {tuple(tensor.shape)}"
                raise CheckpointError(f"{path} does not hold VGG-{depth}: features.{name} is {shape}")
        self.features.load_state_dict({name: tensor.float() for name, tensor in found.items() if tensor is not None})

    def forward(self, images: Tensor) -> list[Tensor]:
        x, taps = self.normalise(images), []
        if x.is_cuda:  # the layout that half-precision convolutions need
            x = x.contiguous(memory_format=torch.channels_last)
        for index, layer in enumerate(self.features):
            x = layer(x)
            if index in self.tap_after:
                taps.append(x)
        return taps


class ImageNetNormalise(nn.Module):
    """Shift and scale RGB in [0, 1] to the statistics that ImageNet networks were trained with."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std
