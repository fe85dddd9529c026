"""The network on a CPU: its layers in the runtime that was chosen, everything between them in one pass each."""

from collections.abc import Callable
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.kernels.color_field.reference import apply_field
from libranet.kernels.resample.reference import downsample, pad_to_multiple, upsample
from libranet.kernels.upsample_add.reference import upsample_add
from libranet.network import LiBrANet, Restoration
from libranet.network.libranet import Grids
from libranet.runtime.cpu.parts import CpuChoice, Layers, Part


class _Chromatic(nn.Module):
    """Stands where the network has its chromatic field."""

    def __init__(self, part: Part, bins: int) -> None:
        super().__init__()
        self.part, self.bins = part, bins

    def forward(self, small: Tensor) -> Tensor:  # [B, 3, 256, 256] -> [B, 2, 12, bins, 16, 16]
        grids = torch.cat([self.part(frame[None]).clone() for frame in small])
        return grids.unflatten(1, (2, 12, self.bins))


class _Temporal(nn.Module):
    """Stands where the network has its temporal field."""

    def __init__(self, encoder: Part, mix: Part) -> None:
        super().__init__()
        self._encoder, self._mix = encoder, mix

    def encode(self, small: Tensor) -> Tensor:  # [N, 3, 256, 256] -> [N, C, 16, 16]
        return torch.cat([self._encoder(frame[None]).clone() for frame in small])

    def mix(self, features: Tensor, *, centre_only: bool = False) -> Tensor:  # [B, T, C, 16, 16] -> [B, 12, 1, 16, 16]
        assert centre_only, "runtimes compute the plane that is sliced"
        return torch.cat([self._mix(window[None]).clone() for window in features])[:, :, None]


class CpuNetwork(LiBrANet):
    """Computes what the network computes, within the rounding of the choice. For inference, on frames one by one.

    It has no matrices: ask `source` for `Restoration.transmission`.
    """

    def __init__(self, source: LiBrANet, choice: CpuChoice) -> None:
        """Build the parts.

        Args:
            source: The network in float32 on the CPU.
            choice: Runtime and precision of its layers.
        """
        nn.Module.__init__(self)  # not LiBrANet's: it would make weights
        c = source.config
        assert can_accelerate(source)
        assert choice.runtime != "numba" or fits_kernels(source)
        self.source, self.choice = source, choice
        self.config, self.weights = c, source.weights
        self._layers = Layers(source, choice)
        self.chromatic = _Chromatic(self._layers.chromatic(), c.bins)  # type: ignore[assignment]
        self.temporal = _Temporal(self._layers.encoder(), self._layers.mix())  # type: ignore[assignment]
        self._refiner: Part | None = None
        self._size = (0, 0)
        self._compiled = find_spec("numba") is not None

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
        c = self.config
        carrier = pad_to_multiple(frame.float(), c.scale).contiguous()
        h, w = carrier.shape[-2] // c.scale, carrier.shape[-1] // c.scale
        if (h, w) != self._size:
            self._refiner, self._size = self._layers.refiner(h, w), (h, w)
        assert self._refiner is not None
        assert grids.chromatic is not None
        assert grids.temporal is not None
        low = downsample(carrier, (h, w))
        plane = grids.temporal[:, :, grids.temporal.shape[2] // 2]
        field, finish = (apply_field, upsample_add) if not self._compiled else _compiled_parts()
        small, delta = field(low, grids.chromatic * strength, plane * strength)
        residual = self._refiner(F.pixel_unshuffle(carrier, c.scale), small)
        if steady is not None:
            shift = self.steady_shift(residual.float().unflatten(1, (3, c.scale**2)).mean(dim=2), steady)
            delta = delta + strength * upsample(shift, (h, w))
        image = finish(carrier, delta, residual if strength == 1.0 else residual * strength)
        image = image[..., : frame.shape[-2], : frame.shape[-1]].to(frame.dtype)
        nothing = low.new_empty(0)
        return Restoration(image, small, nothing, nothing, low.new_zeros(()), grids)


def _compiled_parts() -> tuple[Callable[..., tuple[Tensor, Tensor]], Callable[..., Tensor]]:
    """The colour field and the last step, compiled by numba."""
    from libranet.kernels.color_field import cpu as field
    from libranet.kernels.compiled import share_threads
    from libranet.kernels.upsample_add import cpu as finish

    share_threads()
    return field.apply_field, finish.upsample_add


def fits_kernels(network: LiBrANet) -> bool:
    """Whether our own CPU kernels cover this network."""
    return can_accelerate(network) and network.config.scale == 4 and network.config.refiner_mix_kernel == 1


def can_accelerate(network: LiBrANet) -> bool:
    """Whether the parts cover this network: the full design in float32 on a CPU."""
    c = network.config
    whole = c.chromatic_field and c.temporal_field and c.refiner and c.cayley and c.adaptive_slicing
    return whole and network.device.type == "cpu" and network.dtype == torch.float32
