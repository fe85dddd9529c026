"""Controls over the result: where haze is removed, how much, and what stays as it was.

They work on the original and the restored samples of a frame, on the device where those are, through a map of gains on
the change: 0 keeps the original, 1 takes the restored sample. So every backend has them. At its neutral value each
control is the identity, bit for bit.
"""

import math
from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import cv2
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError
from libranet.frames import ColorConverter, FrameFormat
from libranet.frames.color import code_scales
from libranet.images import read_image
from libranet.runtime import Restored

Exposure = Literal["network", "keep"]

_SMALL = 8
"""Maps are computed on squares of this many pixels."""
_GAMMA_STEPS = 14
_DARKEST, _BRIGHTEST = 2.5, 0.4
"""Exponents between which the exposure is searched."""
EXPOSURE_SECONDS = 1.0
"""The exposure is averaged over this time, so that it does not flicker."""
_MOST_COLOR = 1.5


@dataclass(frozen=True)
class Adjustments:
    """Controls as people know them from photo and grading programs. The defaults change nothing."""

    exposure: Exposure = "network"
    """`keep` gives the result the mean brightness of the input; haze brightens, so its removal darkens."""
    protect_sky: float = 0.0
    """0 to 1: how much of the original stays where the frame shows a bright even sky."""
    protect_shadows: float = 0.0
    """0 to 1: how much of the original stays in dark places."""
    color: float = 1.0
    """Factor on the change of colour, 0 to 1.5: 0 changes brightness only."""
    mask: str | None = None
    """An image: haze is removed where it is white, and stays where it is black."""
    strength_keys: tuple[tuple[float, float], ...] = ()
    """Seconds and strengths; between them the strength changes evenly."""

    def __post_init__(self) -> None:
        if self.exposure not in ("network", "keep"):
            raise InputError(f"unknown exposure {self.exposure!r}: use network or keep")
        for name, value, most in (
            ("protect_sky", self.protect_sky, 1.0),
            ("protect_shadows", self.protect_shadows, 1.0),
            ("color", self.color, _MOST_COLOR),
        ):
            if not 0.0 <= value <= most:
                raise InputError(f"expected --{name.replace('_', '-')} from 0 to {most:g}, got {value}")
        times = [time for time, _ in self.strength_keys]
        if times != sorted(set(times)) or not all(math.isfinite(time) and time >= 0 for time in times):
            raise InputError(f"expected key frames of the strength at increasing times, got {self.strength_keys}")

    def check_mask(self) -> None:
        """Read the mask once, before anything is computed.

        Raises:
            InputError: It cannot be read.
        """
        if self.mask is not None:
            read_image(self.mask)

    @property
    def neutral(self) -> bool:
        """Whether nothing is adjusted."""
        return self == Adjustments()

    def memory(self, rate: float) -> int:
        """Return how many earlier frames a frame depends on."""
        return round(EXPOSURE_SECONDS * rate) if self.exposure == "keep" else 0


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
            adjustments: What to do.
            format_: Of the restored frames.
            device: Where they are.
            rate: Frames per second.
            strength: That the frames were restored with: the largest of the key frames.
            turns: Quarter turns counter-clockwise by which a player rotates the frame. A mask is upright.
            mirrored: The frame is mirrored before that.
        """
        self._adjustments, self._format, self._strength = adjustments, format_, strength
        self._converter = ColorConverter(format_.layout, format_.color, device=device)
        self._mask = _read_mask(adjustments.mask, format_, turns, mirrored, device) if adjustments.mask else None
        self._gammas: deque[Tensor] = deque(maxlen=max(1, adjustments.memory(rate)))

    def apply(self, restored: Restored, seconds: float, *, cut: bool = False) -> Restored:
        """Return the frame with its samples adjusted.

        Args:
            restored: A frame beside its original.
            seconds: Its time.
            cut: A new shot begins with it.
        """
        a = self._adjustments
        if a.neutral:
            return restored
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
            if a.protect_sky:
                kept = kept * (1 - a.protect_sky * sky_map(small))
            if a.protect_shadows:
                kept = kept * (1 - a.protect_shadows * shadow_map(small))
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


def sky_map(
    rgb: Tensor,  # [1, 3, h, w] in [0, 1]
) -> Tensor:  # [1, 1, h, w] in [0, 1]
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


def shadow_map(
    rgb: Tensor,  # [1, 3, h, w] in [0, 1]
) -> Tensor:  # [1, 1, h, w] in [0, 1]
    """Find dark parts."""
    return 1 - _ramp(_luma(rgb), 0.05, 0.35)


def _luma(rgb: Tensor) -> Tensor:  # [1, 1, h, w]
    return 0.2126 * rgb[:, :1] + 0.7152 * rgb[:, 1:2] + 0.0722 * rgb[:, 2:]


def _ramp(x: Tensor, low: float, high: float) -> Tensor:
    t = ((x - low) / (high - low)).clamp(0, 1)
    return t * t * (3 - 2 * t)


def _matching_gamma(before: Tensor, after: Tensor) -> Tensor:  # a number
    """Search the exponent that gives `after` the mean of `before`. Equal means give exactly 1."""
    wanted = before.mean()
    bright = after.new_tensor(_BRIGHTEST)
    dark = after.new_tensor(_DARKEST)
    values = after.clamp_min(1e-3)
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
