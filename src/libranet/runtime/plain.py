"""The reference backend: the network's own streaming form in PyTorch, on any device."""

from torch import Tensor

from libranet.network import NO_FILTER, GridFilter, LiBrANet, Restoration, start_stream, stream_restore
from libranet.network.stream import FrameGrids
from libranet.runtime.slots import RgbBackend, RgbSlot


class PlainBackend(RgbBackend):
    """Restores frames with `libranet.network.stream`."""

    name = "plain"

    def __init__(
        self,
        network: LiBrANet,
        *,
        lookahead: int | None = None,
        strength: float = 1.0,
        grid_filter: GridFilter = NO_FILTER,
    ) -> None:
        super().__init__(network.device)
        self.network, self.stages, self.lookahead = network, network, lookahead
        self.strength, self.grid_filter = strength, grid_filter
        self._state = start_stream(network, lookahead=lookahead, grid_filter=grid_filter)

    def step(self, slot: RgbSlot, given: FrameGrids | None) -> list[Tensor]:
        restoration, self._state = stream_restore(
            self.network, slot.rgb, self._state, strength=self.strength, given=given
        )
        return _images(restoration)

    def drain(self) -> list[Tensor]:
        ready = []
        while self._state.waiting:
            restoration, self._state = stream_restore(self.network, None, self._state, strength=self.strength)
            ready += _images(restoration)
        self._state = start_stream(self.network, lookahead=self.lookahead, grid_filter=self.grid_filter)
        return ready


def _images(restoration: Restoration | None) -> list[Tensor]:
    return [] if restoration is None else [restoration.image]
