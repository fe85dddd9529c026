"""The streaming form: one frame in, one restored frame out, every frame encoded once.

The edge rule: where a window reaches beyond the stream, its first or last frame is repeated. A stream that ends after
N frames gives, frame by frame, what the windowed network gives with indices clamped to 0 .. N-1. A stream without
look-ahead has no future frames, so its newest frame stands in for them.

A stream may filter its grids over time (`kernels/grid_filter/reference.py`). Then it also remembers the grids of the
last second. Of the look-ahead, only chromatic grids are known in time. The cell means of the refiner's residual are
filtered in the same way, with those of the past: its GroupNorms see the whole frame, and pump, too.

A caller that knows a whole shot gives the grids with each frame (`settle.py`); then nothing is encoded here. The
correction fades to none as a frame's contrast does (`visibility`).
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.frames import check_values
from libranet.kernels.grid_filter.reference import GridFilter, cell_means, similarity, visibility, weighted_mean
from libranet.network.config import LiBrANetConfig
from libranet.network.forward import Steady
from libranet.network.libranet import Grids, LiBrANet, Restoration, check_frames
from libranet.network.residual_haze import fold, plan, view_frame

NO_FILTER = GridFilter(seconds=0.0)


class Stages(Protocol):
    """What a stream asks of a network: `LiBrANet` itself, or a runtime that computes its stages."""

    @property
    def config(self) -> LiBrANetConfig: ...
    @property
    def grid_side(self) -> int: ...
    def predict_chromatic(self, small: Tensor) -> Tensor | None: ...
    def encode_temporal(self, small: Tensor) -> Tensor | None: ...
    def mix_window(self, features: Tensor) -> Tensor: ...
    def restore(self, frame: Any, grids: Grids, *, strength: float, steady: Steady | None) -> Any: ...


@dataclass(frozen=True)
class FrameGrids:
    """The grids to restore a frame by, and what the frame looks like."""

    grids: Grids
    look: Tensor  # [B, 3, 16, 16] in [-1, 1], the mean colours of the grid's cells
    seen: Tensor  # [B] in [0, 1], how much of the frame can be seen


@dataclass(frozen=True)
class Waiting:
    """A frame that is encoded but not restored yet."""

    frame: Any  # what `restore` takes
    chromatic: Tensor | None  # [B, 2, 12, bins, 16, 16]
    look: Tensor  # [B, 3, 16, 16] in [-1, 1], the mean colours of the grid's cells
    seen: Tensor  # [B] in [0, 1], how much of the frame can be seen
    settled: Grids | None = None  # the grids to restore it by, where the caller has them
    view: Tensor | None = None  # [B, 3, 64, 64] in [0, 1], where dense fog is cleared


@dataclass(frozen=True)
class Past:
    """The grids of a frame that was restored, and the cell means of its residual, before the filter."""

    grids: Grids
    residual: Tensor | None  # [B, 3, 16, 16]; None without refiner
    look: Tensor  # [B, 3, 16, 16] in [-1, 1]


@dataclass(frozen=True)
class StreamState:
    """What a stream remembers between two steps: at most T feature maps, look-ahead + 1 frames, and the grids that the
    filter reaches back to."""

    lookahead: int
    """Frames of the future that a frame waits for: 0 for live use, T // 2 for the full window."""
    grid_filter: GridFilter
    """How grids are averaged over time."""
    features: tuple[Tensor, ...] = ()
    """Temporal features [B, C, 16, 16] of the newest frames, oldest first."""
    waiting: tuple[Waiting, ...] = ()
    """Frames still to be restored, oldest first."""
    past: tuple[Past, ...] = ()
    """Grids of as many frames as the filter remembers, oldest first; before the second frame empty."""
    shape: torch.Size | None = None
    """Shape of every frame of this stream, known from the first one on."""
    ended: bool = False
    """True once the stream was asked to drain."""


