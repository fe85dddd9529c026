"""Frames in their own samples on a CPU, by numba: one pass that reads a frame, one that writes its change.

`reference.py` says what they compute; here maps have borders and float32 values (`conv3x3.panels.make_map`). A row is
turned into RGB in a buffer that stays in the cache, so no RGB frame is ever stored.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numba import get_num_threads
from torch import Tensor

from libranet.frames import ColorConverter, FrameFormat
from libranet.kernels.bands import resize_matrix
from libranet.kernels.samples.panel_rows import BAND, CELL, PACKED, finish_band, read_band, write_cell_means
from libranet.kernels.samples.reference import MODELS, SampleCodes


@dataclass(frozen=True)
class Reduction:
    """An antialiased reduction of one axis, once by its inputs and once by its outputs."""

    first: np.ndarray  # [size], the first output that an input counts for
    pair: np.ndarray  # [size, 2], its weight there and in the next one
    start: np.ndarray  # [target], the first input that counts for an output
    taps: np.ndarray  # [target, n], the weights from there on

    @classmethod
    def make(cls, size: int, target: int) -> "Reduction | None":
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


class SampleFormat:
    """Everything about a frame format that the kernels need, as numbers in arrays."""

    def __init__(self, format_: FrameFormat, encoder_size: int) -> None:
        self.format, self.encoder_size = format_, encoder_size
        layout, h, w = format_.layout, format_.height, format_.width
        self.height, self.width = -(-h // CELL) * CELL, -(-w // CELL) * CELL
        """In whole cells."""
        self.cells = (self.height // CELL, self.width // CELL)
        self._codes = SampleCodes.make(format_, torch.device("cpu"))
        self.numbers: np.ndarray = self._codes.numbers.numpy()
        self.model = PACKED if layout.packed else self._codes.model
        self._low = Reduction.make(self.height, self.cells[0]), Reduction.make(self.width, self.cells[1])
        self._small = Reduction.make(self.height, encoder_size), Reduction.make(self.width, encoder_size)
        self.reduces = None not in (*self._low, *self._small)
        """Whether `read` covers this size; images smaller than the encoders' input are enlarged."""
        across, down = ColorConverter(layout, format_.color).cosited
        self._across, self._down = _ChromaAxis(layout.sub_x, across), _ChromaAxis(layout.sub_y, down)

    def _split(self, planes: tuple[Tensor, ...]) -> list[np.ndarray]:
        """Red, green and blue, or Y, Cb and Cr; gray three times."""
        arrays = [plane.numpy() for plane in planes]
        if self.model == PACKED:
            return [arrays[0].reshape(len(arrays[0]), -1)] * 3
        if self.model == MODELS["rgb"]:
            green, blue, red = arrays[:3]
            return [red, green, blue]
        return arrays[:3] if len(arrays) >= 3 else [arrays[0]] * 3

    def read(
        self,
        planes: tuple[Tensor, ...],  # each [h, w], or one [h, w, 3]; contiguous
        cells: np.ndarray,  # [H', W', 48], from `make_map`; written: (row, colour, column) of each 4x4 cell
    ) -> tuple[Tensor, Tensor]:  # [1, 3, h, w] in [0, 1]; [1, 3, 256, 256] in [-1, 1]
        """Read a frame once: its cells, its reduction to a quarter, and the encoders' input."""
        low_y, low_x = self._low
        small_y, small_x = self._small
        assert low_y is not None
        assert low_x is not None
        assert small_y is not None
        assert small_x is not None
        bands = -(-self.height // BAND)
        parts = [_parts(low_y, bands, low_x), _parts(small_y, bands, small_x)]
        arguments = (
            *self._split(planes), self.numbers, self.model, self._across.step, self._across.weights,
            *self._down.rows(self.format.height, self.format.plane_sizes[-1][0]), cells, self.height, self.width,
            low_y.first, low_y.pair, low_x.start, low_x.taps, parts[0],
            small_y.first, small_y.pair, small_x.start, small_x.taps, parts[1],
        )  # fmt: skip
        _run_bands(self.height, lambda band: read_band(band, *arguments))
        low = _combine(parts[0], low_y, self.cells[0])
        small = _combine(parts[1], small_y, self.encoder_size)
        return torch.from_numpy(low)[None], torch.from_numpy(small)[None].mul_(2.0).sub_(1.0)

    def finish(
        self,
        planes: tuple[Tensor, ...],  # each [h, w], or one [h, w, 3]; contiguous
        delta: Tensor,  # [1, 3, h, w], the colour correction of the reduced frame
        residual: np.ndarray,  # [H', W', 48], from `make_map`, the channels of `read`
        strength: float,  # factor of the residual
        out: tuple[Tensor, ...],  # the same as `planes`, written
    ) -> None:
        """Add the change of RGB, clamped to what RGB can hold, to the frame's own samples."""
        arguments = (
            *self._split(planes), *self._split(out), self.numbers, self.model, self._across.step, self._across.weights,
            *self._down.rows(self.format.height, self.format.plane_sizes[-1][0]),
            self._across.offset, self._across.means, self._down.step, self._down.offset, self._down.means,
            delta[0].numpy(), residual, np.float32(strength), self.format.layout.floating,
        )  # fmt: skip
        _run_bands(self.format.height, lambda band: finish_band(band, *arguments))


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


def _parts(rows: Reduction, bands: int, columns: Reduction) -> np.ndarray:  # [bands, outputs, 3, columns]
    """Where bands leave the rows that they contribute to; neighbours contribute to the same ones."""
    most = max(int(part[-1] - part[0]) + 2 for part in np.split(rows.first, range(BAND, len(rows.first), BAND)))
    return np.zeros((bands, most, 3, len(columns.start)), np.float32)


def _combine(parts: np.ndarray, rows: Reduction, count: int) -> np.ndarray:  # [3, count, columns]
    out = np.zeros((3, count, parts.shape[3]), np.float32)
    for band, part in enumerate(parts):
        begin = rows.first[band * BAND]
        end = min(begin + len(part), count)
        out[:, begin:end] += part[: end - begin].transpose(1, 0, 2)
    return np.clip(out, 0.0, 1.0, out=out)


def _run_bands(height: int, work: Callable[[int], None]) -> None:
    """Work on all bands, by as many threads as numba would take."""
    bands, threads = range(-(-height // BAND)), get_num_threads()
    if threads == 1:
        for band in bands:
            work(band)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, bands))


def cell_means(
    residual: np.ndarray,  # [H', W', 48], from `make_map`, the channels of `SampleFormat.read`
    size: tuple[int, int],
) -> Tensor:  # [1, 3, h, w]
    """The mean of each cell's residual."""
    out = np.empty((3, *size), np.float32)
    write_cell_means(residual, out)
    return torch.from_numpy(out)[None]
