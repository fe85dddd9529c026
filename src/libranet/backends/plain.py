"""The reference backend: the network's own streaming form in PyTorch, on any device."""

from torch import Tensor

from libranet.backends.interface import Restored
from libranet.models import LiBrANet, Restoration, start_stream, stream_restore


class PlainBackend:
    """Restores frames with `libranet.models.stream`."""

    def __init__(
        self,
        network: LiBrANet,
        *,
        lookahead: int | None = None,
        strength: float = 1.0,
        want_transmission: bool = False,
    ) -> None:
        self.network, self.lookahead = network, lookahead
        self.strength, self.want_transmission = strength, want_transmission
        self.device = next(network.parameters()).device
        self._state = start_stream(network, lookahead=lookahead)

    def push(self, frame: Tensor, *, cut: bool = False) -> list[Restored]:
        """Take a frame and return those that became ready."""
        ready = self.flush() if cut else []
        restoration, self._state = stream_restore(self.network, frame, self._state, strength=self.strength)
        return ready + self._pack(restoration)

    def flush(self) -> list[Restored]:
        """Drain the stream and begin a new one."""
        ready: list[Restored] = []
        while self._state.waiting:
            restoration, self._state = stream_restore(self.network, None, self._state, strength=self.strength)
            ready += self._pack(restoration)
        self._state = start_stream(self.network, lookahead=self.lookahead)
        return ready

    def _pack(self, restoration: Restoration | None) -> list[Restored]:
        if restoration is None:
            return []
        return [Restored(restoration.image, restoration.transmission() if self.want_transmission else None)]
