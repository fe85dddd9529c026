"""The network by `torch.compile`: its layers, the colour field and the last step, each compiled for one frame size."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.kernels.color_field.reference import apply_field
from libranet.kernels.resample.reference import downsample, pad_to_multiple, upsample
from libranet.network import LiBrANet, Restoration
from libranet.network.libranet import Grids


class _Chromatic(nn.Module):
    """Stands where the network has its chromatic field."""

    def __init__(self, predict: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._predict = predict

    def forward(self, small: Tensor) -> Tensor:
        return self._predict(small)


class _Temporal(nn.Module):
    """Stands where the network has its temporal field."""

    def __init__(self, encode: Callable[[Tensor], Tensor], mix: Callable[..., Tensor]) -> None:
        super().__init__()
        self.encode, self.mix = encode, mix


class CompiledNetwork(LiBrANet):
    """Computes what the network computes, on its device. For inference.

    What a stream remembers stays outside of the compiled functions: it changes with every frame, and each change would
    compile them again. It has no matrices: ask `source` for `Restoration.transmission`.
    """

    def __init__(self, source: LiBrANet) -> None:
        """Prepare; each part is compiled with its first frame.

        Args:
            source: The network, whose weights it shares.
        """
        nn.Module.__init__(self)  # not LiBrANet's: it would make weights
        assert can_compile(source)
        assert source.chromatic is not None
        assert source.temporal is not None
        assert source.refiner is not None
        self.source, self.config, self.weights = source, source.config, source.weights
        self.chromatic = _Chromatic(_compiled(source.chromatic.forward))  # type: ignore[assignment]
        self.temporal = _Temporal(  # type: ignore[assignment]
            _compiled(source.temporal.encode), _compiled(source.temporal.mix)
        )
        self._reduce, self._field, self._finish = _compiled(_reduce), _compiled(_field), _compiled(_finish)
        self._refine = _compiled(source.refiner.forward)

    @torch.no_grad()
    def restore(
        self,
        frame: Tensor,
        grids: Grids,
        *,
        strength: float = 1.0,
        steady: Callable[[Tensor], Tensor] | None = None,
    ) -> Restoration:
        """Restore one frame by its grids, as the network does, without its matrices."""
        scale = self.config.scale
        assert grids.chromatic is not None
        assert grids.temporal is not None
        carrier, low = self._reduce(frame, scale)
        plane = grids.temporal[:, :, grids.temporal.shape[2] // 2]
        small, correction = self._field(low, grids.chromatic, plane, strength)
        residual = self._refine(carrier.to(self.dtype), small.to(self.dtype))
        if steady is not None:
            shift = self.steady_shift(F.avg_pool2d(residual.float(), scale), steady)
            correction = correction + strength * upsample(shift, (low.shape[-2], low.shape[-1]))
        image = self._finish(carrier, correction, residual, strength)
        image = image[..., : frame.shape[-2], : frame.shape[-1]].to(frame.dtype)
        nothing = low.new_empty(0)
        return Restoration(image, small, nothing, nothing, low.new_zeros(()), grids)


def can_compile(network: LiBrANet) -> bool:
    """Whether the parts cover this network: the full design."""
    c = network.config
    return c.chromatic_field and c.temporal_field and c.refiner and c.cayley and c.adaptive_slicing


def _compiled(work: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(work, dynamic=False)


def _reduce(frame: Tensor, scale: int) -> tuple[Tensor, Tensor]:
    carrier = pad_to_multiple(frame, scale)
    return carrier, downsample(carrier, (carrier.shape[-2] // scale, carrier.shape[-1] // scale))


def _field(low: Tensor, chromatic: Tensor, plane: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    return apply_field(low, chromatic * strength, plane * strength)


def _finish(carrier: Tensor, correction: Tensor, residual: Tensor, strength: float) -> Tensor:
    change = upsample(correction, (carrier.shape[-2], carrier.shape[-1])) + strength * residual.to(carrier.dtype)
    return (carrier + change).clamp(0.0, 1.0)
