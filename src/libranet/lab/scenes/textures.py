"""Tileable textures, band-limited by the pixel, and the small functions that patterns are made of.

A texture holds prefiltered levels, so that it shows detail up to the pixel and none beyond it.
"""

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

Colour = tuple[float, float, float]  # linear red, green, blue

SIZE = 512  # texels along one period
LEVELS = 9  # level l is the field without the frequencies that a footprint of 2**l texels cannot show


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

    def __init__(self, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(1)
        radius = _radius(SIZE, 2)
        channels = []
        for slope, lowest in ((1.0, 9.0), (1.0, 9.0), (0.6, 9.0), (1.4, 1.0)):
            # Without its longest waves a field shows no tiles; textures of several periods are laid over each other.
            spectrum = torch.fft.fft2(spectral_noise(SIZE, slope, generator)) * (radius >= lowest)
            spectrum = spectrum / (spectrum.abs().square().mean().sqrt() / SIZE)
            # A Gaussian of 0.35 footprints: what a pixel of that size averages over.
            spreads = [0.35 * 2**level if level else 0.0 for level in range(LEVELS)]
            blurred = [spectrum * torch.exp(-2 * (math.pi * spread * radius / SIZE) ** 2) for spread in spreads]
            channels.append(torch.stack([torch.fft.ifft2(s).real for s in blurred]))
        self.atlas = _atlas(torch.stack(channels)).to(device)

    def sample(
        self,
        u: Tensor,  # [N] metres
        v: Tensor,  # [N] metres
        period: float,  # metres after which the texture repeats
        footprint: Tensor,  # [N] metres that one pixel covers
    ) -> Tensor:  # [4, N], unit variance where the footprint is small, tending to 0 where it is large
        level = torch.log2((footprint * (SIZE / period)).clamp(min=1.0))
        fade = (LEVELS - level).clamp(0, 1)
        return _sample_atlas(self.atlas, u / period, v / period, level.clamp(max=LEVELS - 1.001)) * fade


class SolidTexture:
    """One tileable field in space, for leaves: the same whichever side it is seen from."""

    SIZE = 48

    def __init__(self, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(2)
        fields = torch.stack([spectral_noise(self.SIZE, slope, generator, dims=3) for slope in (1.1, 0.8)])
        # One more slice, equal to the first, closes the period.
        self.atlas = _atlas(torch.cat([fields, fields[:, :1]], dim=1)).to(device)

    def sample(self, x: Tensor, y: Tensor, z: Tensor, period: float) -> Tensor:
        """[2, N] of unit variance at points [N] in metres."""
        slice_ = (y / period).remainder(1.0) * self.SIZE
        return _sample_atlas(self.atlas, x / period, z / period, slice_.clamp(max=self.SIZE - 0.001))


@functools.cache
def shared_textures(device: torch.device) -> tuple[DetailTexture, SolidTexture]:
    """The two textures that all scenes share, made on first use."""
    return DetailTexture(device), SolidTexture(device)


def _atlas(layers: Tensor) -> Tensor:
    """[C, L, n, n] -> [1, C, L * (n + 2), n + 2]: layers below each other, each with its wrapped border."""
    return F.pad(layers, (1, 1, 1, 1), mode="circular").flatten(1, 2)[None].contiguous()


def _sample_atlas(atlas: Tensor, u: Tensor, v: Tensor, layer: Tensor) -> Tensor:  # [C, N]
    """Trilinear sampling by two bilinear reads, which the CPU does twenty times faster than one in a volume."""
    size = atlas.shape[-1] - 2
    below = layer.floor()
    x = u.remainder(1.0) * (2.0 * size / (size + 2)) + (3.0 / (size + 2) - 1.0)
    y = v.remainder(1.0) * size + 1.5 + below * (size + 2)
    scale = 2.0 / atlas.shape[-2]
    first, second = (
        F.grid_sample(
            atlas,
            torch.stack([x, (y + shift) * scale - 1.0], dim=-1)[None, None],
            mode="bilinear",
            padding_mode="border",
            align_corners=False,
        )[0, :, 0]
        for shift in (0, size + 2)
    )
    return torch.lerp(first, second, layer - below)


def sample_periodic(
    field: Tensor,  # [n, n], tileable
    x: Tensor,  # [W] metres, the columns of a raster
    z: Tensor,  # [H] metres, its rows
    period: float,
) -> Tensor:  # [H, W]
    """Catmull-Rom sampling of a tileable field on a raster: separable, so two small matrix products."""
    n = field.shape[0]
    return _cubic(z / period * n, n) @ field @ _cubic(x / period * n, n).T


def _cubic(position: Tensor, size: int) -> Tensor:  # [len(position), size]
    start = position.floor()
    t = position - start
    weights = (
        0.5 * (-t + 2 * t**2 - t**3),
        0.5 * (2 - 5 * t**2 + 3 * t**3),
        0.5 * (t + 4 * t**2 - 3 * t**3),
        0.5 * (t**3 - t**2),
    )
    matrix = torch.zeros(position.shape[0], size)
    for offset, weight in enumerate(weights):
        index = (start.long() + offset - 1).remainder(size)
        matrix.scatter_add_(1, index[:, None], weight[:, None])
    return matrix


def hash01(*keys: Tensor) -> Tensor:
    """Hash integer keys to a number in [0, 1): one shade per window, parcel or tree."""
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


def normalised(vectors: Tensor) -> Tensor:
    """Unit vectors along the first axis, [3, ...]."""
    x, y, z = vectors
    return vectors * torch.rsqrt(x * x + y * y + z * z + 1e-12)


def flat(colour: Colour, like: Tensor) -> Tensor:
    """One colour for all points of `like` [N]: [3, N]."""
    return torch.tensor(colour, device=like.device).reshape(3, 1).expand(3, like.shape[0])


def mix(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    """From `a` [3, N] to `b` as `share` [N] goes from 0 to 1."""
    return torch.lerp(a, b, share.clamp(0, 1).expand_as(a))


def scaled(colour: Colour, factor: float) -> Colour:
    return (colour[0] * factor, colour[1] * factor, colour[2] * factor)


def graded(x: Tensor, saturation: float, contrast: float, pivot: float) -> Tensor:
    """Display values [3, ...] with saturation and contrast scaled; contrast leaves `pivot` as it is."""
    grey = (0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2])[None]
    x = grey + (x - grey) * saturation
    return pivot + (x - pivot) * contrast
