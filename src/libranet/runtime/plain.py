"""The reference backend: the network's own streaming form in PyTorch, on any device."""

from torch import Tensor

from libranet.network import NO_FILTER, GridFilter, LiBrANet, Restoration, start_stream, stream_restore
from libranet.runtime.gpu.choice import choose_way
from libranet.runtime.rgb import RestoredImage, RgbBackend


class PlainBackend(RgbBackend):
    """Restores frames with `libranet.network.stream`."""

    def __init__(
        self,
        network: LiBrANet,
        *,
        lookahead: int | None = None,
        strength: float = 1.0,
        want_transmission: bool = False,
        grid_filter: GridFilter = NO_FILTER,
        tune: bool = False,
        patient: bool = False,
    ) -> None:
        """Begin a stream.

        Args:
            network: The network, on its device.
            lookahead: As `start_stream` takes it.
            strength: Factor on the correction.
            want_transmission: Also return the transmission.
            grid_filter: How the grids are averaged over time.
            tune: With the first frame, find out which way of running the network is fastest here.
            patient: For that, also try a way that takes a minute to prepare.
        """
        super().__init__(network.device)
        self._tune, self._patient = tune, patient
        self.network, self.lookahead = network, lookahead
        self.strength, self.want_transmission = strength, want_transmission
        self.grid_filter = grid_filter
        self._state = start_stream(network, lookahead=lookahead, grid_filter=grid_filter)

    def restore_image(self, rgb: Tensor) -> list[RestoredImage]:
        """One step of the stream."""
        if self._tune:
            self.network = choose_way(self.network, rgb, patient=self._patient)
            self._tune = False
        restoration, self._state = stream_restore(self.network, rgb, self._state, strength=self.strength)
        return self._images(restoration)

    def drain_images(self) -> list[RestoredImage]:
        """Drain the stream and begin a new one."""
        ready: list[RestoredImage] = []
        while self._state.waiting:
            restoration, self._state = stream_restore(self.network, None, self._state, strength=self.strength)
            ready += self._images(restoration)
        self._state = start_stream(self.network, lookahead=self.lookahead, grid_filter=self.grid_filter)
        return ready

    def _images(self, restoration: Restoration | None) -> list[RestoredImage]:
        if restoration is None:
            return []
        return [RestoredImage(restoration.image, restoration.transmission() if self.want_transmission else None)]
