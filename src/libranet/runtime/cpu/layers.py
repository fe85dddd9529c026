"""The network's layers by our own CPU kernels: channels last, norms without own passes.

Maps and products are in float32, or in bfloat16 with sums in float32.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from libranet.kernels.conv3x3.panels import (
    Weights,
    convolve,
    convolve_patches,
    make_map,
    pack_patches,
    pack_winograd,
    whole_panels,
)
from libranet.kernels.conv3x3.reference import GROUPS
from libranet.kernels.norm_mix.panels import fold_sums, normalise, normalise_mix
from libranet.network.layers import Encoder, EncoderBlock, GridHead, Refiner, RefinerBlock, conv_of

Size = tuple[int, int]
Kind = type[np.generic]  # how maps are stored: np.float32, or np.uint16 for bfloat16


class _Norm:
    """A GroupNorm, folded into a factor and a summand once the sums are known."""

    def __init__(self, norm: nn.Module) -> None:
        assert isinstance(norm, nn.GroupNorm)
        self.weight, self.bias = (p.detach().float().numpy() for p in (norm.weight, norm.bias))
        self.eps = norm.eps

    def fold(self, sums: np.ndarray, size: Size) -> np.ndarray:  # [parts, 2, C] -> [2, C']
        return fold_sums(sums, self.weight, self.bias, count=size[0] * size[1], groups=GROUPS, eps=self.eps)


class _Block:
    """A residual block of the refiner."""

    def __init__(self, block: RefinerBlock, kind: Kind) -> None:
        self.conv, self.norm = pack_winograd(block.conv.weight, dtype=kind), _Norm(block.norm)
        self.mix = pack_patches(block.mix.weight, block.mix.bias, kind)


class CpuRefiner:
    """A refiner for frames of one size after the other."""

    def __init__(self, refiner: Refiner, kind: Kind = np.float32) -> None:
        self._kind = kind
        self._stem = pack_winograd(_order_cells(conv_of(refiner.detail[0]).weight, 1), dtype=kind)
        self._detail_norm, self._structure_norm = _Norm(refiner.detail[1]), _Norm(refiner.structure[1])
        self._structure = pack_patches(conv_of(refiner.structure[0]).weight)
        self._detail_blocks, self._structure_blocks = _blocks(refiner.detail, kind), _blocks(refiner.structure, kind)
        self.channels = whole_panels(refiner.join.out_channels)
        self._join = pack_winograd(_spread_halves(refiner.join.weight, self.channels), refiner.join.bias, kind)
        self._fusion = _blocks(refiner.fusion, kind)
        assert refiner.project.bias is not None
        weight, bias = (_order_cells(part, 0) for part in (refiner.project.weight, refiner.project.bias))
        self._project = pack_winograd(weight, bias, kind)

    def begin(self, height: int, width: int) -> None:
        """Make the maps, of this size."""
        kind, self.size = self._kind, (height, width)
        self._raw, self._x = (make_map(height, width, self.channels, kind) for _ in range(2))
        self._joined = make_map(height, width, 2 * self.channels, kind)
        self._small = make_map(height, width, 3)
        self.residual = make_map(height, width, self._project.outputs)
        """The result of the last call in float32, channels as the cells'."""

    def make_cells(self) -> np.ndarray:  # [H', W', 48]
        return make_map(*self.size, self._stem.inputs, self._kind)

    def __call__(
        self,
        cells: np.ndarray,  # [H', W', 48]
        small: Tensor,  # [1, 3, h, w]
    ) -> np.ndarray:  # [H', W', 48]
        (h, w), raw, x = self.size, self._raw, self._x
        normalise(raw, self._detail_norm.fold(convolve(cells, self._stem, raw, self.size), self.size), x, self.size)
        self._run(self._detail_blocks, self._joined, 0)
        self._small[1 : h + 1, 1 : w + 1] = small[0].permute(1, 2, 0).numpy()
        sums = convolve_patches(self._small, self._structure, raw, self.size)
        normalise(raw, self._structure_norm.fold(sums, self.size), x, self.size)
        self._run(self._structure_blocks, self._joined, self.channels)
        convolve(self._joined, self._join, x, self.size)
        self._run(self._fusion, x, 0)
        convolve(x, self._project, self.residual, self.size)
        return self.residual

    def _run(self, blocks: Sequence[_Block], out: np.ndarray, first: int) -> None:
        """Residual blocks on `x`; the last one writes to `out`."""
        for number, block in enumerate(blocks, 1):
            folded = block.norm.fold(convolve(self._x, block.conv, self._raw, self.size), self.size)
            last = number == len(blocks)
            normalise_mix(
                self._raw, folded, self._x, block.mix, out if last else self._x, self.size, first=first if last else 0
            )


