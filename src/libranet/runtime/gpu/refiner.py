"""The refiner and the colour field on half-precision channels-last maps, as a sequence of fused kernels."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from libranet.kernels.color_field.gpu import apply_field_out
from libranet.kernels.conv3x3.gpu import conv3x3_out
from libranet.kernels.conv3x3.reference import GROUPS, pack_weight
from libranet.kernels.frame_io.reference import pack_cell_weight, pack_project
from libranet.kernels.norm_mix.gpu import fold_sums_out, normalise_mix_out, structure_apply_out, structure_sums_out
from libranet.kernels.norm_mix.reference import pack_structure_weight
from libranet.kernels.tiles import STRUCTURE_TILE, SUMS_STRIP, ConvTile, PixelTile
from libranet.network.layers import Refiner, RefinerBlock, RefinerStream, conv_of
from libranet.runtime.gpu.store import FrameStore
from libranet.runtime.gpu.support import supports_weight_stationary


@dataclass(frozen=True)
class RefinerTiles:
    """Tile configuration of each kernel. The defaults are the fastest on an H200 at 3840x2160, 2026-11-15 (ms a map):

    | kernel | weight-stationary | otherwise | ms | runner-up | ms |
    |---|---|---|---|---|---|
    | stem and block, 64 to 64 with sums | 0.068 | 3x64k32cw4s2 | 0.096 | 2x128k32cw4s2 | 0.108 |
    | join, 128 to 64 with bias | 0.126 | 3x64k32pw4s2 | 0.158 | 3x64k32cw4s2 | 0.162 |
    | project, 64 to 64 with bias | 0.064 | 3x64k32pw4s2 | 0.096 | 3x64k32cw4s2 | 0.096 |
    | norm + GELU + mix + skip | 0.057 | 64w4 | 0.063 | 64w4, both maps asked for first | 0.069 |
    | norm + GELU | | 64w4 | 0.036 | 128w8 | 0.037 |
    | frame write | | 32 cells, 4 warps | 0.067 | 64 cells, 4 warps | 0.075 |
    | structure stream's sums | | 128 pixels, 4 warps | 0.015 | 256 pixels, 8 warps | 0.020 |
    | structure stream's first map | | 128 pixels, 4 warps | 0.041 | 64 pixels, 4 warps | 0.045 |
    """

    stem: ConvTile = field(default_factory=lambda: ConvTile(3, 64, 32, False, 4, 2))
    """The detail stream's first convolution."""
    block: ConvTile = field(default_factory=lambda: ConvTile(3, 64, 32, False, 4, 2))
    join: ConvTile = field(default_factory=lambda: ConvTile(3, 64, 32, True, 4, 2))
    project: ConvTile = field(default_factory=lambda: ConvTile(3, 64, 32, True, 4, 2))
    weight_stationary: bool = True
    """Use the weight-stationary kernels where the GPU has them (`support.supports_weight_stationary`). Those choose
    their own tiles: the four above, and `point` with a mix, are for other GPUs."""
    point: PixelTile = field(default_factory=lambda: PixelTile(64, 4))
    """Norm + GELU, with and without mix and skip."""
    write: PixelTile = field(default_factory=lambda: PixelTile(32, 4))
    """The frame's write, in cells."""
    structure_apply: PixelTile = field(default_factory=lambda: PixelTile(128, 4))
    """The structure stream's first map."""


@dataclass(frozen=True)
class Norm:
    """A GroupNorm's parameters; both encoders' together are [2, C]."""

    weight: Tensor  # [C] fp32
    bias: Tensor  # [C] fp32
    eps: float


@dataclass(frozen=True)
class _Block:
    """A residual block's weights as the kernels read them."""

    conv: Tensor  # [9, C, C] fp16
    norm: Norm
    mix: Tensor  # [C, C] fp16
    mix_bias: Tensor  # [C] fp32


