"""Controls over the result: where haze is removed, how much, and what stays as it was.

They work on the original and the restored samples of a frame, on the device where those are, through a map of gains on
the change: 0 keeps the original, 1 takes the restored sample. So every backend has them. At its neutral value each
control is the identity, bit for bit.
"""

from collections import deque
from dataclasses import replace
from itertools import pairwise

import cv2
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.engine.options import Adjustments
from libranet.frames import ColorConverter, FrameFormat
from libranet.frames.color import code_scales
from libranet.images import read_image
from libranet.runtime import Restored

_SMALL = 8  # maps are computed on squares of this many pixels
_GAMMA_STEPS = 14
_DARKEST, _BRIGHTEST = 2.5, 0.4  # exponents between which the exposure is searched


class Adjuster:
    """Applies adjustments to the frames of one video, in order."""

    def __init__(
        self,
        adjustments: Adjustments,
        format_: FrameFormat,
        *,
        device: torch.device | str,
        rate: float = 25.0,
        strength: float = 1.0,
        turns: int = 0,
        mirrored: bool = False,
    ) -> None:
        """Prepare for frames of one format.

        Args:
            strength: That the frames were restored with: the largest of the key frames.
            turns: Quarter turns counter-clockwise by which a player rotates the frame. A mask is upright.
            mirrored: The frame is mirrored before that.
        """
        self._adjustments, self._format, self._strength = adjustments, format_, strength
        self._converter = ColorConverter(format_.layout, format_.color, device=device)
        self._mask = _read_mask(adjustments.mask, format_, turns, mirrored, device) if adjustments.mask else None
        self._gammas: deque[Tensor] = deque(maxlen=max(1, adjustments.memory(rate)))

    def apply(self, restored: Restored, seconds: float, *, cut: bool = False) -> Restored:
        """Return the frame, shown at a time, with its samples adjusted. `cut`: a new shot begins with it."""
        a = self._adjustments
        gain = self._gain(restored, seconds)
        after = restored.after
        if gain is not None or a.color != 1.0:
            after = tuple(self._mixed(restored.before, after, gain))
        if a.exposure == "keep":
            after = tuple(self._exposed(restored.before, after, cut=cut))
        return replace(restored, after=after)

    def _gain(self, restored: Restored, seconds: float) -> Tensor | None:  # [1, 1, H, W] or [1, 1, 1, 1]
        a = self._adjustments
        gain: Tensor | None = None
        if a.strength_keys:
            factor = strength_at(a.strength_keys, seconds) / self._strength if self._strength else 0.0
            gain = torch.full((1, 1, 1, 1), factor, device=self._converter.device)
        if a.protect_sky or a.protect_shadows:
            small = self._converter.to_small_rgb(restored.before, _SMALL)
            kept = torch.ones_like(small[:, :1])
            for amount, map_ in ((a.protect_sky, sky_map), (a.protect_shadows, shadow_map)):
                if amount:
                    kept = kept * (1 - amount * map_(small))
            size = (self._format.height, self._format.width)
            kept = F.interpolate(kept, size=size, mode="bilinear", align_corners=False)
            gain = kept if gain is None else gain * kept
        if self._mask is not None:
            gain = self._mask if gain is None else gain * self._mask
        return gain

    def _mixed(self, before: tuple[Tensor, ...], after: tuple[Tensor, ...], gain: Tensor | None) -> list[Tensor]:
        """Take as much of the change as the gain says; of its colour, as much as the factor says."""
        color, layout = self._adjustments.color, self._format.layout
        if color != 1.0 and layout.model == "rgb":
            rgb = [self._converter.to_rgb(planes) for planes in (before, after)]
            change = rgb[1] - rgb[0]
            gray = change.mean(dim=1, keepdim=True)
            change = gray + color * (change - gray)
            return self._converter.add_change(before, change if gain is None else change * gain)
        mixed = []
        for index, (a, b) in enumerate(zip(before, after, strict=True)):
            old = a.to(self._converter.device).float()
            amount = _sized(gain, old.shape[:2], packed=old.dim() == 3) if gain is not None else 1.0
            factor = color if index and layout.model == "yuv" else 1.0
            mixed.append(self._rounded(old + (b.float() - old) * amount * factor, b.dtype))
        return mixed

    def _exposed(self, before: tuple[Tensor, ...], after: tuple[Tensor, ...], *, cut: bool) -> list[Tensor]:
        """Give the result the mean brightness of the input: a curve that leaves black and white where they are."""
        small = [_luma(self._converter.to_small_rgb(planes, _SMALL)) for planes in (before, after)]
        if cut:
            self._gammas.clear()
        self._gammas.append(_matching_gamma(small[0], small[1]))
        gamma = torch.stack(list(self._gammas)).mean()
        light = self._light(after)
        ratio = light.clamp_min(1e-3) ** (gamma - 1)
        layout = self._format.layout
        _, offset = code_scales(layout, self._format.color)
        exposed = []
        for index, plane in enumerate(after):
            base = offset[index] if layout.model != "rgb" else 0.0
            amount = _sized(ratio, plane.shape[:2], packed=plane.dim() == 3)
            exposed.append(self._rounded((plane.float() - base) * amount + base, plane.dtype))
        return exposed

    def _light(self, planes: tuple[Tensor, ...]) -> Tensor:  # [1, 1, H, W] in [0, 1]
        layout = self._format.layout
        if layout.model == "rgb":
            return _luma(self._converter.to_rgb(planes))
        scale, offset = code_scales(layout, self._format.color)
        return ((planes[0].float() - offset[0]) / scale[0]).clamp(0, 1)[None, None]

    def _rounded(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        values = values if self._format.layout.floating else values.round_()
        return values.clamp_(0, self._format.layout.peak).to(dtype)


def strength_at(keys: tuple[tuple[float, float], ...], seconds: float) -> float:
    """Return the strength at a time: even between two key frames, that of the nearest one outside."""
    for (t0, s0), (t1, s1) in pairwise(keys):
        if t0 <= seconds <= t1:
            return s0 + (s1 - s0) * (seconds - t0) / (t1 - t0)
    return keys[0][1] if seconds < keys[0][0] else keys[-1][1]


def sky_map(rgb: Tensor) -> Tensor:  # [1, 3, h, w] in [0, 1] -> [1, 1, h, w] in [0, 1]
    """Find bright, even, blue or gray parts in the upper half of a frame."""
    light = _luma(rgb)
    down = F.pad((light[..., 1:, :] - light[..., :-1, :]).abs(), (0, 0, 0, 1))
    across = F.pad((light[..., 1:] - light[..., :-1]).abs(), (0, 1))
    even = 1 - _ramp(F.avg_pool2d(down + across, 3, 1, 1), 0.02, 0.08)
    bright = _ramp(light, 0.55, 0.8)
    cool = _ramp(rgb[:, 2:] - rgb[:, :1], -0.1, -0.02)
    height = light.shape[-2]
    rows = torch.linspace(0, 1, height, device=rgb.device).view(1, 1, height, 1)
    return F.avg_pool2d(even * bright * cool * (1 - _ramp(rows, 0.4, 0.75)), 3, 1, 1, count_include_pad=False)


def shadow_map(rgb: Tensor) -> Tensor:  # [1, 3, h, w] in [0, 1] -> [1, 1, h, w] in [0, 1]
    return 1 - _ramp(_luma(rgb), 0.05, 0.35)


def _luma(rgb: Tensor) -> Tensor:  # [1, 1, h, w]
    return 0.2126 * rgb[:, :1] + 0.7152 * rgb[:, 1:2] + 0.0722 * rgb[:, 2:]


def _ramp(x: Tensor, low: float, high: float) -> Tensor:
    t = ((x - low) / (high - low)).clamp(0, 1)
    return t * t * (3 - 2 * t)


def _matching_gamma(before: Tensor, after: Tensor) -> Tensor:  # a number
    """Search the exponent that gives `after` the mean of `before`. Equal means give exactly 1."""
    wanted, values = before.mean(), after.clamp_min(1e-3)
    bright, dark = after.new_tensor(_BRIGHTEST), after.new_tensor(_DARKEST)
    for _ in range(_GAMMA_STEPS):
        middle = (bright + dark) / 2
        too_bright = (values**middle).mean() > wanted
        bright = torch.where(too_bright, middle, bright)
        dark = torch.where(too_bright, dark, middle)
    same = (after.mean() - wanted).abs() < 1e-6
    return torch.where(same, torch.ones_like(wanted), (bright + dark) / 2)


def _sized(values: Tensor, size: torch.Size, *, packed: bool) -> Tensor:  # [h, w] or [h, w, 1]
    """A map for a plane: chroma planes are smaller."""
    if values.shape[-2:] not in (size, (1, 1)):
        values = F.interpolate(values, size=tuple(size), mode="bilinear", align_corners=False)
    flat = values[0, 0]
    return flat[..., None] if packed else flat


def _read_mask(
    path: str, format_: FrameFormat, turns: int, mirrored: bool, device: torch.device | str
) -> Tensor:  # [1, 1, H, W]
    image = read_image(path)
    gray = image.rgb.astype("float32").mean(axis=2) / image.peak
    turned = torch.rot90(torch.from_numpy(gray), -turns, (0, 1))
    stored = turned.flip(1) if mirrored else turned
    array = cv2.resize(stored.contiguous().numpy(), (format_.width, format_.height), interpolation=cv2.INTER_LINEAR)
    return torch.from_numpy(array)[None, None].to(device)
