"""RAFT-small, the optical flow estimator of Teed and Deng (ECCV 2020), in plain torch, for inference.

Features of both frames at 1/8 size are compared everywhere with everywhere; a recurrent unit then looks up the
comparison around the current guess and corrects the guess, again and again. The names of the parts are those of the
published checkpoint.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.errors import CheckpointError

_LEVELS, _RADIUS = 4, 3
_HIDDEN, _CONTEXT = 96, 64
ITERATIONS = 12
_TORCHVISION_NAMES = (
    ("feature_encoder.", "fnet."),
    ("context_encoder.", "cnet."),
    (".convnormrelu.0.", ".conv1."),
    ("net.conv.", "net.conv2."),
    ("update_block.motion_encoder.", "update_block.encoder."),
    ("update_block.recurrent_block.convgru1.", "update_block.gru."),
    ("encoder.convcorr1.0.", "encoder.convc1."),
    ("encoder.convflow1.0.", "encoder.convf1."),
    ("encoder.convflow2.0.", "encoder.convf2."),
    ("encoder.conv.0.", "encoder.conv."),
    *((f".convnormrelu{n}.0.", f".conv{n}.") for n in (1, 2, 3)),
)
"""Parts of torchvision's names for `raft_small`, and ours, in the order of replacement."""


class RaftSmall(nn.Module):
    """Flow from one frame to another.

    >>> net = RaftSmall.from_weights(load_weights(find_model("raft-small")))
    >>> flow = net(current[None], previous[None])  # [1, 2, H, W]: where each pixel of `current` is in `previous`
    """

    def __init__(self) -> None:
        super().__init__()
        self.fnet = _Encoder(128, normalised=True)
        self.cnet = _Encoder(_HIDDEN + _CONTEXT, normalised=False)
        self.update_block = _Update()

    @classmethod
    def from_weights(cls, state: Mapping[str, Tensor], *, device: str | torch.device = "cpu") -> "RaftSmall":
        """Build the network with the authors' weights, or with those of torchvision's `raft_small`."""
        net = cls()
        try:
            net.load_state_dict({_our_name(name): tensor for name, tensor in state.items()})
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise CheckpointError(f"expected the weights of RAFT-small: {reason}") from None
        return net.to(device).eval()

    @torch.no_grad()
    def forward(
        self,
        first: Tensor,  # [B, 3, H, W] in [0, 1]
        second: Tensor,  # [B, 3, H, W] in [0, 1]
        iterations: int = ITERATIONS,
    ) -> Tensor:  # [B, 2, H, W], in pixels, x then y
        """Where each pixel of `first` lies in `second`, minus its own place."""
        height, width = first.shape[-2:]
        first, second = (_pad(image.float()) * 2 - 1 for image in (first, second))
        features = self.fnet(torch.cat((first, second)))
        pyramid = _correlate(*features.chunk(2))
        hidden, context = self.cnet(first).split((_HIDDEN, _CONTEXT), dim=1)
        hidden, context = hidden.tanh(), context.relu()
        origin = _pixel_grid(hidden)
        places = origin.clone()
        for _ in range(iterations):
            hidden, step = self.update_block(hidden, context, _look_up(pyramid, places), places - origin)
            places = places + step
        flow = 8 * F.interpolate(places - origin, scale_factor=8, mode="bilinear", align_corners=True)
        top, left = _margin(height), _margin(width)
        return flow[..., top : top + height, left : left + width]


def _our_name(name: str) -> str:
    name = name.removeprefix("module.")  # left by data-parallel training
    for theirs, ours in _TORCHVISION_NAMES:
        name = name.replace(theirs, ours)
    return name


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, outputs: int, *, stride: int, normalised: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs // 4, 1)
        self.conv2 = nn.Conv2d(outputs // 4, outputs // 4, 3, stride=stride, padding=1)
        self.conv3 = nn.Conv2d(outputs // 4, outputs, 1)
        self.norm = _norm(normalised)
        self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride)) if stride > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for conv in (self.conv1, self.conv2, self.conv3):
            y = self.norm(conv(y)).relu()
        if self.downsample is not None:
            x = self.norm(self.downsample(x))
        return (x + y).relu()


class _Encoder(nn.Module):
    """A frame to features at 1/8 of its size."""

    def __init__(self, outputs: int, *, normalised: bool) -> None:
        super().__init__()
        self.norm = _norm(normalised)
        self.conv1 = nn.Conv2d(3, 32, 7, stride=2, padding=3)
        self.layer1 = self._stage(32, 32, 1, normalised)
        self.layer2 = self._stage(32, 64, 2, normalised)
        self.layer3 = self._stage(64, 96, 2, normalised)
        self.conv2 = nn.Conv2d(96, outputs, 1)

    @staticmethod
    def _stage(inputs: int, outputs: int, stride: int, normalised: bool) -> nn.Sequential:
        return nn.Sequential(
            _Bottleneck(inputs, outputs, stride=stride, normalised=normalised),
            _Bottleneck(outputs, outputs, stride=1, normalised=normalised),
        )

    def forward(self, image: Tensor) -> Tensor:
        x = self.norm(self.conv1(image)).relu()
        return self.conv2(self.layer3(self.layer2(self.layer1(x))))


