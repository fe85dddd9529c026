"""YUV <-> RGB in torch: any matrix, range, depth and chroma siting.

A frame never goes to RGB and back. The network sees RGB; only its *change* is converted to YUV and added to the
original samples. So a change of zero gives the original samples bit for bit, colours outside the RGB cube survive, and
10 bits stay 10 bits.
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.frames.format import ColorSpec, FrameFormat, Matrix, PixelLayout, Siting

LUMA_WEIGHTS: dict[Matrix, tuple[float, float]] = {
    "bt601": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020": (0.2627, 0.0593),
    "smpte240m": (0.212, 0.087),
    "fcc": (0.30, 0.11),
}
"""K_r and K_b of ITU-T H.273, table 4."""


_SAMPLES = 4  # down and across, for the mean of one pixel of `to_square_rgb`, at least where there are as many


class ColorConverter:
    """Converts planes of one pixel format to RGB, and adds a change in RGB to the planes."""

    def __init__(self, layout: PixelLayout, spec: ColorSpec, *, device: torch.device | str = "cpu") -> None:
        self.layout, self.spec = layout, spec
        self.device = torch.device(device)
        k_r, k_b = LUMA_WEIGHTS[spec.matrix]
        k_g = 1.0 - k_r - k_b
        forward = torch.tensor(  # RGB in [0, 1] -> Y in [0, 1], Cb and Cr in [-0.5, 0.5]
            [
                [k_r, k_g, k_b],
                [-k_r / (2 * (1 - k_b)), -k_g / (2 * (1 - k_b)), 0.5],
                [0.5, -k_g / (2 * (1 - k_r)), -k_b / (2 * (1 - k_r))],
            ],
            dtype=torch.float64,
        )
        scale, offset = code_scales(layout, spec)
        to_codes = torch.tensor(scale, dtype=torch.float64)[:, None] * forward
        from_codes = torch.linalg.inv(to_codes)
        self._to_codes: list[list[float]] = to_codes.tolist()
        self._from_codes: list[list[float]] = from_codes.tolist()
        self._bias: list[float] = (-from_codes @ torch.tensor(offset, dtype=torch.float64)).tolist()
        self._scale, self._offset = scale, offset

    @property
    def to_codes(self) -> list[list[float]]:
        """Rows that turn a difference of RGB into differences of Y, Cb and Cr in code values."""
        return self._to_codes

    @property
    def from_codes(self) -> tuple[list[list[float]], list[float]]:
        """Matrix and summand that turn Y, Cb and Cr in code values into RGB."""
        return self._from_codes, self._bias

    @property
    def cosited(self) -> tuple["Phase", "Phase"]:
        """Where a chroma sample lies among the luma samples it covers, across and down."""
        return _cosited(self.spec.siting)

    def codes(self, rgb: Tensor) -> Tensor:  # [..., 3] in [0, 1] -> [..., 1 or 3], float32
        """Code values of colours, not rounded, in the order of the planes (of packed layouts: red, green, blue)."""
        if self.layout.model == "rgb":
            order = [0, 1, 2] if self.layout.packed else [1, 2, 0]
            return rgb[..., order] * self.layout.peak
        matrix, offset = rgb.new_tensor(self._to_codes), rgb.new_tensor(self._offset)
        return (rgb @ matrix.T + offset)[..., : self.layout.colour_planes]

    def to_rgb(
        self,
        planes: Sequence[Tensor],  # each [h, w], or one [h, w, 3] of a packed layout
        out: Tensor | None = None,  # [1, 3, H, W], float32, to be overwritten
    ) -> Tensor:  # [1, 3, H, W] in [0, 1], float32
        values = [plane.to(self.device).float()[None, None] for plane in planes[: self.layout.colour_planes]]
        size = (values[0].shape[2], values[0].shape[3])
        rgb = values[0].new_empty(1, 3, *size) if out is None else out
        if self.layout.packed:
            torch.div(values[0][0].permute(0, 3, 1, 2), self.layout.peak, out=rgb)
        elif self.layout.model == "rgb":
            green, blue, red = values
            torch.cat([red, green, blue], dim=1, out=rgb).div_(self.layout.peak)
        elif self.layout.model == "gray":
            rgb.copy_((values[0] - self._offset[0]) / self._scale[0])
        else:
            yuv = [values[0], *(self._upsample(plane, size) for plane in values[1:])]
            rows = zip(self._from_codes, self._bias, strict=True)
            for channel, (row, bias) in zip(rgb.split(1, dim=1), rows, strict=True):
                _mix(yuv, row, out=channel).add_(bias)
        return rgb.clamp_(0.0, 1.0)

    def to_small_rgb(
        self,
        planes: Sequence[Tensor],  # each [h, w], or one [h, w, 3] of a packed layout
        step: int,  # 4 or 8
    ) -> Tensor:  # [1, 3, H / step, W / step] in [0, 1], float32, sizes rounded up
        """Convert planes to RGB at a fraction of the size: each pixel is the mean of a square."""
        small = []
        for index, values in enumerate(self._channels(planes)):
            chroma = self.layout.model == "yuv" and index > 0
            cell = (step // self.layout.sub_y, step // self.layout.sub_x) if chroma else (step, step)
            small.append(F.avg_pool2d(values, cell, ceil_mode=True))
        return self._rgb_of_means(small)

    def to_square_rgb(
        self,
        planes: Sequence[Tensor],  # each [h, w], or one [h, w, 3] of a packed layout
        side: int,
    ) -> Tensor:  # [1, 3, side, side] in [0, 1], float32
        """Convert planes to a small square: each pixel is the mean of samples of its part of the frame, not of all."""
        step = max(1, min(planes[0].shape[:2]) // (_SAMPLES * side))
        few = [plane[::step, ::step] for plane in planes]
        return self._rgb_of_means([F.adaptive_avg_pool2d(values, side) for values in self._channels(few)])

    def _channels(self, planes: Sequence[Tensor]) -> list[Tensor]:  # [1, 1, h, w] each, or one [1, 3, h, w]
        values = [plane.to(self.device).float() for plane in planes[: self.layout.colour_planes]]
        return [one.permute(2, 0, 1)[None] if self.layout.packed else one[None, None] for one in values]

    def _rgb_of_means(self, small: Sequence[Tensor]) -> Tensor:  # [1, 3, h, w] in [0, 1]
        if self.layout.packed:
            rgb = small[0] / self.layout.peak
        elif self.layout.model == "rgb":
            rgb = torch.cat([small[2], small[0], small[1]], dim=1) / self.layout.peak
        elif self.layout.model == "gray":
            rgb = ((small[0] - self._offset[0]) / self._scale[0]).expand(-1, 3, -1, -1)
        else:
            rows = zip(self._from_codes, self._bias, strict=True)
            rgb = torch.cat([_mix(small, row).add_(bias) for row, bias in rows], dim=1)
        return rgb.clamp(0.0, 1.0)

    def add_change(
        self,
        planes: Sequence[Tensor],  # each [h, w], or one [h, w, 3] of a packed layout
        change: Tensor,  # [1, 3, H, W], a difference of RGB
    ) -> list[Tensor]:  # the dtype of `planes`, on the converter's device
        """Add a change in RGB to the planes. Alpha does not change."""
        change = change.to(self.device, torch.float32)
        if self.layout.packed:
            changes = [change.permute(0, 2, 3, 1) * self.layout.peak]
        elif self.layout.model == "rgb":
            red, green, blue = (change[:, i] * self.layout.peak for i in range(3))
            changes = [green, blue, red]
        elif self.layout.model == "gray":
            changes = [_mix(change.split(1, dim=1), self._to_codes[0])[:, 0]]
        else:
            small = self._downsample(change).split(1, dim=1)
            changes = [_mix(change.split(1, dim=1), self._to_codes[0])[:, 0]]
            changes += [_mix(small, row)[:, 0] for row in self._to_codes[1:]]
        changed = [self._add(plane, delta[0]) for plane, delta in zip(planes, changes, strict=False)]
        return [*changed, *planes[len(changed) :]]

    def encode(
        self,
        rgb: Tensor,  # [1, 3, H, W] in [0, 1]
    ) -> list[Tensor]:  # each [h, w], or one [h, w, 3] of a packed layout
        """Convert an RGB image to planes: black, plus the image."""
        shape = FrameFormat(rgb.shape[3], rgb.shape[2], self.layout, self.spec)
        black = (0.0, 0.0, 0.0) if self.layout.model == "rgb" else self._offset
        planes = [
            torch.full(size[1:], round(value), dtype=torch.float32, device=self.device).to(self.layout.dtype)
            for size, value in zip(shape.plane_shapes(1), black, strict=False)
        ]
        return self.add_change(planes, rgb)

    def _add(self, plane: Tensor, delta: Tensor) -> Tensor:
        sum_ = plane.to(self.device).float() + delta
        if not self.layout.floating:
            sum_ = sum_.round_()
        return sum_.clamp_(0, self.layout.peak).to(plane.dtype)

    def _upsample(self, chroma: Tensor, size: tuple[int, int]) -> Tensor:
        across, down = _cosited(self.spec.siting)
        chroma = _upsample_axis(chroma, 3, self.layout.sub_x, size[1], across)
        return _upsample_axis(chroma, 2, self.layout.sub_y, size[0], down)

    def _downsample(self, image: Tensor) -> Tensor:
        across, down = _cosited(self.spec.siting)
        image = _downsample_axis(image, 3, self.layout.sub_x, across)
        return _downsample_axis(image, 2, self.layout.sub_y, down)


def code_scales(layout: PixelLayout, spec: ColorSpec) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Code = scale * value + offset for Y, Cb, Cr (H.273, equations 20 to 31)."""
    if layout.floating:
        return (1.0,) * 3, (0.0, 0.5, 0.5)
    half = float(1 << (layout.bits - 1))
    if spec.full_range:
        return (float(layout.peak),) * 3, (0.0, half, half)
    unit = float(1 << layout.bits) / 256.0
    return (219 * unit, 224 * unit, 224 * unit), (16 * unit, half, half)


