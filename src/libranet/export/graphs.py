"""The network as graphs for other runtimes: tensors in, tensors out, from operators that all of them have.

The layers are those of the network itself. What many runtimes lack is replaced by an equal form: the 5-D
`grid_sample` and antialiased resizing by tents, the branch on the frame's size by reading rows and columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from libranet.errors import InputError
from libranet.kernels.color_field.tents import fuse_grids
from libranet.kernels.grid_filter.reference import cell_means, similarity
from libranet.kernels.resample.reference import pad_to_multiple, upsample
from libranet.kernels.resample.tents import continue_to_multiple, downsample, reduce_by
from libranet.network import NO_FILTER, GridFilter, LiBrANet, start_stream
from libranet.network.forward import Steady, TorchOperations, reduced_means, restore, scaled
from libranet.network.layers import COEFFICIENTS

Form = Literal["still", "window", "streaming"]


@dataclass(frozen=True)
class Port:
    """An input or an output of a graph."""

    name: str
    shape: tuple[int | str, ...]  # a string names a size that is free until the graph runs


class Graph(nn.Module):
    """What all forms share: encoding a frame, and restoring it by its grids."""

    form: Form

    def __init__(self, network: LiBrANet, size: tuple[int, int] | None) -> None:
        """Wrap a network.

        Args:
            network: The network; its dtype is the graph's precision. Frames are always float32.
        """
        super().__init__()
        if not network.config.parts.adaptive_slicing:
            raise InputError("networks with adaptive_slicing=False cannot be exported: choose another checkpoint")
        self.network, self.size = network, size

    @property
    def frame_shape(self) -> tuple[int | str, int | str]:
        """Height and width, as numbers or as names."""
        return ("height", "width") if self.size is None else (self.size[1], self.size[0])

    def inputs(self) -> list[Port]:
        """The graph's inputs, in order."""
        raise NotImplementedError

    def outputs(self) -> list[Port]:
        return [Port("image", (1, 3, *self.frame_shape))]

    def pad(self, frame: Tensor) -> Tensor:
        """Continue a frame to whole cells of the refiner."""
        scale = self.network.config.scale
        return continue_to_multiple(frame, scale) if self.size is None else pad_to_multiple(frame, scale)

    def encoder_input(self, frames: Tensor) -> Tensor:  # [N, 3, H, W] -> [N, 3, 256, 256] in [-1, 1]
        side = self.network.config.encoder.size
        return (downsample(frames, (side, side)) * 2.0 - 1.0).to(self.network.dtype)

    def predict_chromatic(self, small: Tensor) -> Tensor | None:  # [1, 3, 256, 256] -> [1, 24 bins, 16, 16]
        field = self.network.chromatic
        return None if field is None else field.head(field.encoder(small))

    def restore(
        self,
        frame: Tensor,  # [1, 3, H, W] in [0, 1]
        chromatic: Tensor | None,  # [1, 24 bins, 16, 16]
        plane: Tensor | None,  # [1, 12, 16, 16]
        steady: Steady | None = None,
    ) -> Tensor:  # [1, 3, H, W] in [0, 1]
        """Restore the frame, as `LiBrANet.restore` does."""
        return restore(frame, (chromatic, plane), _GraphOperations(self), steady=steady)[0]


