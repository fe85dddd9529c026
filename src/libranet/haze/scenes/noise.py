"""Tileable random fields with prefiltered levels, so that a texture holds detail up to the pixel and none beyond it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

SIZE = 256  # texels along one period
LEVELS = 8  # level l is the field without the frequencies that a footprint of 2**l texels cannot show


def spectral_noise(size: int, slope: float, generator: torch.Generator, *, dims: int = 2) -> Tensor:
    """Gaussian noise of unit variance whose amplitude falls as frequency ** -slope; its period is `size` texels."""
    white = torch.randn((size,) * dims, generator=generator)
    spectrum = torch.fft.fftn(white) * _radius(size, dims).clamp(min=1.0) ** -slope
    spectrum[(0,) * dims] = 0
    field = torch.fft.ifftn(spectrum).real
    return field / field.std()


def _radius(size: int, dims: int) -> Tensor:
    axis = torch.fft.fftfreq(size) * size
    squares = sum(axis.reshape([-1 if i == j else 1 for j in range(dims)]) ** 2 for i in range(dims))
    return torch.as_tensor(squares).sqrt()


class DetailTexture:
    """Four independent tileable fields, sampled at any scale and band-limited by the pixel's footprint."""

    def __init__(self, generator: torch.Generator, device: torch.device) -> None:
        radius = _radius(SIZE, 2)
        channels = []
        for slope in (1.0, 1.0, 0.6, 1.4):
            spectrum = torch.fft.fft2(spectral_noise(SIZE, slope, generator))
            # A Gaussian of 0.35 footprints: what a pixel of that size averages over.
            spreads = [0.35 * 2**level if level else 0.0 for level in range(LEVELS)]
            blurred = [spectrum * torch.exp(-2 * (math.pi * spread * radius / SIZE) ** 2) for spread in spreads]
            channels.append(torch.stack([torch.fft.ifft2(s).real for s in blurred]))
        stack = torch.stack(channels)[None]  # [1, 4, L, N, N]
        stack = F.pad(stack.flatten(1, 2), (1, 1, 1, 1), mode="circular").unflatten(1, (4, LEVELS))
        self.stack = stack.contiguous().to(device)

    def sample(
        self,
        u: Tensor,  # [N] metres
        v: Tensor,  # [N] metres
        period: float,  # metres after which the texture repeats
        footprint: Tensor,  # [N] metres that one pixel covers
    ) -> Tensor:  # [4, N], unit variance where the footprint is small, tending to 0 where it is large
        level = torch.log2((footprint * (SIZE / period)).clamp(min=1.0))
        fade = (LEVELS - level).clamp(0, 1)
        z = level.clamp(max=LEVELS - 1) * (2.0 / (LEVELS - 1)) - 1.0
        x, y = _padded(u / period, SIZE, 1), _padded(v / period, SIZE, 1)
        grid = torch.stack([x, y, z], dim=-1)[None, None, None]
        out = F.grid_sample(self.stack, grid, mode="bilinear", padding_mode="border", align_corners=False)
        return out[0, :, 0, 0] * fade


class SolidTexture:
    """One tileable field in space, for leaves: the same whichever side it is seen from."""

    SIZE = 48

    def __init__(self, generator: torch.Generator, device: torch.device) -> None:
        field = spectral_noise(self.SIZE, 1.1, generator, dims=3)
        self.volume = F.pad(field[None, None], (1,) * 6, mode="circular").contiguous().to(device)

    def sample(self, x: Tensor, y: Tensor, z: Tensor, period: float) -> Tensor:
        """[...] of unit variance at points in metres."""
        n = self.SIZE
        grid = _padded(torch.stack([x, y, z], dim=-1) / period, n, 1)
        shape = x.shape
        out = F.grid_sample(
            self.volume, grid.reshape(1, 1, 1, -1, 3), mode="bilinear", padding_mode="border", align_corners=False
        )
        return out.reshape(shape)


def _padded(periods: Tensor, size: int, pad: int) -> Tensor:
    """Coordinates in periods -> `grid_sample` coordinates of the same texture with `pad` wrapped texels around it."""
    return periods.remainder(1.0) * (2.0 * size / (size + 2 * pad)) + ((2 * pad + 1.0) / (size + 2 * pad) - 1.0)


def sample_periodic(
    field: Tensor,  # [n, n], tileable
    x: Tensor,  # [...] metres
    z: Tensor,  # [...] metres
    period: float,
) -> Tensor:
    """Smooth (bicubic) reading of a tileable field: for building maps, not for every frame."""
    n = field.shape[0]
    padded = F.pad(field[None, None], (3, 3, 3, 3), mode="circular")
    grid = _padded(torch.stack([x, z], dim=-1) / period, n, 3)
    out = F.grid_sample(padded, grid.reshape(1, 1, -1, 2), mode="bicubic", padding_mode="border", align_corners=False)
    return out.reshape(x.shape)


def hash01(*keys: Tensor) -> Tensor:
    """A reproducible number in [0, 1) for whole-number keys: one shade per window, parcel or tree."""
    value = torch.zeros_like(keys[0], dtype=torch.int64) + 374761393
    for index, key in enumerate(keys):
        value = (value ^ (key.to(torch.int64) * (668265263 + 2 * index * 40503))) & 0xFFFFFFFF
        value = ((value ^ (value >> 15)) * 2246822519) & 0xFFFFFFFF
        value = ((value ^ (value >> 13)) * 3266489917) & 0xFFFFFFFF
        value = value ^ (value >> 16)
    return value.to(torch.float32) / 4294967296.0


def pulse(
    x: Tensor,
    width: Tensor | float,  # share of each period that is 1, in [0, 1]
    footprint: Tensor,  # in periods
) -> Tensor:
    """A train of unit pulses of period 1, averaged over the footprint: stripes, windows, dashes without aliasing."""
    half = 0.5 * footprint.clamp(min=1e-4)

    def integral(y: Tensor) -> Tensor:
        whole = y.floor()
        return whole * width + torch.minimum(y - whole, torch.as_tensor(width, dtype=y.dtype, device=y.device))

    return (integral(x + half) - integral(x - half)) / (2 * half)


def step(x: Tensor, footprint: Tensor) -> Tensor:
    """0 below 0, 1 above, with an edge one footprint wide."""
    return (x / footprint.clamp(min=1e-4) + 0.5).clamp(0, 1)


def smoothstep(low: float, high: float, x: Tensor) -> Tensor:
    """0 below `low`, 1 above `high`, smooth between."""
    y = ((x - low) / (high - low)).clamp(0, 1)
    return y * y * (3 - 2 * y)