class RefinerBuffers:
    """Everything the refiner writes, for B frames of one size. A 4K frame at width 64 takes 0.30 GB:

    `wide` 133 MB (cells, then the joined streams, then the residual), `raw` 66, `x` 66, `low`, `small`, `delta` 6 each,
    `rows` 9, `sums` 2.
    """

    def __init__(
        self,
        batch: int,
        height: int,
        width: int,
        *,
        channels: int,
        grid: tuple[int, int],
        device: torch.device,
    ) -> None:
        def make(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
            return torch.empty(batch, *shape, dtype=dtype, device=device)

        h, w, (bins, side) = height // 4, width // 4, grid
        self.shape = (batch, h, w)
        self.raw = make(h, w, channels)
        self.x = make(h, w, channels)
        # Cells are read for the last time before a stream writes its half of the joined map, and that is read for the
        # last time before the last convolution writes its 64 channels (a cell's rows, padded): one place for all three.
        wide = make(h * w * max(2 * channels, 64)).view(-1)
        self.cells, self.joined, self.residual = (
            wide[: batch * h * w * count].view(batch, h, w, count) for count in (64, 2 * channels, 64)
        )
        self.low, self.small, self.delta = (make(3, h, w, dtype=torch.float32) for _ in range(3))
        self.rows = make(h, 2, bins, side, 16, dtype=torch.float32)
        self.fold = make(2, channels, dtype=torch.float32)
        most = max(h * -(-w // 16), h * STRUCTURE_TILE.parts(w))
        self.sums = torch.empty(batch * most * 2 * GROUPS, dtype=torch.float32, device=device)

    def sums_for(self, parts: int) -> Tensor:  # [B, parts, 2, 8]
        return self.sums[: self.shape[0] * parts * 2 * GROUPS].view(self.shape[0], parts, 2, GROUPS)


class FusedRefiner:
    """Runs a `Refiner` by kernels. What it computes is what the module computes, up to half-precision rounding."""

    def __init__(self, refiner: Refiner, device: torch.device, tiles: RefinerTiles | None = None) -> None:
        self.device, self.tiles = device, tiles or RefinerTiles()
        self.width = refiner.join.weight.shape[0]
        self.weight_stationary = self.tiles.weight_stationary and supports_weight_stationary(self.width, device)
        detail_stem = conv_of(refiner.detail[0])
        self.detail_stem = pack_weight(pack_cell_weight(detail_stem.weight.float())).to(device)
        self.detail_norm = self._norm(refiner.detail[1])
        self.detail_blocks = self._blocks(refiner.detail)
        self.structure_stem = pack_structure_weight(conv_of(refiner.structure[0]).weight).to(device)
        self.structure_norm = self._norm(refiner.structure[1])
        self.structure_blocks = self._blocks(refiner.structure)
        self.join = pack_weight(refiner.join.weight).to(device)
        self.join_bias = bias_of(refiner.join).to(device)
        self.fusion_blocks = self._blocks(refiner.fusion)
        weight, bias = pack_project(refiner.project.weight.detach().float(), bias_of(refiner.project))
        self.project, self.project_bias = pack_weight(weight).to(device), bias.to(device)

    def read_frames(self, frames: FrameStore, first: int, buffers: RefinerBuffers) -> None:
        """Down(I) and the cells of B frames of the ring."""
        frames.read_cells(first, buffers.low, buffers.cells)

    def run_detail(self, buffers: RefinerBuffers) -> None:
        """The stream that looks at the frames themselves. Needs no grids, so it can run beside the encoders."""
        b = buffers
        self._convolve_and_fold(b.cells, self.detail_stem, b, self.tiles.stem, self.detail_norm)
        normalise_mix_out(b.raw, b.fold, b.x, tile=self.tiles.point)
        self._run_blocks(self.detail_blocks, b, b.joined[..., : self.width])

    def run_field(self, chromatic: Tensor, plane: Tensor, strength: Tensor, buffers: RefinerBuffers) -> None:
        b = buffers
        apply_field_out(b.low, chromatic, plane, strength, b.small, b.delta, scratch=b.rows)

    def run_structure(self, buffers: RefinerBuffers) -> None:
        """The stream that looks at the restored small frames."""
        b = buffers
        _, height, width = b.shape
        sums = b.sums_for(height * STRUCTURE_TILE.parts(width))
        structure_sums_out(b.small, self.structure_stem, sums)
        self._fold(sums, self.structure_norm, b)
        structure_apply_out(b.small, self.structure_stem, b.fold, b.x, tile=self.tiles.structure_apply)
        self._run_blocks(self.structure_blocks, b, b.joined[..., self.width :])

    def run_fusion(self, buffers: RefinerBuffers) -> None:
        """Join both streams. Writes `x`."""
        b = buffers
        self.convolve(b.joined, self.join, b.x, self.tiles.join, bias=self.join_bias)
        self._run_blocks(self.fusion_blocks, b, b.x)

    def run_project(self, buffers: RefinerBuffers) -> None:
        """The last convolution. Writes `residual`."""
        b = buffers
        self.convolve(b.x, self.project, b.residual, self.tiles.project, bias=self.project_bias)

    def write_frames(
        self, frames: FrameStore, first: int, strength: Tensor, parity: int, buffers: RefinerBuffers
    ) -> None:
        """Frames, colour correction and residual added up. Writes one set of results."""
        b = buffers
        frames.finish(first, b.residual, b.delta, strength, parity, self.tiles.write)

    def convolve(
        self,
        x: Tensor,
        weight: Tensor,
        out: Tensor,
        tile: ConvTile,
        *,
        bias: Tensor | None = None,
        sums: Tensor | None = None,
    ) -> None:
        """A 3x3 convolution by the kernel that this GPU has."""
        if self.weight_stationary:
            from libranet.kernels.conv3x3 import hopper

            hopper.conv3x3_out(x, weight, out, bias=bias, sums=sums)
        else:
            conv3x3_out(x, weight, out, bias=bias, sums=sums, tile=tile)

    def sums_of(self, tile: ConvTile, b: RefinerBuffers) -> Tensor:  # [B, parts, 2, 8]
        """Where `convolve` leaves its partial sums."""
        _, height, width = b.shape
        return b.sums_for((SUMS_STRIP if self.weight_stationary else tile).parts(height, width))

    def _convolve_and_fold(self, x: Tensor, weight: Tensor, b: RefinerBuffers, tile: ConvTile, norm: Norm) -> None:
        """Convolve into `raw`, its GroupNorm into `fold`."""
        sums = self.sums_of(tile, b)
        self.convolve(x, weight, b.raw, tile, sums=sums)
        self._fold(sums, norm, b)

    def _fold(self, sums: Tensor, norm: Norm, b: RefinerBuffers) -> None:
        count = b.shape[1] * b.shape[2] * (self.width // GROUPS)
        fold_sums_out(sums, norm.weight, norm.bias, b.fold, count=count, eps=norm.eps)

    def _run_blocks(self, blocks: list[_Block], b: RefinerBuffers, out: Tensor) -> None:
        """Residual blocks on `x`; the last one writes to `out`."""
        for number, block in enumerate(blocks, 1):
            self._convolve_and_fold(b.x, block.conv, b, self.tiles.block, block.norm)
            target = out if number == len(blocks) else b.x
            self.mix(block, b, target)

    def mix(self, block: _Block, b: RefinerBuffers, out: Tensor) -> None:
        """A block after its convolution: normalise `raw`, GELU, 1x1 mix, `x` added."""
        if self.weight_stationary:
            from libranet.kernels.norm_mix import hopper

            hopper.normalise_mix_out(b.raw, b.fold, out, skip=b.x, mix=block.mix, mix_bias=block.mix_bias)
        else:
            normalise_mix_out(
                b.raw, b.fold, out, skip=b.x, mix=block.mix, mix_bias=block.mix_bias, tile=self.tiles.point
            )

    def _blocks(self, stream: RefinerStream | nn.Sequential) -> list[_Block]:
        blocks = [layer for layer in stream if isinstance(layer, RefinerBlock)]
        return [
            _Block(
                pack_weight(block.conv.weight).to(self.device),
                self._norm(block.norm),
                block.mix.weight.detach().flatten(1).half().contiguous().to(self.device),
                bias_of(block.mix).to(self.device),
            )
            for block in blocks
        ]

    def _norm(self, norm: nn.Module) -> Norm:
        assert isinstance(norm, nn.GroupNorm)
        return Norm(norm.weight.detach().float().to(self.device), norm.bias.detach().float().to(self.device), norm.eps)


def bias_of(conv: nn.Conv2d) -> Tensor:
    assert conv.bias is not None
    return conv.bias.detach().float().contiguous()