def _mix(channels: Sequence[Tensor], weights: list[float], out: Tensor | None = None) -> Tensor:
    """A weighted sum; on a CPU this is several times faster than a 1x1 convolution of three channels."""
    mixed = torch.mul(channels[0], weights[0], out=out)
    for channel, weight in zip(channels[1:], weights[1:], strict=True):
        if weight:
            mixed.add_(channel, alpha=weight)
    return mixed


Phase = Literal["first", "middle", "last"]
"""Where a chroma sample lies among the luma samples it covers."""


def _cosited(siting: Siting) -> tuple[Phase, Phase]:
    across: Phase = "first" if siting in ("left", "topleft", "bottomleft") else "middle"
    down: Phase = (
        "first" if siting in ("top", "topleft") else "last" if siting in ("bottom", "bottomleft") else "middle"
    )
    return across, down


def _phase(phase: Phase, step: int) -> float:
    return {"first": 0.0, "middle": (step - 1) / 2, "last": float(step - 1)}[phase]


def _upsample_axis(x: Tensor, dim: int, step: int, size: int, phase: Phase) -> Tensor:
    """Linear interpolation between chroma samples; the border sample is repeated outside."""
    if step == 1:
        return x
    at = (torch.arange(size, device=x.device, dtype=torch.float32) - _phase(phase, step)) / step
    at = at.clamp(0, x.shape[dim] - 1)
    below = at.floor()
    weight = (at - below).view([-1 if d == dim else 1 for d in range(4)])
    left = below.long()
    right = (left + 1).clamp_max(x.shape[dim] - 1)
    return torch.lerp(x.index_select(dim, left), x.index_select(dim, right), weight)


def _downsample_axis(x: Tensor, dim: int, step: int, phase: Phase) -> Tensor:
    """Average around each chroma sample: a box between two luma samples, a triangle on one of them."""
    if step == 1:
        return x
    missing = -x.shape[dim] % step
    lead, trail = (0, missing)
    if phase == "middle":
        taps = [1.0 / step] * step
    else:
        taps = [(step - abs(offset)) / step**2 for offset in range(-(step - 1), step)]
        lead, trail = (step - 1, missing) if phase == "first" else (0, missing + step - 1)
    pad = [lead, trail, 0, 0] if dim == 3 else [0, 0, lead, trail]
    count = (x.shape[dim] + missing) // step
    x = F.pad(x, pad, mode="replicate")
    last = (count - 1) * step + 1
    slices = [x.narrow(dim, start, last) for start in range(len(taps))]
    slices = [part[..., ::step] if dim == 3 else part[..., ::step, :] for part in slices]
    return _mix(slices, taps)
