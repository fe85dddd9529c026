"""The backend of the peers: windows of whole frames, or one step of a network with a memory."""

from collections import deque
from typing import Any

import torch
from torch import Tensor

from libranet.backends.interface import Restored
from libranet.baselines.interface import Peer, RecurrentPeer
from libranet.errors import InputError


class PeerBackend:
    """Restores frames with a peer. Where a window reaches beyond the stream, its first or last frame is repeated."""

    def __init__(self, peer: Peer, *, live: bool = False, strength: float = 1.0) -> None:
        self.network, self.strength = peer, strength
        self.device = peer.device
        self._future = 0 if live else peer.config.future
        self._recurrent = peer if isinstance(peer, RecurrentPeer) else None
        self._state: Any = None
        self._frames: deque[Tensor] = deque()  # of the past, then those that wait
        self._waiting = 0

    def push(self, frame: Tensor, *, cut: bool = False) -> list[Restored]:
        """Take a frame and return those that became ready."""
        ready = self.flush() if cut else []
        if self._frames and self._frames[-1].shape != frame.shape:
            old, new = (f"{f.shape[-1]}x{f.shape[-2]}" for f in (self._frames[-1], frame))
            raise InputError(f"expected every frame of a stream to have one size, got {new} after {old}")
        # A caller may overwrite a frame once it is restored, and windows look back at it.
        looks_back = self.network.config.past and self._recurrent is None
        self._frames.append(frame.clone() if looks_back else frame)
        self._waiting += 1
        if self._waiting > self._future:
            ready.append(self._restore_oldest(self._future))
        return ready

    def flush(self) -> list[Restored]:
        """Drain the stream and begin a new one."""
        ready = []
        while self._waiting:
            ready.append(self._restore_oldest(self._waiting - 1))
        self._frames.clear()
        self._state = None
        return ready

    @torch.no_grad()
    def _restore_oldest(self, ahead: int) -> Restored:
        """Restore the oldest frame that waits, with `ahead` frames of its future at hand."""
        peer = self.network
        place = len(self._frames) - self._waiting
        frame = self._frames[place]
        if self._recurrent is not None:
            padded = peer.pad(frame[:, None].to(peer.dtype))[:, 0]
            restored, self._state = self._recurrent.step(padded, self._state)
        else:
            newest = place + ahead
            indices = (min(max(place + d, 0), newest) for d in range(-peer.config.past, peer.config.future + 1))
            window = torch.stack([self._frames[index] for index in indices], dim=1)
            restored = peer.restore(peer.pad(window.to(peer.dtype)))
        image = restored[..., : frame.shape[-2], : frame.shape[-1]].to(frame.dtype).clamp(0.0, 1.0)
        if self.strength != 1.0:
            image = (frame + self.strength * (image - frame)).clamp(0.0, 1.0)
        self._waiting -= 1
        keep = (0 if self._recurrent is not None else peer.config.past) + self._waiting
        while len(self._frames) > keep:
            self._frames.popleft()
        return Restored(image, None)