class CpuEncoder:
    """An encoder, and a head behind it where one is given."""

    def __init__(self, encoder: Encoder, side: int, head: GridHead | None = None, *, kind: Kind = np.float32) -> None:
        self.side, self._kind = side, kind
        self._steps: list[Callable[[np.ndarray], np.ndarray]] = []
        layers = list(encoder.layers)
        while layers:
            layer = layers.pop(0)
            if isinstance(layer, nn.Conv2d):
                side //= 2
                norm, _ = layers.pop(0), layers.pop(0)
                # The frame itself stays in float32.
                weights = pack_patches(layer.weight, dtype=kind if self._steps else np.float32)
                self._steps.append(self._reduce(weights, _Norm(norm), (side, side)))
            else:
                assert isinstance(layer, EncoderBlock)
                self._steps.append(self._block(layer.branch, (side, side)))
        self._size = side, side
        self._input = make_map(self.side, self.side, 3)
        if head is not None:
            self._steps.append(_head(head, self._size, kind))
        self._outputs = encoder.width if head is None else head.project.out_channels

    def __call__(self, small: Tensor) -> Tensor:  # [1, 3, 256, 256] -> [1, C, 16, 16]
        self._input[1:-1, 1:-1] = small[0].permute(1, 2, 0).numpy()
        x = self._input
        for step in self._steps:
            x = step(x)
        h, w = self._size
        found = x[1 : h + 1, 1 : w + 1, : self._outputs].transpose(2, 0, 1)[None].copy()
        if found.dtype == np.uint16:
            return torch.from_numpy(found.view(np.int16)).view(torch.bfloat16).float()
        return torch.from_numpy(found)

    def _reduce(self, weights: Weights, norm: _Norm, size: Size) -> Callable[[np.ndarray], np.ndarray]:
        out = make_map(*size, whole_panels(weights.outputs), self._kind)

        def run(x: np.ndarray) -> np.ndarray:
            normalise(out, norm.fold(convolve_patches(x, weights, out, size, stride=2), size), out, size)
            return out

        return run

    def _block(self, branch: nn.Sequential, size: Size) -> Callable[[np.ndarray], np.ndarray]:
        first, second = (pack_winograd(conv_of(branch[index]).weight, dtype=self._kind) for index in (0, 3))
        before, after = _Norm(branch[1]), _Norm(branch[4])
        raw, inner = (make_map(*size, first.inputs, self._kind) for _ in range(2))

        def run(x: np.ndarray) -> np.ndarray:
            normalise(raw, before.fold(convolve(x, first, raw, size), size), inner, size)
            normalise(raw, after.fold(convolve(inner, second, raw, size), size), x, size, skip=x)
            return x

        return run


def _head(head: GridHead, size: Size, kind: Kind) -> Callable[[np.ndarray], np.ndarray]:
    expand = pack_winograd(head.expand.weight, head.expand.bias, kind)
    project = pack_winograd(head.project.weight, head.project.bias, kind)
    hidden = make_map(*size, project.inputs, kind)
    out = make_map(*size, whole_panels(project.outputs))  # in float32: small errors here move the colour of a frame
    as_it_is = np.zeros((2, project.inputs), np.float32)
    as_it_is[0] = 1.0

    def run(x: np.ndarray) -> np.ndarray:
        convolve(x, expand, hidden, size)
        normalise(hidden, as_it_is, hidden, size)
        convolve(hidden, project, out, size)
        return out

    return run


def _order_cells(values: Tensor, axis: int) -> Tensor:
    """Reorder an axis from PixelUnshuffle's (colour, row, column) to the cells' (row, colour, column)."""
    return values.unflatten(axis, (3, 4, 4)).transpose(axis, axis + 1).flatten(axis, axis + 2)


def _spread_halves(weight: Tensor, channels: int) -> Tensor:  # [Cout, 2 C, 3, 3] -> [Cout, 2 channels, 3, 3]
    """Zeros behind each half of the inputs: the streams that are joined have whole panels."""
    spread = weight.new_zeros(len(weight), 2, channels, 3, 3)
    spread[:, :, : weight.shape[1] // 2] = weight.detach().unflatten(1, (2, -1))
    return spread.flatten(1, 2)


def _blocks(stream: nn.Sequential, kind: Kind) -> list[_Block]:
    return [_Block(layer, kind) for layer in stream if isinstance(layer, RefinerBlock)]