class _GraphOperations(TorchOperations):
    """The forward pass from operators that every runtime has."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.network)
        self._graph = graph

    def reduce(self, frame: Tensor) -> tuple[Tensor, Tensor]:
        self._shape = frame.shape
        carrier = self._graph.pad(frame)
        return carrier, reduce_by(carrier, self.config.scale)

    def fuse(self, low: Tensor, grids: tuple[Tensor | None, Tensor | None]) -> Tensor:  # type: ignore[override]
        return fuse_grids(low, *grids)

    def cell_means(self, residual: Tensor) -> Tensor:
        small = functional.avg_pool2d(residual.float(), self.config.scale)
        return reduced_means(small, self.network.grid_side, downsample)

    def add_back(self, carrier: Tensor, correction: Tensor, residual: Tensor | None, strength: float) -> Tensor:
        full = (carrier.shape[-2], carrier.shape[-1])
        if residual is None:
            assert self._small is not None
            image = upsample(self._small, full)
        else:
            image = carrier + upsample(correction, full) + scaled(residual.float(), strength)
        return image.clamp(0.0, 1.0)[..., : self._shape[-2], : self._shape[-1]]


class StillGraph(Graph):
    """One frame in, one frame out: the window is the frame repeated."""

    form: Form = "still"

    def inputs(self) -> list[Port]:
        return [Port("frame", (1, 3, *self.frame_shape))]

    def forward(self, frame: Tensor) -> Tensor:  # [1, 3, H, W] in [0, 1], twice
        small, plane = self.encoder_input(self.pad(frame)), None
        chromatic = self.predict_chromatic(small)
        if (temporal := self.network.temporal) is not None:
            features = temporal.encode(small)[:, None].expand(-1, self.network.config.window, -1, -1, -1)
            plane = temporal.mix(features, centre_only=True)[:, :, 0]
        return self.restore(frame, chromatic, plane)


class WindowGraph(Graph):
    """T frames stacked along channels in, the centre one restored out, for hosts that ask for frames in any order."""

    form: Form = "window"

    def inputs(self) -> list[Port]:
        return [Port("frames", (1, 3 * self.network.config.window, *self.frame_shape))]

    def forward(self, frames: Tensor) -> Tensor:  # [1, 3 T, H, W] in [0, 1] -> [1, 3, H, W]
        window = self.network.config.window
        middle, plane = window // 2, None
        stacked = frames.reshape(window, 3, frames.shape[2], frames.shape[3])
        frame = stacked[middle : middle + 1]
        small = self.encoder_input(self.pad(stacked))
        centre = small[middle : middle + 1]
        chromatic = self.predict_chromatic(centre)
        if (temporal := self.network.temporal) is not None:
            plane = temporal.mix(temporal.encode(small)[None], centre_only=True)[:, :, 0]
        return self.restore(frame, chromatic, plane)


class StreamGraph(Graph):
    """A frame and the state in, a restored frame and the next state out.

    The restored frame is `lookahead` frames older than the newest one. `reset` is 1 for the first frame of a shot: the
    state is then filled from that frame, and whatever it held is ignored. After the last frame, that frame again with
    `end` = 1, once for each frame still due, ends the stream as `libranet.network.stream` ends it.
    """

    form: Form = "streaming"

    def __init__(
        self, network: LiBrANet, size: tuple[int, int] | None, *, lookahead: int | None, grid_filter: GridFilter
    ) -> None:
        super().__init__(network, size)
        self.lookahead = start_stream(network, lookahead=lookahead).lookahead
        self.radius, self.grid_filter = network.config.window // 2, grid_filter
        self.bins = network.config.fields.bins if network.chromatic is not None else 0
        self.side = network.grid_side

    @property
    def counts_end(self) -> bool:
        """Whether the graph has the input `end`: the filter must not count a repeated frame of the look-ahead."""
        return self.lookahead > 0 and self.grid_filter.memory > 0

    def state(self) -> list[Port]:
        """The state's tensors, without prefix. All zeros before the first frame."""
        c, ports, cells = self.network.config, [], (self.side, self.side)
        chromatic, memory = 2 * COEFFICIENTS * self.bins, self.grid_filter.memory
        if self.network.temporal is not None:
            ports.append(Port("features", (self.radius + self.lookahead, c.encoder.widths[-1], *cells)))
        if self.lookahead:
            ports.append(Port("frames", (self.lookahead, 3, *self.frame_shape)))
            ports.append(Port("waiting", (self.lookahead, chromatic + 3, *cells)))
        if memory:
            ports.append(Port("past", (memory, chromatic + COEFFICIENTS + 6, *cells)))
            ports.append(Port("known", (self.lookahead + memory,)))
        return ports

    def inputs(self) -> list[Port]:
        signals = [Port("reset", (1,)), *([Port("end", (1,))] if self.counts_end else [])]
        state = [Port(f"state_{port.name}", port.shape) for port in self.state()]
        return [Port("frame", (1, 3, *self.frame_shape)), *signals, *state]

    def outputs(self) -> list[Port]:
        return [*super().outputs(), *(Port(f"next_{port.name}", port.shape) for port in self.state())]

    def forward(self, frame: Tensor, reset: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        end, *state = others if self.counts_end else (torch.zeros_like(reset), *others)
        held = dict(zip((port.name for port in self.state()), state, strict=True))
        following: dict[str, Tensor] = {}

        def append(name: str, newest: Tensor) -> Tensor:  # [1, ...] -> [held + 1, ...], oldest first
            """Put the newest entry behind those held; the state moves on by one."""
            entries = torch.cat([held[name] * (1.0 - reset) + newest * reset, newest])
            following[name] = entries[1:]
            return entries

        network = self.network
        small = self.encoder_input(self.pad(frame))
        look = cell_means(small, self.side)
        chromatic = self.predict_chromatic(small)
        # [1, 24 bins + 3, 16, 16]: the chromatic grids, and how the frame looks.
        waiting = look if chromatic is None else torch.cat([chromatic, look], dim=1)
        plane = look.new_zeros((1, COEFFICIENTS, self.side, self.side))
        if network.temporal is not None:
            features = append("features", network.temporal.encode(small).float()).to(network.dtype)
            window = torch.cat([features] + [features[-1:]] * (self.radius - self.lookahead))
            plane = network.temporal.mix(window[None], centre_only=True)[:, :, 0]
        if self.lookahead:
            waiting = append("waiting", waiting)
            frame = append("frames", frame)[:1]
        grids = torch.cat([waiting[:1, :-3], plane], dim=1)
        if not self.grid_filter.memory:
            image = self._restore_by(frame, grids)
            return (image, *(following[port.name] for port in self.state()))
        known = torch.cat([held["known"] * (1.0 - reset), 1.0 - end])  # past, waiting, newest
        following["known"] = known[1:]
        filtered, past = self._filter(grids, waiting, held["past"], known)
        total = past.sum(dim=0, keepdim=True) + 1.0

        def steady(means: Tensor) -> Tensor:  # [1, 3, 16, 16], twice
            entry = torch.cat([grids, means, waiting[:1, -3:]], dim=1)
            following["past"] = torch.cat([held["past"][1:], entry])
            return means + ((held["past"][:, -6:-3] - means) * past).sum(dim=0, keepdim=True) / total

        if network.refiner is None:
            steady(torch.zeros_like(look))
        image = self._restore_by(frame, filtered, steady)
        return (image, *(following[port.name] for port in self.state()))

    def _restore_by(
        self,
        frame: Tensor,
        grids: Tensor,  # [1, 24 bins + 12, 16, 16]
        steady: Steady | None = None,
    ) -> Tensor:
        chromatic = None if self.network.chromatic is None else grids[:, :-COEFFICIENTS]
        return self.restore(frame, chromatic, grids[:, -COEFFICIENTS:], steady)

    def _filter(
        self,
        grids: Tensor,  # [1, 24 bins + 12, 16, 16], of the frame to restore
        waiting: Tensor,  # [look-ahead + 1, 24 bins + 3, 16, 16], that frame first
        held: Tensor,  # [memory, 24 bins + 12 + 3 + 3, 16, 16]: grids, means of the residual, looks of the past
        known: Tensor,  # [memory + look-ahead + 1], 1 for frames that the stream has
    ) -> tuple[Tensor, Tensor]:  # [1, 24 bins + 12, 16, 16], [memory, 1, 16, 16]
        """The filter of `kernels/grid_filter`. The first frame stands for those before it; after the last, none counts.

        Returns:
            The filtered grids, and the weights of the past.
        """
        ahead, memory = self.lookahead, self.grid_filter.memory
        now = waiting[:1, -3:]

        def factors(ages: Sequence[int]) -> Tensor:  # [n]
            return torch.tensor([self.grid_filter.age_weight(age) for age in ages], device=now.device)

        def weights(looks: Tensor, counts: Tensor) -> Tensor:  # [n, 1, 16, 16]
            return similarity(looks, now)[:, None] * counts.reshape(-1, 1, 1, 1)

        by_age, had = factors(range(memory, 0, -1)), known[:memory]
        before = (by_age * (1.0 - had)).sum()
        is_first = known[: memory + 1] - torch.cat([torch.zeros_like(known[:1]), had])  # the present frame is last
        past = weights(held[:, -3:], by_age * had + before * is_first[:memory])
        total = ((held[:, :-6] - grids) * past).sum(dim=0, keepdim=True)
        mass = past.sum(dim=0, keepdim=True) + 1.0 + before * is_first[memory]
        if not ahead:
            return grids + total / mass, past
        coming = weights(waiting[1:, -3:], factors(range(1, ahead + 1)) * known[memory + 1 :])
        chromatic = grids[:, :-COEFFICIENTS]
        more = ((waiting[1:, :-3] - chromatic) * coming).sum(dim=0, keepdim=True)
        # Of the frames to come, only chromatic grids are known.
        first = chromatic + (total[:, :-COEFFICIENTS] + more) / (mass + coming.sum(dim=0, keepdim=True))
        return torch.cat([first, (grids + total / mass)[:, -COEFFICIENTS:]], dim=1), past


def make_graph(
    network: LiBrANet,
    form: Form,
    size: tuple[int, int] | None,
    *,
    lookahead: int | None = None,
    grid_filter: GridFilter = NO_FILTER,
) -> StillGraph | WindowGraph | StreamGraph:
    network = network.eval()
    if form == "streaming":
        return StreamGraph(network, size, lookahead=lookahead, grid_filter=grid_filter).eval()
    return (StillGraph if form == "still" else WindowGraph)(network, size).eval()
