"""The backend of the peers: windows of whole frames, or one step of a network with a memory."""

from collections import deque
from typing import Any

import torch
from torch import Tensor

from libranet.network import Network
from libranet.network.peer import Peer, RecurrentPeer
from libranet.network.stream import FrameGrids
from libranet.runtime.slots import RgbBackend, RgbSlot


class PeerBackend(RgbBackend):
    """Restores frames with a peer. Where a window reaches beyond the stream, its first or last frame is repeated."""

    name = "plain"

    def __init__(self, peer: Peer, *, live: bool = False, strength: float = 1.0) -> None:
        super().__init__(peer.device)
        self.network, self.strength = peer, strength
        self._future = 0 if live else peer.config.future
        self._recurrent = peer if isinstance(peer, RecurrentPeer) else None
        self._state: Any = None
        self._images: deque[Tensor] = deque()  # of the past, then those that wait
        self._ahead = 0  # images that wait

    def step(self, slot: RgbSlot, given: FrameGrids | None) -> list[Tensor]:
        """Take an image and return the one that became ready. Peers have no grids."""
        # An image may be overwritten once it is restored, and windows and memories look back at it.
        self._images.append(slot.rgb.clone() if self.network.config.past else slot.rgb)
        self._ahead += 1
        return [self._restore_oldest(self._future)] if self._ahead > self._future else []

    def drain(self) -> list[Tensor]:
        ready = []
        while self._ahead:
            ready.append(self._restore_oldest(self._ahead - 1))
        self._images.clear()
        self._state = None
        return ready

    @torch.no_grad()
    def _restore_oldest(self, ahead: int) -> Tensor:
        """Restore the oldest frame that waits, with `ahead` frames of its future at hand."""
        peer = self.network
        place = len(self._images) - self._ahead
        frame = self._images[place]
        if self._recurrent is not None:
            padded = peer.pad(frame[:, None].to(peer.dtype))[:, 0]
            restored, self._state = self._recurrent.step(padded, self._state)
        else:
            newest = place + ahead
            indices = (min(max(place + d, 0), newest) for d in range(-peer.config.past, peer.config.future + 1))
            window = torch.stack([self._images[index] for index in indices], dim=1)
            restored = peer.restore(peer.pad(window.to(peer.dtype)))
        image = restored[..., : frame.shape[-2], : frame.shape[-1]].to(frame.dtype).clamp(0.0, 1.0)
        if self.strength != 1.0:
            image = (frame + self.strength * (image - frame)).clamp(0.0, 1.0)
        self._ahead -= 1
        keep = (0 if self._recurrent is not None else peer.config.past) + self._ahead
        while len(self._images) > keep:
            self._images.popleft()
        return image


def make_peer_backend(network: Network, *, live: bool, strength: float) -> PeerBackend:
    assert isinstance(network, Peer)
    return PeerBackend(network, live=live, strength=strength)
