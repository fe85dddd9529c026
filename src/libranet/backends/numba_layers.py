"""The network's layers by our own CPU kernels, compiled by numba: float32, channels last, norms without own passes."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from libranet.kernels.conv3x3.panels import Weights, convolve, convolve_patches, make_map, pack_patches, pack_winograd
from libranet.kernels.conv3x3.reference import GROUPS
from libranet.kernels.norm_mix.panels import fold_sums, normalise, normalise_mix
from libranet.models.layers import Encoder, EncoderBlock, GridHead, Refiner, RefinerBlock

Size = tuple[int, int]


class _Norm:
    """A GroupNorm, folded into a factor and a summand once the sums are known."""

    def __init__(self, norm: nn.Module) -> None:
        assert isinstance(norm, nn.GroupNorm)
        self.weight, self.bias = (p.detach().float().numpy() for p in (norm.weight, norm.bias))
        self.eps = norm.eps

    def fold(self, sums: np.ndarray, size: Size) -> np.ndarray:  # [parts, 2, C] -> [2, C]
        return fold_sums(sums, self.weight, self.bias, count=size[0] * size[1], groups=GROUPS, eps=self.eps)


class _Block:
    """A residual block of the refiner."""

    def __init__(self, block: RefinerBlock) -> None:
        self.conv, self.norm = pack_winograd(block.conv.weight), _Norm(block.norm)
        self.mix = pack_patches(block.mix.weight, block.mix.bias)


class NumbaRefiner:
    """A refiner for frames of one size."""

    border = 1
    """Pixels of zeros around maps."""

    def __init__(self, refiner: Refiner, height: int, width: int) -> None:
        """Pack the weights and make the maps.

        Args:
            refiner: Its 1x1 mixes and its scale of 4 are what the kernels cover.
            height: Of the maps.
            width: Of the maps.
        """
        self.size = height, width
        self._stem = pack_winograd(_order_cells(_conv(refiner.detail[0]).weight, 1))
        self._detail_norm, self._structure_norm = _Norm(refiner.detail[1]), _Norm(refiner.structure[1])
        self._structure = pack_patches(_conv(refiner.structure[0]).weight)
        self._detail_blocks, self._structure_blocks = _blocks(refiner.detail), _blocks(refiner.structure)
        self._join = pack_winograd(refiner.join.weight, refiner.join.bias)
        self._fusion = _blocks(refiner.fusion)
        assert refiner.project.bias is not None
        last = (_order_cells(part, 0) for part in (refiner.project.weight, refiner.project.bias))
        self._project = pack_winograd(*last)
        self.channels = self._join.outputs
        self._raw, self._x = (make_map(height, width, self.channels) for _ in range(2))
        self._joined = make_map(height, width, 2 * self.channels)
        self._small = make_map(height, width, 3)
        self.residual = make_map(height, width, self._project.outputs)
        """The result of the last call, channels as the cells'."""

    def make_cells(self) -> np.ndarray:  # [H', W', 48]
        """A map for the cells of a frame."""
        return make_map(*self.size, self._stem.inputs)

    def __call__(
        self,
        cells: np.ndarray,  # [H', W', 48]
        small: Tensor,  # [1, 3, h, w]
    ) -> np.ndarray:  # [H', W', 48]
        """Refine a frame."""
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

    def refine_cells(self, cells: Tensor, small: Tensor) -> Tensor:  # [1, 48, h, w], [1, 3, h, w] -> [1, 48, h, w]
        """What `Refiner.refine_cells` computes, with PixelUnshuffle's order of channels."""
        h, w = self.size
        given = self.make_cells()
        given[1 : h + 1, 1 : w + 1] = _order_cells(cells[0], 0).permute(1, 2, 0).numpy()
        found = torch.from_numpy(self(given, small)[1 : h + 1, 1 : w + 1]).permute(2, 0, 1)
        return found.unflatten(0, (4, 3, 4)).transpose(0, 1).flatten(0, 2)[None].contiguous()

    def _run(self, blocks: Sequence[_Block], out: np.ndarray, first: int) -> None:
        """Residual blocks on `x`; the last one writes to `out`."""
        for number, block in enumerate(blocks, 1):
            folded = block.norm.fold(convolve(self._x, block.conv, self._raw, self.size), self.size)
            last = number == len(blocks)
            normalise_mix(
                self._raw, folded, self._x, block.mix, out if last else self._x, self.size, first=first if last else 0
            )


