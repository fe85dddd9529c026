"""A backend whose restored frames get their fine contrast back where the fog was dense.

It works on the luma of the restored samples, behind every backend. Frames that are clear when they come out of the
network pass unchanged, and so do dark ones, whose little contrast is no fog.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from libranet.frames import ColorConverter, FrameFormat, Frames
from libranet.frames.color import code_scales
from libranet.kernels.native.library import torch_threads
from libranet.network.residual_haze import LUMA, clearness, falling, luma
from libranet.network.stream import FrameGrids
from libranet.runtime.interface import Backend, Restored

MOST = 14.5
"""Gain of a neighbourhood with hardly any contrast, in a frame that is still veiled."""
VEILED = (0.36, 0.5)
"""Clearness of a restored frame up to which it gets all of the gain, and from which none."""
LIT = (0.32, 0.38)
"""Mean luma of a frame as it came, up to which it is dark and gets none, and from which all."""
_VIEW = 64


class FineContrastBackend(Backend):
    """Passes frames to a backend, and raises the fine contrast of what it returns."""

    def __init__(self, backend: Backend, *, strength: float) -> None:
        self._backend, self._most = backend, MOST * strength
        self.name, self.device, self.stages = backend.name, backend.device, backend.stages
        self._on_kernels = self.name.startswith("cpu-")
        self._format: FrameFormat | None = None

    def push(self, frames: Frames, *, cuts: Sequence[bool] = (), given: Sequence[FrameGrids] = ()) -> list[Restored]:
        return self._raised(self._backend.push(frames, cuts=cuts, given=given))

    def flush(self) -> list[Restored]:
        return self._raised(self._backend.flush())

    def _raised(self, ready: list[Restored]) -> list[Restored]:
        with torch_threads() if self._on_kernels else nullcontext():
            return [self._raise_contrast(restored) for restored in ready]

    def _raise_contrast(self, restored: Restored) -> Restored:
        if restored.format != self._format:
            self._format = restored.format
            layout, color = restored.format.layout, restored.format.color
            self._converter = ColorConverter(layout, color, device=self.device)
            scales, bases = code_scales(layout, color)
            self._scale = (float(layout.peak), 0.0) if layout.model == "rgb" else (scales[0], bases[0])
        before, after = (self._converter.to_square_rgb(planes, _VIEW) for planes in (restored.before, restored.after))
        lit = 1.0 - falling(luma(before).mean(), LIT)
        gain = self._most * lit * falling(clearness(after), VEILED)
        # A GPU is not waited for: it does the work for nothing.
        if gain.device.type == "cpu" and not gain:
            return restored
        return replace(restored, after=self._changed(restored, gain))

    def _changed(self, restored: Restored, gain: Tensor) -> tuple[Tensor, ...]:
        from libranet.kernels.fine_contrast import planes, reference  # footage without fog does without

        layout, samples = self._converter.layout, restored.after
        given, own = self._channels(restored.before), self._channels(samples)
        low, high = own[0], own[0]
        for channel in own[1:]:
            low, high = low.minimum(channel), high.maximum(channel)
        passes = planes if self._on_kernels else reference
        change = reference.fine_contrast(_mixed(given), _mixed(own), (low, 1.0 - high), gain, passes)
        change = change[..., None] if layout.packed else change
        count = layout.colour_planes if layout.model == "rgb" else 1
        raised = [torch.add(plane.float(), change, alpha=self._scale[0]) for plane in samples[:count]]
        if not layout.floating:
            raised = [plane.round_() for plane in raised]
        return *(plane.clamp_(0, layout.peak).to(samples[0].dtype) for plane in raised), *samples[count:]

    def _channels(self, planes: tuple[Tensor, ...]) -> list[Tensor]:  # [H, W] in [0, 1] each
        """Red, green and blue, or luma alone."""
        layout, (scale, base) = self._converter.layout, self._scale
        if layout.model != "rgb":
            return [planes[0].to(self.device).float().sub(base).div_(scale).clamp_(0.0, 1.0)]
        channels = planes[0].unbind(dim=-1) if layout.packed else (planes[2], planes[0], planes[1])
        return [channel.to(self.device).float().div(scale) for channel in channels]


def _mixed(channels: list[Tensor]) -> Tensor:
    if len(channels) == 1:
        return channels[0]
    red, green, blue = channels
    return torch.add(LUMA[0] * red, green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])
