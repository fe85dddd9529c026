"""What the samples of a frame mean: planes, bits, chroma subsampling, colour matrix, range and siting."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from libranet.errors import InputError

Model = Literal["yuv", "rgb", "gray"]
Matrix = Literal["bt601", "bt709", "bt2020", "smpte240m", "fcc"]
Siting = Literal["left", "center", "topleft", "top", "bottomleft", "bottom"]


@dataclass(frozen=True)
class PixelLayout:
    """How a frame's samples lie in memory: one array per component, or one array of interleaved RGB."""

    name: str
    """FFmpeg's name, for example yuv420p10le."""
    model: Model
    bits: int
    """Bits per sample; 32 is floating point in [0, 1]."""
    sub_x: int
    """Luma columns per chroma column: 1, 2 or 4."""
    sub_y: int
    """Luma rows per chroma row: 1, 2 or 4."""
    alpha: bool
    packed: bool = False
    """The only plane is [h, w, 3] with red, green and blue side by side."""

    @property
    def colour_planes(self) -> int:
        """Number of planes without alpha."""
        return 1 if self.model == "gray" or self.packed else 3

    @property
    def floating(self) -> bool:
        """Whether samples are floating-point numbers in [0, 1]."""
        return self.bits == 32

    @property
    def peak(self) -> int:
        """The largest sample."""
        return 1 if self.floating else (1 << self.bits) - 1

    @property
    def dtype(self) -> torch.dtype:
        if self.floating:
            return torch.float32
        return torch.uint8 if self.bits <= 8 else torch.uint16


def copyable(dtype: torch.dtype) -> torch.dtype:
    """A dtype of the same size with which torch can move samples around: it does little with uint16 on a GPU."""
    return torch.int16 if dtype == torch.uint16 else dtype


RGB8 = PixelLayout("rgb24", "rgb", 8, 1, 1, alpha=False, packed=True)
RGB16 = PixelLayout("rgb48le", "rgb", 16, 1, 1, alpha=False, packed=True)
RGB_FLOAT = PixelLayout("rgbf32le", "rgb", 32, 1, 1, alpha=False, packed=True)
PLANAR_RGB8 = PixelLayout("gbrp", "rgb", 8, 1, 1, alpha=False)
PLANAR_RGB16 = PixelLayout("gbrp16le", "rgb", 16, 1, 1, alpha=False)
PLANAR_RGB_FLOAT = PixelLayout("gbrpf32le", "rgb", 32, 1, 1, alpha=False)


@dataclass(frozen=True)
class ColorSpec:
    """Matrix, range and chroma siting: the meaning of code values."""

    matrix: Matrix = "bt709"
    full_range: bool = True
    siting: Siting = "left"


@dataclass(frozen=True)
class FrameFormat:
    """Everything about a frame but its samples: what a backend needs to know to make its buffers."""

    width: int
    height: int
    layout: PixelLayout
    color: ColorSpec = ColorSpec()

    @property
    def plane_sizes(self) -> list[tuple[int, int]]:
        """Height and width of each colour plane."""
        small = (-(-self.height // self.layout.sub_y), -(-self.width // self.layout.sub_x))
        chroma = small if self.layout.model == "yuv" else (self.height, self.width)
        return [(self.height, self.width), chroma, chroma][: self.layout.colour_planes]

    def plane_shapes(self, count: int) -> list[tuple[int, ...]]:
        """Shape of each colour plane of a batch."""
        tail = (3,) if self.layout.packed else ()
        return [(count, *size, *tail) for size in self.plane_sizes]

    def empty(self, count: int, *, device: torch.device | str = "cpu", pinned: bool = False) -> tuple[Tensor, ...]:
        """Planes for a batch of frames, not filled."""
        return tuple(
            torch.empty(shape, dtype=self.layout.dtype, device=device, pin_memory=pinned)
            for shape in self.plane_shapes(count)
        )


@dataclass(frozen=True)
class Frames:
    """A batch of frames of one format, alpha excluded.

    RGB planes come in FFmpeg's order: green, blue, red.
    """

    planes: tuple[Tensor, ...]  # each [n, h, w], or one [n, h, w, 3] where the layout is packed; any strides and device
    format: FrameFormat

    def __post_init__(self) -> None:
        layout = self.format.layout
        shapes = self.format.plane_shapes(len(self))
        found = [tuple(plane.shape) for plane in self.planes]
        if found != shapes or any(plane.dtype != layout.dtype for plane in self.planes):
            dtypes = sorted({str(plane.dtype) for plane in self.planes})
            raise InputError(f"expected {layout.name} planes {shapes} of {layout.dtype}, got {found} of {dtypes}")

    @classmethod
    def of_array(cls, samples: np.ndarray) -> Self:  # [H, W, 1] gray or [H, W, 3] RGB, uint8 or uint16
        """Make a batch of one frame."""
        height, width, channels = samples.shape
        bits = 8 * samples.itemsize
        layout = RGB8 if bits == 8 else RGB16
        if channels == 1:
            samples, layout = samples[..., 0], PixelLayout(f"gray{bits}", "gray", bits, 1, 1, alpha=False)
        return cls((torch.from_numpy(np.ascontiguousarray(samples))[None],), FrameFormat(width, height, layout))

    def __len__(self) -> int:
        return len(self.planes[0])

    def plane_list(self, index: int) -> tuple[Tensor, ...]:  # each [h, w] or [h, w, 3]
        return tuple(plane[index] for plane in self.planes)
