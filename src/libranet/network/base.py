"""What every dehazing network has in common, ours and the peers'. Engine, trainer and evaluation see no more."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from libranet.network.libranet import Grids


@dataclass(frozen=True)
class WeightsInfo:
    """Which weights a network has; reports show it beside the package's version."""

    name: str = "unnamed"
    version: str = "unversioned"

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def as_json(self) -> dict[str, str]:
        """The keys that every JSON output has."""
        return {"weights_name": self.name, "weights_version": self.version}


class Predicted(Protocol):
    """What a loss looks at."""

    @property
    def image(self) -> Tensor: ...  # [B, 3, H, W] in [0, 1]
    @property
    def grids(self) -> "Grids | None": ...  # None for networks without bilateral grids
    @property
    def small(self) -> Tensor | None: ...  # [B, 3, h, w], restored by the colour field alone; None without one


class Network(nn.Module):
    """Restores the centre frame of a window of hazy frames."""

    architecture: str  # the name that checkpoints and commands know it by
    config: Any
    """A frozen dataclass, stored with the weights. Its `window` is the number of frames T, which is odd."""
    weights: WeightsInfo

    @property
    def device(self) -> torch.device:
        return self._first_tensor().device

    @property
    def dtype(self) -> torch.dtype:
        return self._first_tensor().dtype

    def predict(
        self,
        frames: Tensor,  # [B, T + K - 1, 3, H, W] in [0, 1], or [B, K, 3, H, W] with `still`; not validated
        *,
        still: bool = False,
    ) -> Predicted:
        """Restore the centre frames of K consecutive windows, B * K in all, with what a loss needs.

        With `still` each window is one frame T times, given once.
        """
        raise NotImplementedError

    def centres(self, frames: Tensor, *, still: bool = False) -> Tensor:  # [B, T + K - 1, ...] -> [B, K, ...]
        """The frames that `predict` restores."""
        window = 1 if still else self.config.window
        return frames[:, window // 2 : frames.shape[1] - window // 2]

    def windows(self, frames: Tensor, *, still: bool = False) -> Tensor:  # [B, T + K - 1, ...] -> [B * K, T, ...]
        """The windows of sequences of frames or their features; a still frame is a window by itself."""
        length = self.config.window
        if still:
            return frames.flatten(0, 1)[:, None].expand(-1, length, -1, -1, -1)
        return frames.unfold(1, length, 1).movedim(-1, 2).flatten(0, 1)

    def _first_tensor(self) -> Tensor:
        return next(self.parameters())