def start_stream(model: Stages, *, lookahead: int | None = None, grid_filter: GridFilter = NO_FILTER) -> StreamState:
    """Make the state before the first frame. Use a new one for every shot.

    Args:
        lookahead: Future frames that a frame waits for, 0 to T // 2; None is T // 2.
        grid_filter: Average the grids over time, so that the video does not pump. The default leaves them alone.

    Raises:
        InputError: The look-ahead is out of range.
    """
    radius = model.config.window // 2
    lookahead = radius if lookahead is None else lookahead
    if not 0 <= lookahead <= radius:
        raise InputError(f"expected a look-ahead of 0 to {radius} frames for T={model.config.window}, got {lookahead}")
    return StreamState(lookahead, grid_filter)


def stream_step(
    model: LiBrANet,
    frame: Tensor | None,  # [B, 3, H, W] in [0, 1]; None drains the frames still waiting
    state: StreamState | None = None,
    *,
    strength: float = 1.0,
) -> tuple[Tensor | None, StreamState]:
    """Take one frame and restore the oldest one that is ready.

    Args:
        frame: The next frame, or None after the last one, once for each frame still waiting.
        state: What the last step returned; None begins a stream.
        strength: Factor on the correction: 0 returns the input.

    Returns:
        The restored frame, or None while the look-ahead fills; and the state for the next step.

    Raises:
        InputError: The frame does not fit the network or the stream.

    Examples:
        >>> state = start_stream(model)
        >>> for frame in clip:
        ...     restored, state = stream_step(model, frame, state)
        >>> while state.waiting:
        ...     restored, state = stream_step(model, None, state)
    """
    restoration, state = stream_restore(model, frame, state, strength=strength)
    return (None if restoration is None else restoration.image), state


@torch.no_grad()
def stream_restore(
    model: LiBrANet,
    frame: Tensor | None,  # [B, 3, H, W] in [0, 1]
    state: StreamState | None = None,
    *,
    strength: float = 1.0,
    given: FrameGrids | None = None,
) -> tuple[Restoration | None, StreamState]:
    """`stream_step` with everything that the network predicted for the frame; `given` as `give_frame` takes it."""
    state = state or start_stream(model)
    if frame is None:
        state = replace(state, ended=True)
    else:
        _check(frame, state)
        if given is None:
            state = take_frame(model, frame, model.encoder_input(frame), state)
        else:
            state = give_frame(frame, given, state)
        state = replace(state, shape=frame.shape)
    return restore_oldest(model, state, strength=strength)


def take_frame(
    model: Stages,
    frame: Any,
    small: Tensor,  # [B, 3, S, S] in [-1, 1]
    state: StreamState,
) -> StreamState:
    """Encode the next frame of a stream."""
    features = model.encode_temporal(small)
    look, seen = cell_means(small, model.grid_side), visibility(small)
    view = view_frame(small, model.grid_side) if model.config.dense_fog else None
    waiting = Waiting(frame, model.predict_chromatic(small), look, seen, view=view)
    kept = state.features if features is None else (*state.features, features)
    return replace(state, features=kept, waiting=(*state.waiting, waiting))


def give_frame(frame: Any, given: FrameGrids, state: StreamState) -> StreamState:
    """Take the next frame of a stream with the grids to restore it by: nothing is encoded, and it waits for none.

    Args:
        given: Its grids. They are not filtered; the residual's cell means are.
        state: Of a stream without look-ahead, all of whose frames are given.
    """
    return replace(state, waiting=(*state.waiting, Waiting(frame, None, given.look, given.seen, given.grids)))


