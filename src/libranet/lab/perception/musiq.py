"""MUSIQ (Ke et al. 2021): a transformer over patches of a frame at three sizes predicts the mean opinion of people.

No package ships its weights. They are read from a file of the user's, with the names of the published PyTorch
conversion (`conv_root.weight`, `transformer_encoder.cls`, ...); the file decides how deep and wide the network is.
"""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import CheckpointError, InputError
from libranet.metrics.frame_pair import check_frame
from libranet.thirdparty import read_tensors

MUSIQ_FILE = "musiq_koniq_ckpt-e95806b9.pth"
"""As published; the name ends with the beginning of the file's SHA-256."""
PATCH = 32
LONG_SIDES = (224, 384)  # sizes of the reduced frames; the third is the frame itself
HEADS = 6
GRID = 10  # positions of patches are hashed to a grid of this many cells each way
_ROOT_GROUPS = 32
_BLOCKS = "transformer_encoder.transformer.encoderblock_"
_POSITION = "transformer_encoder.posembed_input.position_emb"
_SCALE = "transformer_encoder.scaleembed_input.scale_emb"


def read_musiq_weights(path: Path) -> dict[str, Tensor]:
    """Read weights of MUSIQ by their published names.

    Args:
        path: The published .pth of KonIQ, or any .safetensors with those names.
    """
    if not path.is_file():
        raise InputError(f"no weights of MUSIQ at {path}: check the path given with --musiq")
    if path.suffix == ".safetensors":
        return read_tensors(path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    wanted = MUSIQ_FILE.rpartition("-")[2].partition(".")[0]
    if not digest.startswith(wanted):
        raise CheckpointError(
            f"{path} is not the published {MUSIQ_FILE}: its SHA-256 begins with {digest[:8]}, not {wanted}. "
            "Weights of another training are read as safetensors"
        )
    return read_tensors(path)


class Musiq:
    """The network with its weights, for inference."""

    def __init__(self, state: Mapping[str, Tensor], *, source: str = "weights by path", device: str = "cpu") -> None:
        self.name = f"MUSIQ ({source})"
        self.state = {key.removeprefix("module."): value.float().to(device) for key, value in state.items()}
        self.layers = len({key.split(".")[2] for key in self.state if key.startswith(_BLOCKS)})
        self.head = "head.0" if "head.0.weight" in self.state else "head"
        try:
            width = self.state["embedding.weight"].shape[0]
            shapes = [
                (self.state["conv_root.weight"].shape[1:], (3, 7, 7)),
                (self.state["embedding.weight"].shape[1], 4 * 64 * (PATCH // 4) ** 2),
                (self.state[_POSITION].shape[-2:], (GRID**2, width)),
                (self.state[_SCALE].shape, (len(LONG_SIDES) + 1, width)),
                (self.state[f"{self.head}.weight"].shape[1], width),
                (width % HEADS, 0),
                (self.layers > 0, True),
            ]
        except KeyError as error:
            raise CheckpointError(f"the weights are not MUSIQ's: {error} is missing") from None
        for found, expected in shapes:
            if found != expected:
                raise CheckpointError(f"the weights are not MUSIQ's: expected {expected}, got {found}")

    @torch.no_grad()
    def score(self, image: Tensor) -> float:  # [3, H, W] in [0, 1]
        """Predict the mean opinion; with KonIQ's weights 0 (bad) to 100."""
        check_frame(image)
        frame = (image[None].to(next(iter(self.state.values())).device) - 0.5) * 2
        longest = max(frame.shape[-2:])
        sizes = [[round(length * (side / longest)) for length in frame.shape[-2:]] for side in LONG_SIDES]
        frames = [*(F.interpolate(frame, size, mode="bicubic", align_corners=False) for size in sizes), frame]
        tokens = [self._tokens(each, scale) for scale, each in enumerate(frames)]
        x = torch.cat([self.state["transformer_encoder.cls"], *tokens], dim=1)
        for layer in range(self.layers):
            x = self._block(x, f"{_BLOCKS}{layer}.")
        out = self._linear(self._norm(x[:, :1], "transformer_encoder.encoder_norm"), self.head)[0, 0]
        if len(out) == 1:
            return float(out)
        return float(out.softmax(dim=0) @ torch.arange(1.0, len(out) + 1, device=out.device))

    def measure(self, image: Tensor) -> dict[str, float]:  # [3, H, W]
        return {"musiq": self.score(image)}

    def _tokens(self, image: Tensor, scale: int) -> Tensor:  # [1, 3, H, W] -> [1, N, C]
        """Patches through the convolutional root, with where and at which size they lie."""
        rows, columns = (math.ceil(length / PATCH) for length in image.shape[-2:])
        patches = F.unfold(_pad_same(image, PATCH, PATCH), PATCH, stride=PATCH)  # [1, 3 * 32 * 32, N]
        parts = [self._root(part) for part in patches[0].T.reshape(-1, 3, PATCH, PATCH).split(1024)]
        embedded = self._linear(torch.cat(parts), "embedding")[None]
        down, across = (torch.arange(count) * GRID // count for count in (rows, columns))
        place = (down[:, None] * GRID + across[None]).flatten().to(embedded.device)
        return embedded + self.state[_POSITION].reshape(GRID**2, -1)[place] + self.state[_SCALE][scale]

    def _root(self, patches: Tensor) -> Tensor:  # [N, 3, 32, 32] -> [N, 256 * 8 * 8], channels last
        x = self._group_norm(self._conv(patches, "conv_root", stride=2), "gn_root", eps=1e-6)
        x = F.max_pool2d(_pad_same(F.relu(x), 3, 2), 3, 2)
        y = F.relu(self._group_norm(self._conv(x, "block1.conv1"), "block1.gn1"))
        y = F.relu(self._group_norm(self._conv(y, "block1.conv2"), "block1.gn2"))
        y = self._group_norm(self._conv(y, "block1.conv3"), "block1.gn3")
        skip = self._group_norm(self._conv(x, "block1.conv_proj"), "block1.gn_proj")
        return F.relu(y + skip).permute(0, 2, 3, 1).flatten(1)

    def _block(self, x: Tensor, name: str) -> Tensor:  # [1, N, C]
        normed = self._norm(x, f"{name}norm1")
        query, key, value = (
            self._linear(normed, f"{name}attention.{part}").unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        x = x + self._linear(mixed, f"{name}attention.out")
        hidden = F.gelu(self._linear(self._norm(x, f"{name}norm2"), f"{name}mlp.fc1"))
        return x + self._linear(hidden, f"{name}mlp.fc2")

    def _conv(self, x: Tensor, name: str, *, stride: int = 1) -> Tensor:
        """A convolution with standardised weights."""
        weight = self.state[f"{name}.weight"]
        weight = weight - weight.mean((1, 2, 3), keepdim=True)
        weight = weight / (weight.std((1, 2, 3), keepdim=True) + 1e-5)
        return F.conv2d(_pad_same(x, weight.shape[-1], stride), weight, stride=stride)

    def _group_norm(self, x: Tensor, name: str, *, eps: float = 1e-4) -> Tensor:
        return F.group_norm(x, _ROOT_GROUPS, self.state[f"{name}.weight"], self.state[f"{name}.bias"], eps)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.state[f"{name}.weight"], self.state[f"{name}.bias"], 1e-6)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.state[f"{name}.weight"], self.state.get(f"{name}.bias"))


def _pad_same(x: Tensor, kernel: int, stride: int) -> Tensor:
    """Pad with zeros so that a frame of n pixels gives n / stride, rounded up; the odd pixel goes last."""
    height, width = (max((math.ceil(n / stride) - 1) * stride + kernel - n, 0) for n in (x.shape[-2], x.shape[-1]))
    return F.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2))
