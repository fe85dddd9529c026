"""The forward pass from a frame and its grids to the restored frame, written once.

`restore` says what happens and in which order. Who computes it provides the `Operations`: plain torch (below), the CPU
kernels (`runtime/cpu`), the fused GPU step and the trainer's kernels (`runtime/gpu`), and exported graphs
(`export/graphs.py`). A change of the method is made here; a runtime that is fast has its own kernel for a step.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch.nn.functional as F
from torch import Tensor

from libranet.kernels.color_field.reference import apply_affine, fuse_grids, transforms
from libranet.kernels.resample.reference import downsample, pad_to_multiple, upsample

if TYPE_CHECKING:
    from libranet.network.libranet import Grids, LiBrANet

Steady = Callable[[Any], Any]
"""Given the cell means of a residual, [B, 3, 16, 16], returns those it should have: the filter over time."""


class Operations(Protocol):
    """The steps of the forward pass. Their values are the runtime's own: tensors, or places in its buffers."""

    def reduce(self, frame: Any) -> tuple[Any, Any]:
        """Return the frame in whole cells of the refiner, and reduced to 1/p of its size."""
        ...

    def apply_field(self, low: Any, grids: Any, strength: Any) -> Any:
        """Slice the grids at each pixel, fuse them in the Lie algebra, map to GL(3), apply. Return the small frame."""
        ...

    def refine(self, carrier: Any, small: Any) -> Any:
        """Return the detail that the refiner adds; None without refiner."""
        ...

    def correction(self, small: Any, low: Any) -> Any:
        """Return what the colour field changed: small - low. Kernels have it from `apply_field`."""
        ...

    def cell_means(self, residual: Any) -> Any:
        """Return the residual's mean over each cell of the grids, [B, 3, 16, 16]."""
        ...

    def shift(self, correction: Any, means: Any, strength: Any) -> Any:
        """Return the correction moved by cell means."""
        ...

    def add_back(self, carrier: Any, correction: Any, residual: Any, strength: Any) -> Any:
        """Add correction and residual to the frame, at its full size, and clamp."""
        ...


def restore(
    frame: Any,
    grids: Any,
    ops: Operations,
    *,
    strength: Any = 1.0,
    steady: Steady | None = None,
) -> tuple[Any, Any]:
    """Restore one frame by its grids.

    Args:
        frame: The hazy frame, as `ops.reduce` takes it.
        grids: Of its window, as `ops.apply_field` takes them.
        ops: Who computes it.
        strength: Factor on the correction: 0 returns the input.
        steady: For streams. The refiner's GroupNorms see the whole frame, so something that appears in one place moves
            the residual everywhere; its cell means are filtered as the grids are.

    Returns:
        The restored frame, and the small one that the colour field alone restored.
    """
    carrier, low = ops.reduce(frame)
    small = ops.apply_field(low, grids, strength)
    residual = ops.refine(carrier, small)
    correction = ops.correction(small, low)
    if steady is not None and residual is not None:
        means = ops.cell_means(residual)
        correction = ops.shift(correction, steady(means) - means, strength)
    return ops.add_back(carrier, correction, residual, strength), small


class TorchOperations:
    """The reference: plain torch, for every configuration of the network, for one frame or batch."""

    def __init__(self, network: "LiBrANet") -> None:
        self.network, self.config = network, network.config
        self.transform: tuple[Tensor, Tensor, Tensor] | None = None
        """A and b at each pixel, and how many pixels fell back to A = I; known after `apply_field`."""
        self._small: Tensor | None = None

    def reduce(self, frame: Tensor) -> tuple[Tensor, Tensor]:  # [B, 3, H, W] -> [B, 3, H', W'], [B, 3, h, w]
        c = self.config
        self._shape, self._dtype = frame.shape, frame.dtype
        carrier = pad_to_multiple(frame, c.scale)
        size = self._reduced(carrier) if c.parts.adaptive_slicing else (c.encoder.size, c.encoder.size)
        return carrier, downsample(carrier, size)

    def apply_field(self, low: Tensor, grids: "Grids", strength: float) -> Tensor:
        fused = scaled(self.fuse(low, grids), strength)
        self.transform = matrix, offset, _ = transforms(fused, use_cayley=self.config.parts.cayley)
        self._small = apply_affine(matrix, offset, low).clamp(0.0, 1.0)
        return self._small

    def fuse(self, low: Tensor, grids: "Grids") -> Tensor:  # [B, 12, h, w]
        """The coefficients at each pixel."""
        return fuse_grids(low, grids.chromatic, grids.plane)

    def refine(self, carrier: Tensor, small: Tensor) -> Tensor | None:  # [B, 3, H', W']
        if self.network.refiner is None:
            return None
        structure = small if self.config.parts.adaptive_slicing else upsample(small, self._reduced(carrier))
        dtype = self.network.dtype
        return self.network.refiner(carrier.to(dtype), structure.to(dtype))

    def correction(self, small: Tensor, low: Tensor) -> Tensor:
        return small - low

    def cell_means(self, residual: Tensor) -> Tensor:
        return reduced_means(F.avg_pool2d(residual.float(), self.config.scale), self.network.grid_side)

    def shift(self, correction: Tensor, means: Tensor, strength: float) -> Tensor:
        return correction + scaled(upsample(means, (correction.shape[-2], correction.shape[-1])), strength)

    def add_back(self, carrier: Tensor, correction: Tensor, residual: Tensor | None, strength: float) -> Tensor:
        full = (carrier.shape[-2], carrier.shape[-1])
        if residual is None:
            # The paper's variant without HF-Refiner has no full-resolution carrier either.
            assert self._small is not None
            image = upsample(self._small, full)
        else:
            # In place: a frame of 3840x2160 in float32 takes 100 MB, and this is where most of them meet.
            image = upsample(correction, full).add_(carrier).add_(residual.to(correction.dtype), alpha=strength)
        return image.clamp_(0.0, 1.0)[..., : self._shape[-2], : self._shape[-1]].to(self._dtype)

    def _reduced(self, carrier: Tensor) -> tuple[int, int]:
        return carrier.shape[-2] // self.config.scale, carrier.shape[-1] // self.config.scale


def scaled(values: Tensor, strength: float) -> Tensor:
    """Values times the strength; without a pass over them where it is one."""
    return values if strength == 1.0 else values * strength


def reduced_means(
    residual: Tensor,  # [B, 3, h, w], the refiner's residual at 1/scale of the frame's size
    side: int,
    resize: Callable[[Tensor, tuple[int, int]], Tensor] = downsample,
) -> Tensor:  # [B, 3, side, side]
    """The means of a residual over the grids' cells."""
    unit = residual.clamp(-1.0, 1.0) * 0.5 + 0.5  # the range of frames, which `downsample` keeps
    return resize(unit, (side, side)) * 2.0 - 1.0
