"""Frames in their own samples on a CPU: one pass that reads a frame, one that writes its change (`panels.c`).

`reference.py` says what they compute; here maps have borders and float32 values (`conv3x3.panels.make_map`). A row is
turned into RGB in a buffer that stays in the cache, so no RGB frame is ever stored.
"""

import ctypes
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from libranet.frames import ColorConverter, FrameFormat
from libranet.kernels.bands import resize_matrix
from libranet.kernels.conv3x3.panels import check_map
from libranet.kernels.native.library import address, call
from libranet.kernels.samples.reference import MODELS, SampleCodes

CELL = 4
CHANNELS = 3 * CELL * CELL
BAND = 64  # rows of a frame that one thread works on
PACKED = len(MODELS)  # the model of interleaved RGB, whose rows are [3 w]
KINDS = {torch.uint8: 0, torch.uint16: 1, torch.float32: 2}


class _Samples(ctypes.Structure):
    """`struct samples` of panels.c."""

    _fields_ = [
        ("numbers", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("model", "kind", "height", "width", "whole_height", "whole_width")),
        *((name, ctypes.c_int64) for name in ("chroma_height", "chroma_width", "x_step")),
        *((name, ctypes.c_void_p) for name in ("x_weights", "pairs", "between")),
        *((name, ctypes.c_int64) for name in ("x_offset", "x_count")),
        ("x_means", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("y_step", "y_offset", "y_count")),
        ("y_means", ctypes.c_void_p),
    ]


class _Reduction(ctypes.Structure):
    """`struct reduction` of panels.c."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("first", "pair", "start", "taps")),
        *((name, ctypes.c_int64) for name in ("columns", "count", "rows", "most")),
        ("parts", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Axis:
    """An antialiased reduction of one axis, once by its inputs and once by its outputs."""

    first: np.ndarray  # [size], the first output that an input counts for
    pair: np.ndarray  # [size, 2], its weight there and in the next one
    start: np.ndarray  # [target], the first input that counts for an output
    taps: np.ndarray  # [target, n], the weights from there on

    @classmethod
    def make(cls, size: int, target: int) -> "Axis | None":
        """None where an input counts for more than two outputs: where the axis is enlarged."""
        matrix = resize_matrix(size, target).numpy()
        used = matrix != 0
        if used.sum(axis=1).max() > 2:
            return None
        first = np.minimum(used.argmax(axis=1), target - 2)
        pair = np.stack([matrix[range(size), first], matrix[range(size), first + 1]], axis=1)
        start, count = used.argmax(axis=0), int(used.sum(axis=0).max())
        start = np.minimum(start, size - count)
        taps = np.stack([matrix[begin : begin + count, column] for column, begin in enumerate(start)])
        return cls(first.astype(np.int64), np.ascontiguousarray(pair), start.astype(np.int64), taps)


class Reduction:
    """An antialiased reduction of a frame, as the kernel adds it up band by band."""

    def __init__(self, down: Axis, across: Axis) -> None:
        bands = np.split(down.first, range(BAND, len(down.first), BAND))
        most = max(int(part[-1] - part[0]) + 2 for part in bands)
        self.size = len(down.start), len(across.start)
        parts = np.zeros((len(bands), most, 3, self.size[1]), np.float32)
        self._kept = down.first, down.pair, across.start, across.taps, parts
        *before, at_parts = map(address, self._kept)
        self.code = _Reduction(*before, self.size[1], across.taps.shape[1], self.size[0], most, at_parts)

    def empty(self) -> np.ndarray:  # [3, h, w]
        return np.empty((3, *self.size), np.float32)


class SampleFormat:
    """Everything about a frame format that the kernels need, as numbers in arrays."""

    def __init__(self, format_: FrameFormat, encoder_size: int) -> None:
        self.format = format_
        layout, h, w = format_.layout, format_.height, format_.width
        height, width = -(-h // CELL) * CELL, -(-w // CELL) * CELL  # in whole cells
        self.cells = (height // CELL, width // CELL)
        self._low, self._small = (
            None if down is None or across is None else Reduction(down, across)
            for down, across in (
                (Axis.make(height, target_h), Axis.make(width, target_w))
                for target_h, target_w in (self.cells, (encoder_size, encoder_size))
            )
        )
        self.reduces = self._low is not None and self._small is not None
        """Whether `read` covers this size; images smaller than the encoders' input are enlarged."""
        codes = SampleCodes.make(format_, torch.device("cpu"))
        self._packed, self._model = layout.packed, codes.model
        across, down = (
            _ChromaAxis(step, phase)
            for step, phase in zip(
                (layout.sub_x, layout.sub_y), ColorConverter(layout, format_.color).cosited, strict=True
            )
        )
        chroma = format_.plane_sizes[-1]
        self._kept = codes.numbers.numpy(), across.weights, *down.rows(h, chroma[0]), across.means, down.means
        numbers, weights, pairs, between, x_means, y_means = map(address, self._kept)
        self._code = _Samples(
            numbers, PACKED if layout.packed else codes.model, KINDS[layout.dtype], h, w, height, width, *chroma,
            across.step, weights, pairs, between, across.offset, len(across.means), x_means,
            down.step, down.offset, len(down.means), y_means,
        )  # fmt: skip

    def _split(self, planes: tuple[Tensor, ...]) -> list[np.ndarray]:
        """Red, green and blue, or Y, Cb and Cr; gray and packed planes three times."""
        expected = [shape[1:] for shape in self.format.plane_shapes(1)]
        arrays = [plane.numpy() for plane in planes[: len(expected)]]
        if [array.shape for array in arrays] != expected or any(p.dtype != self.format.layout.dtype for p in planes):
            shapes = [tuple(plane.shape) for plane in planes]
            raise ValueError(f"expected planes {expected} of {self.format.layout.name}, got {shapes}")
        if len(arrays) == 1:
            return arrays * 3
        return [arrays[2], arrays[0], arrays[1]] if self._model == MODELS["rgb"] else arrays

    def read(
        self,
        planes: tuple[Tensor, ...],  # each [h, w], or one [h, w, 3]; contiguous
        cells: np.ndarray,  # [H', W', 48], from `make_map`; written: (row, colour, column) of each 4x4 cell
        *,
        encode: bool = True,
    ) -> tuple[Tensor, Tensor]:  # [1, 3, h, w] in [0, 1]; [1, 3, 256, 256] in [-1, 1]
        """Read a frame once: its cells, its reduction to a quarter, and the encoders' input, if it is encoded."""
        if self._low is None or self._small is None:
            raise ValueError(f"expected frames larger than the encoders' input, got {self.format.plane_sizes[0]}")
        _check_cells(cells, self.cells)
        low, small = self._low.empty(), self._small.empty() if encode else np.empty(0, np.float32)
        call(
            "read_samples", self._code, *self._split(planes), cells, cells.shape[1] * CHANNELS, cells.itemsize == 2,
            self._low.code, low, self._small.code if encode else None, small,
        )  # fmt: skip
        return torch.from_numpy(low)[None], torch.from_numpy(small)[None].mul_(2.0).sub_(1.0)

    def finish(
        self,
        planes: tuple[Tensor, ...],  # each [h, w], or one [h, w, 3]; contiguous
        delta: Tensor,  # [1, 3, h, w], the colour correction of the reduced frame
        residual: np.ndarray,  # [H', W', 48] float32, from `make_map`, the channels of `read`
        strength: float,  # factor of the residual
        out: tuple[Tensor, ...],  # the same as `planes`, written
    ) -> None:
        """Add the change of RGB, clamped to what RGB can hold, to the frame's own samples."""
        _check_cells(residual, self.cells)
        if delta.shape != (1, 3, *self.cells) or delta.dtype != torch.float32 or residual.dtype != np.float32:
            raise ValueError(f"expected a float32 correction of {self.cells}, got {tuple(delta.shape)} {delta.dtype}")
        call(
            "finish_samples", self._code, *self._split(planes), *self._split(out), delta[0].numpy(), residual,
            residual.shape[1] * CHANNELS, float(strength),
        )  # fmt: skip