class _MotionEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convc1 = nn.Conv2d(_LEVELS * (2 * _RADIUS + 1) ** 2, 96, 1)
        self.convf1 = nn.Conv2d(2, 64, 7, padding=3)
        self.convf2 = nn.Conv2d(64, 32, 3, padding=1)
        self.conv = nn.Conv2d(128, 80, 3, padding=1)

    def forward(self, flow: Tensor, matches: Tensor) -> Tensor:
        motion = self.convf2(self.convf1(flow).relu()).relu()
        joined = torch.cat((self.convc1(matches).relu(), motion), dim=1)
        return torch.cat((self.conv(joined).relu(), flow), dim=1)


class _Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        inputs = _HIDDEN + _CONTEXT + 82
        self.convz = nn.Conv2d(inputs, _HIDDEN, 3, padding=1)
        self.convr = nn.Conv2d(inputs, _HIDDEN, 3, padding=1)
        self.convq = nn.Conv2d(inputs, _HIDDEN, 3, padding=1)

    def forward(self, hidden: Tensor, x: Tensor) -> Tensor:
        joined = torch.cat((hidden, x), dim=1)
        update, reset = self.convz(joined).sigmoid(), self.convr(joined).sigmoid()
        candidate = self.convq(torch.cat((reset * hidden, x), dim=1)).tanh()
        return (1 - update) * hidden + update * candidate


class _FlowHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(_HIDDEN, 128, 3, padding=1)
        self.conv2 = nn.Conv2d(128, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(self.conv1(x).relu())


class _Update(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = _MotionEncoder()
        self.gru = _Gru()
        self.flow_head = _FlowHead()

    def forward(self, hidden: Tensor, context: Tensor, matches: Tensor, flow: Tensor) -> tuple[Tensor, Tensor]:
        motion = self.encoder(flow, matches)
        hidden = self.gru(hidden, torch.cat((context, motion), dim=1))
        return hidden, self.flow_head(hidden)


def _norm(normalised: bool) -> nn.Module:
    # Both norms are without parameters; the affine-free instance norm is one module for any width.
    return _InstanceNorm() if normalised else nn.Identity()


class _InstanceNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.instance_norm(x)


def _correlate(
    first: Tensor,  # [B, C, h, w]
    second: Tensor,  # [B, C, h, w]
) -> list[Tensor]:  # [B*h*w, 1, h / 2^k, w / 2^k]
    """Every place of the first against every place of the second, and this in ever coarser steps."""
    batch, channels, h, w = first.shape
    volume = first.flatten(2).transpose(1, 2) @ second.flatten(2) / channels**0.5
    pyramid = [volume.reshape(batch * h * w, 1, h, w)]
    for _ in range(_LEVELS - 1):
        if min(pyramid[-1].shape[-2:]) < 2:
            break
        pyramid.append(F.avg_pool2d(pyramid[-1], 2))
    return pyramid


def _look_up(
    pyramid: list[Tensor],
    places: Tensor,  # [B, 2, h, w]
) -> Tensor:  # [B, 4 * 49, h, w]
    """The comparison in a 7x7 neighbourhood of each place, at every level. The window runs along x first."""
    batch, _, h, w = places.shape
    steps = torch.arange(-_RADIUS, _RADIUS + 1, device=places.device, dtype=places.dtype)
    window = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), dim=-1)  # [7, 7, 2]: (x, y)
    centres = places.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2)
    found = []
    for level, volume in enumerate(pyramid):
        rows, columns = volume.shape[-2:]
        grid = centres / 2**level + window
        scale = grid.new_tensor((max(columns - 1, 1), max(rows - 1, 1)))
        sampled = F.grid_sample(volume, 2 * grid / scale - 1, align_corners=True)  # [B*h*w, 1, 7, 7]
        found.append(sampled.reshape(batch, h, w, -1))
    missing = _LEVELS - len(found)
    if missing:  # a frame so small that a level has no pixels
        found += [torch.zeros_like(found[0])] * missing
    return torch.cat(found, dim=-1).permute(0, 3, 1, 2)


def _pixel_grid(like: Tensor) -> Tensor:  # [B, 2, h, w]
    h, w = like.shape[-2:]
    ys, xs = torch.meshgrid(
        torch.arange(h, device=like.device, dtype=torch.float32),
        torch.arange(w, device=like.device, dtype=torch.float32),
        indexing="ij",
    )
    return torch.stack((xs, ys))[None].expand(like.shape[0], -1, -1, -1)


def _margin(length: int) -> int:
    return (-length % 8) // 2


def _pad(image: Tensor) -> Tensor:
    """Repeat the border on both sides up to a multiple of eight."""
    h, w = image.shape[-2:]
    top, left = _margin(h), _margin(w)
    return F.pad(image, (left, -w % 8 - left, top, -h % 8 - top), mode="replicate")
