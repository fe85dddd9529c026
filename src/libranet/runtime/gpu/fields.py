"""Both fields in half precision: two encoders in one chain of kernels, the mix along time, and both heads."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from libranet.kernels.conv3x3.reference import GROUPS
from libranet.kernels.encoder_layers.gpu import conv_out, normalise_out, stem_out
from libranet.kernels.encoder_layers.reference import make_maps, pack_pairs, pack_stem, pack_weights
from libranet.kernels.temporal_mix.gpu import mix_out
from libranet.kernels.temporal_mix.reference import pack_mix
from libranet.kernels.tiles import STEM_TILE, EncoderTile, power_of_2
from libranet.network.layers import ChromaticField, Encoder, EncoderBlock, GridHead, TemporalField, conv_of
from libranet.runtime.gpu.refiner import Norm, bias_of

CHROMATIC, TEMPORAL = 0, 1  # places of the two encoders along the first axis of every map

TILES = {
    (1, 128, 24, 24): (EncoderTile(64, 1, 2, 64, 32, stages=3, pairs=True), EncoderTile(64, 1, 4, 64, 32, pairs=True)),
    (1, 64, 48, 48): (EncoderTile(64, 1, 2, 64, 16, stages=3), EncoderTile(64, 1, 4, 64, 16, stages=3)),
    (1, 32, 96, 96): (EncoderTile(32, 2, 1, 32, 32, stages=3), EncoderTile(32, 4, 1, 128, 32)),
    (1, 16, 192, 192): (EncoderTile(16, 4, 1, 32, 64, stages=3), EncoderTile(16, 8, 1, 64, 32, stages=3)),
    (2, 64, 24, 48): (EncoderTile(64, 2, 1, 64, 32, stages=3), EncoderTile(64, 2, 1, 64, 32, stages=3)),
    (2, 32, 48, 96): (EncoderTile(32, 2, 1, 32, 64), EncoderTile(32, 4, 1, 128, 16, stages=3)),
    (2, 16, 96, 192): (EncoderTile(16, 4, 1, 32, 32, stages=3), EncoderTile(16, 4, 1, 64, 32, stages=3)),
    (1, 16, 192, 272): (EncoderTile(16, 4, 1, 32, 64, stages=3), EncoderTile(16, 4, 1, 32, 64, stages=3)),
    (1, 16, 272, 192): (EncoderTile(16, 4, 1, 32, 64, stages=3), EncoderTile(16, 4, 1, 64, 64)),
    (1, 16, 272, 12): (EncoderTile(16, 4, 1, 16, 64, stages=3), EncoderTile(16, 4, 1, 16, 64, stages=3)),
}
"""By (stride, output's side, channels in, channels out): the tiles that were fastest on an H200, 2026-11-15, for up to
four maps and for more. Microseconds for one frame, and for sixteen, of stages 1 to 4: blocks 5.5, 36; 6.7, 24; 5.2, 19;
6.6, 18; the way in - ; 5.7, 40; 5.0, 13; 5.5, 12; chromatic head 6.4 + 10.1, 24 + 21, temporal 6.4 + 8.8, 24 + 9."""


def choose_tile(side: int, cin: int, cout: int, maps: int, *, stride: int = 1) -> EncoderTile:
    """The measured tile of the shipped network's layers; for others one that covers them."""
    if measured := TILES.get((stride, side, cin, cout)):
        return measured[maps > 4]
    cols = max(min(power_of_2(side), 64), 8)
    block_n = max(min(power_of_2(cout), 64), 16)
    return EncoderTile(cols, 64 // cols, 1, block_n, 32 if cin > 16 else 16)


@dataclass(frozen=True)
class _Conv:
    """Both encoders' convolution of one layer, and the norm after it."""

    weight: Tensor  # [18, Cout, Cin] fp16; the first layer's as `pack_stem` has it
    norm: Norm


@dataclass(frozen=True)
class _Stage:
    """A convolution with stride 2 and its residual blocks."""

    enter: _Conv
    blocks: list[tuple[_Conv, _Conv]]


class _Maps:
    """What one stage writes."""

    def __init__(self, batch: int, side: int, channels: int, device: torch.device) -> None:
        self.raw = torch.empty(2, batch, side, side, channels, dtype=torch.float16, device=device)
        self.x, self.y = (make_maps(2, batch, side, channels, device) for _ in range(2))


class _Head:
    """A `GridHead`: two convolutions, from channels last to planes."""

    def __init__(self, head: GridHead, batch: int, side: int, device: torch.device) -> None:
        self.expand = pack_weights(_stacked((head.expand,))).to(device)
        self.expand_bias = bias_of(head.expand).to(device)
        self.project = pack_weights(_stacked((head.project,))).to(device)
        self.project_bias = bias_of(head.project).to(device)
        hidden, width = head.expand.weight.shape[:2]
        self.hidden = torch.empty(1, batch, side, side, hidden, dtype=torch.float16, device=device)
        out = head.project.out_channels
        self.tiles = choose_tile(side, width, hidden, batch), choose_tile(side, hidden, out, batch)

    def run(
        self,
        features: Tensor,  # [B, side, side, C] fp16
        out: Tensor,  # [B, ..., side, side] fp32, written
    ) -> None:
        first, second = self.tiles
        conv_out(features[None], self.expand, self.hidden, tile=first, bias=self.expand_bias, activate=True)
        conv_out(self.hidden, self.project, out, tile=second, bias=self.project_bias, planes=True)


class FusedFields:
    """What both fields predict, from a ring of features.

    `encode` and `predict_chroma` turn B new frames into features and chromatic grids; `predict_plane` turns the
    features of B windows into planes of the temporal grid.
    """

    def __init__(
        self,
        chromatic: ChromaticField,
        temporal: TemporalField,
        *,
        batch: int,
        ring: int,
        size: int,
        device: torch.device,
    ) -> None:
        self.batch = batch
        widths = [layer.out_channels for layer in chromatic.encoder.layers if isinstance(layer, nn.Conv2d)]
        sides = [size >> (number + 1) for number in range(len(widths))]
        self.tiles = [
            (choose_tile(side, cin, width, 2 * batch, stride=2), choose_tile(side, width, width, 2 * batch))
            for side, cin, width in zip(sides, (4, *widths[:-1]), widths, strict=True)
        ]
        pairs = [tile.pairs for _, tile in self.tiles]
        self.stages = list(_stages(chromatic.encoder, temporal.encoder, pairs, device))
        self.maps = [_Maps(batch, *shape, device) for shape in zip(sides, widths, strict=True)]
        parts = max(tile.parts(*shape) for pair, *shape in zip(self.tiles, sides, widths, strict=True) for tile in pair)
        parts = max(parts, STEM_TILE.parts(sides[0] ** 2))
        self.sums = torch.empty(2 * batch * parts * 2 * GROUPS, dtype=torch.float32, device=device)
        side, width = sides[-1], widths[-1]

        attention = temporal.attention
        expand, _, shrink = attention.ffn
        assert isinstance(expand, nn.Linear)
        assert isinstance(shrink, nn.Linear)
        self.weights = pack_mix(
            temporal.position, attention.norm1, attention.query, attention.key_value, attention.out, attention.norm2,
            expand, shrink, attention.heads,
        ).to(device)  # fmt: skip
        self.chromatic_head = _Head(chromatic.head, batch, side, device)
        self.temporal_head = _Head(temporal.head, batch, side, device)

        def make(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self.small = make(batch, size, size, 4)
        self.features = make(2, ring, side, side, width)
        # In dense haze A is large and A I + b a small difference of large numbers: grids stay in single precision.
        self.chroma = make(batch, 2, 12, chromatic.bins, side, side, dtype=torch.float32)
        self.keys = make(batch, temporal.window, side * side, self.weights.keys.shape[0])
        self.mixed = make(batch, side, side, width)
        self.plane = make(batch, 12, side, side, dtype=torch.float32)

    def encode(self, slot: int) -> None:
        """Run both encoders on `small`. Writes B places of `features` from `slot` on."""
        out = self.features[:, slot : slot + self.batch]
        x = self.small
        for number, (stage, maps, tiles) in enumerate(zip(self.stages, self.maps, self.tiles, strict=True)):
            last_stage = stage is self.stages[-1]
            if number == 0:
                sums = self._sums(STEM_TILE.parts(maps.raw.shape[2] ** 2))
                stem_out(x, stage.enter.weight, maps.raw, sums)
            else:
                sums = self._convolve(x, stage.enter.weight, maps.raw, tiles[0], stride=2)
            x = out if last_stage and not stage.blocks else maps.x
            _normalise(maps.raw, sums, stage.enter.norm, x)
            for block in stage.blocks:
                first, second = block
                sums = self._convolve(x, first.weight, maps.raw, tiles[1])
                _normalise(maps.raw, sums, first.norm, maps.y)
                sums = self._convolve(maps.y, second.weight, maps.raw, tiles[1])
                target = out if last_stage and block is stage.blocks[-1] else x
                _normalise(maps.raw, sums, second.norm, target, skip=x)

    def predict_chroma(self, slot: int) -> None:
        """Predict the chromatic grids of the frames encoded last, whose features begin at `slot`. Writes `chroma`."""
        self.chromatic_head.run(self.features[CHROMATIC, slot : slot + self.batch], self.chroma)

    def predict_plane(self, windows: Tensor) -> None:  # [B, T] int64, slots of the ring
        """Predict the temporal planes of the windows' centre frames. Writes `plane`."""
        mix_out(self.features[TEMPORAL], windows, self.weights, self.mixed, scratch=self.keys)
        self.temporal_head.run(self.mixed, self.plane)

    def _sums(self, parts: int) -> Tensor:  # [2, B, parts, 2, 8]
        return self.sums[: 2 * self.batch * parts * 2 * GROUPS].view(2, self.batch, parts, 2, GROUPS)

    def _convolve(self, x: Tensor, weight: Tensor, out: Tensor, tile: EncoderTile, *, stride: int = 1) -> Tensor:
        sums = self._sums(tile.parts(*out.shape[3:]))
        conv_out(x, weight, out, tile=tile, stride=stride, sums=sums)
        return sums


def _normalise(raw: Tensor, sums: Tensor, norm: Norm, out: Tensor, *, skip: Tensor | None = None) -> None:
    normalise_out(raw, sums, norm.weight, norm.bias, out, eps=norm.eps, skip=skip)


def _stages(
    first: Encoder,
    second: Encoder,
    pairs: list[bool],  # for each stage, how its blocks' weights are packed
    device: torch.device,
) -> Iterator[_Stage]:
    """Both encoders' layers, stage by stage, weights stacked."""
    both = list(zip(first.layers, second.layers, strict=True))
    starts = [index for index, (layer, _) in enumerate(both) if isinstance(layer, nn.Conv2d)]
    for start, end, paired in zip(starts, [*starts[1:], len(both)], pairs, strict=True):
        pack = pack_pairs if paired else pack_weights
        blocks = []
        for layers in both[start + 3 : end]:
            branches = []
            for block in layers:
                assert isinstance(block, EncoderBlock)
                branches.append(block.branch)
            (conv1, norm1, _, conv2, norm2) = zip(*branches, strict=True)
            blocks.append((_layer(conv1, norm1, pack, device), _layer(conv2, norm2, pack, device)))
        pack = pack_weights if start else pack_stem
        yield _Stage(_layer(both[start], both[start + 1], pack, device), blocks)


def _layer(
    convs: tuple[nn.Module, ...],
    norms: tuple[nn.Module, ...],
    pack: Callable[[Tensor], Tensor],
    device: torch.device,
) -> _Conv:
    weights, biases = [], []
    for norm in norms:
        assert isinstance(norm, nn.GroupNorm)
        weights.append(norm.weight.detach().float())
        biases.append(norm.bias.detach().float())
        eps = norm.eps
    norm_of_both = Norm(torch.stack(weights).to(device), torch.stack(biases).to(device), eps)
    return _Conv(pack(_stacked(convs)).to(device), norm_of_both)


def _stacked(convs: tuple[nn.Module, ...]) -> Tensor:  # [2, Cout, Cin, 3, 3] fp32
    return torch.stack([conv_of(conv).weight.detach().float() for conv in convs])