class _ChromaAxis:
    """How chroma samples lie between luma samples along one axis."""

    def __init__(self, step: int, phase: str) -> None:
        self.step = step
        place = {"first": 0.0, "middle": (step - 1) / 2, "last": float(step - 1)}[phase]
        distances = (np.arange(step) - place) / step
        weights = np.stack([np.maximum(-distances, 0), 1 - np.abs(distances), np.maximum(distances, 0)], axis=1)
        self.weights = weights.astype(np.float32)  # [step, 3]: of the chroma sample before, here, and behind
        self._place = place
        if phase == "middle" or step == 1:
            self.offset, means = 0, [1.0 / step] * step
        else:
            self.offset = -(step - 1) if phase == "first" else 0
            means = [(step - abs(distance)) / step**2 for distance in range(-(step - 1), step)]
        self.means = np.array(means, np.float32)
        """What each luma sample from `step * chroma + offset` on counts for a chroma sample."""

    def rows(self, size: int, count: int) -> tuple[np.ndarray, np.ndarray]:  # [size, 2], [size]
        """For each luma row the two chroma rows around it, and the weight of the second one."""
        at = np.clip((np.arange(size, dtype=np.float32) - np.float32(self._place)) / self.step, 0, count - 1)
        left = np.floor(at).astype(np.int64)
        pair = np.stack([left, np.minimum(left + 1, count - 1)], axis=1)
        return pair, (at - left).astype(np.float32)


def cell_means(
    residual: np.ndarray,  # [H', W', 48] float32, from `make_map`, the channels of `SampleFormat.read`
    size: tuple[int, int],
) -> Tensor:  # [1, 3, h, w]
    _check_cells(residual, size)
    out = np.empty((3, *size), np.float32)
    call("cell_means", residual, residual.shape[1] * CHANNELS, *size, out)
    return torch.from_numpy(out)[None]


def _check_cells(cells: np.ndarray, size: tuple[int, int]) -> None:
    check_map(cells, size, CHANNELS)
    if cells.shape[2] != CHANNELS:
        raise ValueError(f"expected {CHANNELS} channels, got {cells.shape[2]}")
