"""A backend whose restored frames get their fine contrast back where the fog was dense.

It works on the luma of the restored samples, behind every backend. Frames that are clear when they come out of the
network pass unchanged, and so do dark ones, whose little contrast is no fog.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from torch import Tensor

from libranet.frames import ColorConverter, FrameFormat, Frames
from libranet.frames.color import code_scales
from libranet.kernels.native.library import torch_threads
from libranet.network.residual_haze import clearness, falling, luma
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
            self._converter = ColorConverter(restored.format.layout, restored.format.color, device=self.device)
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
        passes = planes if self._on_kernels else reference
        if layout.model == "rgb":
            before, after = (self._converter.to_rgb(one) for one in (restored.before, samples))
            room = (after.amin(dim=1)[0], 1.0 - after.amax(dim=1)[0])
            change = reference.fine_contrast(luma(before)[0, 0], luma(after)[0, 0], room, gain, passes)
            return tuple(self._converter.add_change(samples, change.expand_as(after)))
        scale, offset = code_scales(layout, self._converter.spec)
        given, own = (
            ((plane.to(self.device).float() - offset[0]) / scale[0]).clamp_(0.0, 1.0)
            for plane in (restored.before[0], samples[0])
        )
        change = reference.fine_contrast(given, own, (own, 1.0 - own), gain, passes)
        raised = samples[0].float().add_(change, alpha=scale[0])
        raised = raised if layout.floating else raised.round_()
        return raised.clamp_(0, layout.peak).to(samples[0].dtype), *samples[1:]