def restore_oldest(model: Stages, state: StreamState, *, strength: float) -> tuple[Any | None, StreamState]:
    """Restore the oldest frame that waits, if it is due: the look-ahead is full, or the stream has ended."""
    if not state.waiting or not (state.ended or len(state.waiting) > state.lookahead):
        return None, state
    oldest, *rest = state.waiting
    grids = oldest.settled or Grids(oldest.chromatic, _temporal_plane(model, state))
    if oldest.view is not None:
        grids = replace(grids, clearing=plan(grids, oldest.view))
    memory, filter_ = state.grid_filter.memory, _Filter(state, grids)
    steady = filter_.average_residual if memory else None
    used = oldest.settled or filter_.average(grids)
    if used.clearing is not None:
        used = fold(used, used.clearing)
    if not oldest.seen.is_meta:  # one factor for all frames of a batch: those that show something decide
        strength *= float(oldest.seen.amax())
    restored = model.restore(oldest.frame, used, strength=strength, steady=steady)
    latest = Past(grids, filter_.residual, oldest.look)
    past = (*(state.past or (latest,) * memory), latest)[-memory:] if memory else ()
    # The next frame's window reaches T // 2 frames back from it.
    keep = len(rest) + model.config.window // 2
    features = state.features[-keep:] if keep else ()
    return restored, replace(state, waiting=tuple(rest), features=features, past=past)


class _Filter:
    """The filter over time of the oldest waiting frame's grids, and of its residual."""

    def __init__(self, state: StreamState, grids: Grids) -> None:
        now, *ahead = state.waiting
        weigh, memory = state.grid_filter.age_weight, state.grid_filter.memory
        past = state.past or (Past(grids, None, now.look),) * memory  # the first frame stands for those before it
        self.past = [(p, similarity(p.look, now.look) * weigh(memory - index)) for index, p in enumerate(past)]
        near = [(age, waiting) for age, waiting in enumerate(ahead, 1) if weigh(age) > 0.0]
        self.ahead = [(waiting, similarity(waiting.look, now.look) * weigh(age)) for age, waiting in near]
        self.residual: Tensor | None = None
        """The residual's cell means before the filter, once it is known."""

    def average(self, grids: Grids) -> Grids:
        chromatic = [(past.grids.chromatic, weight) for past, weight in self.past]
        chromatic += [(waiting.chromatic, weight) for waiting, weight in self.ahead]
        temporal = [(past.grids.temporal, weight) for past, weight in self.past]
        clearing = [(past.grids.clearing, weight) for past, weight in self.past]
        return Grids(
            _mean(grids.chromatic, chromatic), _mean(grids.temporal, temporal), _mean(grids.clearing, clearing)
        )

    def average_residual(self, means: Tensor) -> Tensor:  # [B, 3, 16, 16], twice
        self.residual = means
        return weighted_mean(means, [(p.residual, weight) for p, weight in self.past if p.residual is not None])


def _mean(grid: Tensor | None, others: list[tuple[Tensor | None, Tensor]]) -> Tensor | None:
    return None if grid is None else weighted_mean(grid, [(other, w) for other, w in others if other is not None])


def _check(frame: Tensor, state: StreamState) -> None:
    if state.ended:
        raise InputError("this stream was drained: begin the next one with a new state")
    if frame.dim() != 4:
        raise InputError(f"expected a frame as [B, 3, H, W], got shape {tuple(frame.shape)}")
    check_frames(frame)
    check_values(frame)
    if state.shape not in (None, frame.shape):
        old, new = (f"{s[-1]}x{s[-2]} (batch {s[0]})" for s in (state.shape, frame.shape) if s is not None)
        raise InputError(f"expected every frame of a stream to have one size, got {new} after {old}")


def _temporal_plane(model: Stages, state: StreamState) -> Tensor | None:
    """The centre plane of the temporal grid for the oldest waiting frame."""
    if not state.features:
        return None
    radius, newest = model.config.window // 2, len(state.features) - 1
    centre = newest - (len(state.waiting) - 1)
    window = [state.features[min(max(centre + step, 0), newest)] for step in range(-radius, radius + 1)]
    return model.mix_window(torch.stack(window, dim=1))
