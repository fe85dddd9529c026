"""The interface of every peer: a window of hazy frames in, the clear centre frame out, at any resolution."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from libranet.network.base import Network, WeightsInfo
from libranet.network.libranet import check_frames
from libranet.network.padding import pad_to_multiple


@dataclass(frozen=True)
class PeerConfig:
    """What a peer takes in. Its name says everything else."""

    name: str
    """As in the table of peers."""
    past: int = 0
    """Frames before the one that is restored."""
    future: int = 0
    """Frames after it."""
    divisor: int = 1
    """Height and width must be multiples of this; `Peer` pads the frames and crops the result."""
    smallest: int = 1
    """Height and width must not be below this; likewise."""

    @property
    def window(self) -> int:
        """Length of a window around the centre frame that has all frames the peer looks at."""
        return 2 * max(self.past, self.future) + 1


@dataclass(frozen=True)
class PeerRestoration:
    """A restored frame, as the trainer sees it."""

    image: Tensor  # [B, 3, H, W]
    grids: None = None  # peers have no bilateral grids, so the Lie term is zero
    small: None = None  # nor a colour field


class Peer(Network):
    """A published dehazer. A subclass sets its configuration and defines `restore`."""

    config: PeerConfig
    anchor: Tensor

    def __init__(self, config: PeerConfig) -> None:
        super().__init__()
        self.config = config
        self.architecture = config.name
        self.weights = WeightsInfo(config.name)
        self.register_buffer("anchor", torch.zeros(()), persistent=False)  # methods without weights have a place, too

    def restore(
        self,
        frames: Tensor,  # [B, past + 1 + future, 3, H, W] in [0, 1], H and W multiples of the divisor
    ) -> Tensor:  # [B, 3, H, W]
        """Restore the frame after the past ones. The result need not be inside [0, 1]."""
        raise NotImplementedError

    def forward(
        self,
        frames: Tensor,  # [B, T, 3, H, W] in [0, 1]; [B, 1, 3, H, W] with `still`
        *,
        still: bool = False,
    ) -> Tensor:  # [B, 3, H, W] in [0, 1], the dtype of `frames`
        """Restore the centre frame.

        Raises:
            InputError: The frames have the wrong size or type.
        """
        check_frames(frames)
        if frames.shape[0] == 0:
            return frames[:, 0]
        return self.predict(frames, still=still).image.clamp(0.0, 1.0)

    def predict(
        self,
        frames: Tensor,  # [B, T + K - 1, 3, H, W] in [0, 1], or [B, K, 3, H, W] with `still`; not validated
        *,
        still: bool = False,
    ) -> PeerRestoration:
        """Restore the centre frames. The loss sees them clamped, as ours are."""
        c = self.config
        centre = c.window // 2
        window = self.windows(frames, still=still)[:, centre - c.past : centre + c.future + 1]
        restored = self.restore(self.pad(window.to(self.dtype)))
        image = restored[..., : frames.shape[-2], : frames.shape[-1]].to(frames.dtype)
        clamped = image.clamp(0.0, 1.0)
        # Gradients pass the clamp: a peer that begins far outside the range would have none for ever.
        return PeerRestoration(image + (clamped - image).detach() if self.training else clamped)

    def pad(self, frames: Tensor) -> Tensor:  # [B, T, 3, H, W] -> [B, T, 3, H', W']
        """Continue the frames to the right and to the bottom, by reflection where they are large enough."""
        padded = pad_to_multiple(frames.flatten(0, 1), self.config.divisor, smallest=self.config.smallest)
        return padded.unflatten(0, frames.shape[:2])

    def _first_tensor(self) -> Tensor:
        return self.anchor


class RecurrentPeer(Peer):
    """A peer with a memory: as a stream it sees every frame once."""

    def step(
        self,
        frame: Tensor,  # [B, 3, H, W] in [0, 1], H and W multiples of the divisor
        state: Any,
    ) -> tuple[Tensor, Any]:  # [B, 3, H, W]
        """Restore the next frame of a stream; `state` is what the last step returned, None at the beginning."""
        raise NotImplementedError

    def restore(self, frames: Tensor) -> Tensor:
        """Run over the window and return the last frame."""
        state: Any = None
        restored = frames[:, -1]
        for frame in frames.unbind(1):
            restored, state = self.step(frame, state)
        return restored
