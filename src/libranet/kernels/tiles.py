"""Tile configurations: how a kernel divides its work among programs.

A tile changes a kernel's speed, and its results only by rounding.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ConvTile:
    """One program of the refiner's 3x3 convolution."""

    rows: int = 4  # output rows per program, 1 to 4
    cols: int = 64  # output columns per program, a power of two
    block_k: int = 64  # input channels per fetch
    pixels_first: bool = True
    """True: pixels are the rows of the matrix product; False: output channels are."""
    warps: int = 4
    stages: int = 2  # fetches in flight

    def __str__(self) -> str:
        order = "p" if self.pixels_first else "c"
        return f"{self.rows}x{self.cols}k{self.block_k}{order}w{self.warps}s{self.stages}"

    def parts(self, height: int, width: int) -> int:
        """Programs per map, and so partial sums that a convolution leaves."""
        return ceil_div(height, self.rows) * ceil_div(width, self.cols)


@dataclass(frozen=True)
class StripTile:
    """One program of the weight-stationary 3x3 convolution, which walks down strips of the map."""

    cols: int  # columns per strip
    ring: int  # input rows in shared memory, at least four
    stages: int  # output rows on their way to memory

    def parts(self, height: int, width: int) -> int:
        """Partial sums per map: one per row of a strip."""
        return ceil_div(width, self.cols) * height


@dataclass(frozen=True)
class EncoderTile:
    """One program of an encoder's 3x3 convolution."""

    cols: int  # output columns per product
    lines: int = 1  # output rows per product: a product has lines * cols pixels
    rows: int = 1
    """Products per program, 1 to 4, one below the other, which share fetched rows; only with lines = 1 and stride 1."""
    block_n: int = 64  # output channels per program
    block_k: int = 32  # input channels per fetch
    warps: int = 4
    stages: int = 2  # fetches in flight
    pairs: bool = False
    """Two pixels side by side as one of twice the channels, for narrow maps: see `pack_pairs`. Only with stride 1."""

    def __str__(self) -> str:
        wide = "x2" if self.pairs else ""
        return f"{self.rows}x{self.lines}x{self.cols}{wide}n{self.block_n}k{self.block_k}w{self.warps}s{self.stages}"

    def parts(self, side: int, channels: int) -> int:
        """Programs per map, and so partial sums that a convolution leaves."""
        wide = 2 if self.pairs else 1
        down, across = ceil_div(side, self.rows * self.lines), ceil_div(side // wide, self.cols)
        return down * across * ceil_div(wide * channels, self.block_n)


@dataclass(frozen=True)
class PixelTile:
    """One program of a pass over pixels."""

    block: int = 64  # pixels per program
    warps: int = 4

    def __str__(self) -> str:
        return f"{self.block}w{self.warps}"

    def parts(self, pixels: int) -> int:
        """Programs for this many pixels in a row."""
        return ceil_div(pixels, self.block)


SUMS_STRIP, BIAS_STRIP, WIDE_STRIP = StripTile(128, 6, 2), StripTile(128, 7, 1), StripTile(64, 4, 1)
"""For 64 input channels with sums and with a bias, and for 128: the fastest that fit into a program's 227 KB."""
STEM_TILE = PixelTile(256, 8)  # for the encoders' first convolution
STRUCTURE_TILE = PixelTile(128, 4)
"""For the first convolution of the refiner's structure stream, along a row."""


def ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)


def power_of_2(value: int) -> int:
    """The next power of two, or the value itself."""
    return 1 << (value - 1).bit_length()