class NumbaEncoder:
    """An encoder, and a head behind it where one is given."""

    def __init__(self, encoder: Encoder, side: int, head: GridHead | None = None) -> None:
        self.side = side
        self._steps: list[Callable[[np.ndarray], np.ndarray]] = []
        layers = list(encoder.layers)
        while layers:
            layer = layers.pop(0)
            if isinstance(layer, nn.Conv2d):
                side //= 2
                norm, _ = layers.pop(0), layers.pop(0)
                self._steps.append(self._reduce(pack_patches(layer.weight), _Norm(norm), (side, side)))
            else:
                assert isinstance(layer, EncoderBlock)
                self._steps.append(self._block(layer.branch, (side, side)))
        self._size = side, side
        self._input = make_map(self.side, self.side, 3)
        if head is not None:
            self._steps.append(_head(head, self._size))

    def __call__(self, small: Tensor) -> Tensor:  # [1, 3, 256, 256] -> [1, C, 16, 16]
        self._input[1:-1, 1:-1] = small[0].permute(1, 2, 0).numpy()
        x = self._input
        for step in self._steps:
            x = step(x)
        h, w = self._size
        return torch.from_numpy(x[1 : h + 1, 1 : w + 1].transpose(2, 0, 1)[None].copy())

    @staticmethod
    def _reduce(weights: Weights, norm: _Norm, size: Size) -> Callable[[np.ndarray], np.ndarray]:
        out = make_map(*size, weights.outputs)

        def run(x: np.ndarray) -> np.ndarray:
            normalise(out, norm.fold(convolve_patches(x, weights, out, size, stride=2), size), out, size)
            return out

        return run

    @staticmethod
    def _block(branch: nn.Sequential, size: Size) -> Callable[[np.ndarray], np.ndarray]:
        first, second = (pack_winograd(_conv(branch[index]).weight) for index in (0, 3))
        before, after = _Norm(branch[1]), _Norm(branch[4])
        raw, inner = (make_map(*size, first.outputs) for _ in range(2))

        def run(x: np.ndarray) -> np.ndarray:
            normalise(raw, before.fold(convolve(x, first, raw, size), size), inner, size)
            normalise(raw, after.fold(convolve(inner, second, raw, size), size), x, size, skip=x)
            return x

        return run


def _head(head: GridHead, size: Size) -> Callable[[np.ndarray], np.ndarray]:
    expand = pack_winograd(head.expand.weight, head.expand.bias)
    project = pack_winograd(head.project.weight, head.project.bias)
    hidden, out = make_map(*size, expand.outputs), make_map(*size, -(-project.outputs // 8) * 8)
    as_it_is = np.stack([np.ones(expand.outputs), np.zeros(expand.outputs)]).astype(np.float32)

    def run(x: np.ndarray) -> np.ndarray:
        convolve(x, expand, hidden, size)
        normalise(hidden, as_it_is, hidden, size)
        convolve(hidden, project, out, size)
        return out[:, :, : project.outputs]

    return run


def _order_cells(values: Tensor, axis: int) -> Tensor:
    """Reorder an axis from PixelUnshuffle's (colour, row, column) to the cells' (row, colour, column)."""
    return values.unflatten(axis, (3, 4, 4)).transpose(axis, axis + 1).flatten(axis, axis + 2)


def _blocks(stream: nn.Sequential) -> list[_Block]:
    return [_Block(layer) for layer in stream if isinstance(layer, RefinerBlock)]


def _conv(layer: nn.Module) -> nn.Conv2d:
    assert isinstance(layer, nn.Conv2d)
    return layer
