"""Grids settled over a whole shot, in the Lie algebra, for files: what comes later is known there.

The frames of a quarter of a second make a knot: the mean of their grids and the mean colours of their cells. The
settled grid S of a knot is a robust mean of the grids G of all knots of its shot, at each cell on its own:

    S_k = sum_j v_j s_jk r_j G_j / sum_j v_j s_jk r_j
    s_jk = 1 / (1 + mean_rgb (L_j - L_k)^2 / 0.02^2)         L: the mean colour in the cell
    r_j  = 1 / (1 + |G_j - M|^2 / (2 mean_j |G_j - M|^2))    M: the same mean without r
    v_j:   how much of the knot's frames can be seen (`visibility`)

So a shot is corrected alike from its first frame to its last one; where its light or its depth changes, the moments
that look alike count, and a moment in which the network errs counts little. Frames between two knots take what lies
between their grids. Knots further away than `WINDOW` seconds do not count: memory is bounded for shots of any length,
and a run that begins in the middle of a shot needs no more than that.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby, islice
from operator import attrgetter

import torch
from torch import Tensor

from libranet.kernels.grid_filter.reference import MAX_RATE, cell_means, similarity, visibility
from libranet.network.libranet import Grids
from libranet.network.residual_haze import fold, plan, view_frame
from libranet.network.stream import FrameGrids, Stages

KNOT = 0.25  # seconds of a knot
WINDOW = 30.0  # seconds before and after a moment that count: 17 MB of grids a minute are in memory
LEAST_WEIGHT = 1e-6  # of frames in which nothing can be seen: they count where there are no others
SAME = 1e-12  # keeps equal grids from being outliers of each other


@dataclass(frozen=True)
class KnotSpacing:
    """Where knots lie: at multiples of `frames`, counted from the beginning of the video, and at cuts."""

    frames: int  # frames of a knot, at most
    radius: int  # knots before and after one that count

    @classmethod
    def at(cls, rate: float) -> "KnotSpacing":
        rate = min(rate, MAX_RATE)
        frames = max(1, round(KNOT * rate))
        return cls(frames, max(1, round(WINDOW * rate / frames)))

    @property
    def before(self) -> int:
        """Frames before one that its settled grids depend on, at most: two knots more, for neighbours and windows."""
        return (self.radius + 3) * self.frames

    def start(self, first: int) -> int:
        """The frame to begin at, so that grids from frame `first` on are those of the whole video."""
        return max(0, first // self.frames - self.radius - 2) * self.frames

    def after(self, network: Stages) -> int:
        """Frames after one that its settled grids depend on, at most."""
        return (self.radius + 2) * self.frames + network.config.window // 2


@dataclass(frozen=True)
class _Frame:
    """A frame that is encoded."""

    number: int
    shot: int
    look: Tensor  # [1, 3, gh, gw] in [-1, 1]
    seen: Tensor  # [1] in [0, 1], how much can be seen
    chromatic: Tensor | None  # [1, 2, 12, bins, gh, gw]
    features: Tensor | None  # [1, C, gh, gw]
    view: Tensor | None  # [1, 3, 64, 64] in [0, 1], where dense fog is cleared


@dataclass(frozen=True)
class _Knot:
    """A few frames in a row of one shot."""

    frames: list[_Frame]
    look: Tensor  # [1, 3, gh, gw], the mean of theirs
    grids: tuple[Tensor | None, ...]  # the fields of `Grids`, the mean of those that can be seen
    seen: Tensor  # [], how much of the frames can be seen, summed up


def settle(
    frames: Iterable[tuple[Tensor, bool]],  # the encoders' input [1, 3, S, S] in [-1, 1], and whether a shot begins
    stages: Stages,
    spacing: KnotSpacing,
    *,
    first: int = 0,
) -> Iterator[FrameGrids]:
    """Yield the settled grids of each frame, in order.

    Args:
        frames: As many are read ahead as the window is long, or the rest of the shot is.
        first: Number of the first frame in the video, a multiple of the spacing.
    """
    assert first % spacing.frames == 0
    for _, shot in groupby(_encode(frames, stages, spacing.frames), key=attrgetter("shot")):
        yield from _settle_shot(_knots(shot, stages, spacing.frames), spacing.radius)


def _encode(frames: Iterable[tuple[Tensor, bool]], stages: Stages, length: int) -> Iterator[_Frame]:
    """Encode frames, on a GPU a knot at a time. A knot's place decides what is in a batch, so that its bits are alike
    wherever the reading began."""
    numbered = ((number, small, cut) for number, (small, cut) in enumerate(frames))
    shot = 0
    for _, knot in groupby(numbered, key=lambda item: item[0] // length):
        numbers, smalls, cuts = zip(*knot, strict=True)
        at_once = 1 if smalls[0].device.type == "cpu" else len(smalls)  # our CPU kernels take single frames
        parts = [torch.cat(smalls[at : at + at_once]) for at in range(0, len(smalls), at_once)]
        chromatic, features = _predict(parts, stages.predict_chromatic), _predict(parts, stages.encode_temporal)
        for at, (number, small, cut) in enumerate(zip(numbers, smalls, cuts, strict=True)):
            shot += cut
            look, seen = cell_means(small, stages.grid_side), visibility(small)
            view = view_frame(small, stages.grid_side) if stages.config.dense_fog else None
            yield _Frame(number, shot, look, seen, chromatic[at], features[at], view)


@torch.no_grad()
def _predict(parts: list[Tensor], predict: Callable[[Tensor], Tensor | None]) -> list[Tensor | None]:
    """What a stage predicts for each frame."""
    found = [predict(part) for part in parts]
    if found[0] is None:  # a network without this field
        return [None] * sum(len(part) for part in parts)
    return [one for batch in found if batch is not None for one in batch.split(1)]


def _knots(frames: Iterator[_Frame], stages: Stages, length: int) -> Iterator[_Knot]:
    """Join the frames of a shot to knots."""
    for _, group in groupby(_with_planes(frames, stages), key=lambda item: item[0].number // length):
        members, planes = zip(*group, strict=True)
        seen = [frame.seen for frame in members]
        chromatic = _mean([frame.chromatic for frame in members], seen)
        views, plans = [frame.view for frame in members if frame.view is not None], []
        if views:  # all at once: what one plan costs is mostly calls
            fields = [[frame.chromatic for frame in members], planes]
            joined = (torch.cat([grids for grids in field if grids is not None]) for field in fields)
            plans = [plan(Grids(*joined), torch.cat(views))]
        look = torch.cat([frame.look for frame in members]).mean(0, keepdim=True)
        light = [replace(frame, chromatic=None, features=None, view=None) for frame in members]  # the mean stays
        yield _Knot(light, look, (chromatic, _mean(planes, seen), _mean(plans, seen)), torch.cat(seen).sum())


def _mean(values: Sequence[Tensor | None], seen: list[Tensor]) -> Tensor | None:  # of n frames in all, each [1]
    """The mean of what can be seen; of everything where nothing can."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    weights = (torch.cat(seen) + LEAST_WEIGHT).view(-1, *[1] * (present[0].dim() - 1))
    return (torch.cat(present).float() * weights).sum(0, keepdim=True) / weights.sum()


@torch.no_grad()
def _with_planes(frames: Iterator[_Frame], stages: Stages) -> Iterator[tuple[_Frame, Tensor | None]]:
    """The frames of a shot with their temporal planes, by the edge rule of `stream.py`."""
    radius = stages.config.window // 2
    row: deque[_Frame] = deque()
    at = 0  # the place of the next frame in the row

    def mixed() -> tuple[_Frame, Tensor | None]:
        frame = row[at]
        if frame.features is None:
            return frame, None
        places = (min(max(at + step, 0), len(row) - 1) for step in range(-radius, radius + 1))
        window = [features for place in places if (features := row[place].features) is not None]
        return frame, stages.mix_window(torch.stack(window, dim=1))

    for frame in frames:
        row.append(frame)
        if len(row) - at > radius:
            yield mixed()
            at += 1
        if at > radius:
            row.popleft()
            at -= 1
    while at < len(row):
        yield mixed()
        at += 1


def _settle_shot(knots: Iterator[_Knot], radius: int) -> Iterator[FrameGrids]:
    """Yield the frames of one shot, each by what lies between the settled grids of the knots around it."""
    kept: deque[_Knot] = deque()
    base = 0  # the number of the first knot that is kept

    def settled(number: int) -> tuple[_Knot, Settled] | None:
        """A knot and its grids, once the window around it is full or the shot has ended."""
        while base + len(kept) <= number + radius and (knot := next(knots, None)) is not None:
            kept.append(knot)
        if number >= base + len(kept):
            return None
        window = islice(kept, max(0, number - radius - base), number + radius + 1 - base)
        return kept[number - base], _robust_mean(kept[number - base], list(window))

    before, now = None, settled(0)
    for number in count(1):
        if now is None:
            return
        after = settled(number)
        yield from _between(before, now, after)
        before, now = now, after
        while kept and base < number - radius:
            kept.popleft()
            base += 1


Settled = tuple[Tensor | None, ...]  # the fields of `Grids`


@torch.no_grad()
def _robust_mean(now: _Knot, window: list[_Knot]) -> Settled:
    """S of a knot, from those that count."""
    looks, seen = torch.cat([knot.look for knot in window]), torch.stack([knot.seen for knot in window])
    weights = (seen + LEAST_WEIGHT).view(-1, 1, 1) * similarity(looks, now.look)  # [n, gh, gw]
    found = []
    for place, own in enumerate(now.grids):
        stacked = [grids for knot in window if (grids := knot.grids[place]) is not None]
        found.append(None if own is None else _without_outliers(torch.cat(stacked), weights))
    return tuple(found)


def _without_outliers(grids: Tensor, weights: Tensor) -> Tensor:  # [n, ..., gh, gw], [n, gh, gw] -> [1, ..., gh, gw]
    flat = grids.flatten(1, -3)  # [n, c, gh, gw]
    mean = torch.einsum("nxy,ncxy->cxy", weights, flat) / weights.sum(0)
    apart = (flat - mean).square().mean(dim=1)  # [n, gh, gw]
    usual = (weights * apart).sum(0) / weights.sum(0)
    trusted = weights / (1.0 + apart / (2.0 * usual + SAME))
    mean = torch.einsum("nxy,ncxy->cxy", trusted, flat) / trusted.sum(0)
    return mean.view(1, *grids.shape[1:])


def _between(
    before: tuple[_Knot, Settled] | None, now: tuple[_Knot, Settled], after: tuple[_Knot, Settled] | None
) -> Iterator[FrameGrids]:
    """The frames of a knot: between its own grids, which are those of its middle, and its neighbours'."""
    knot, grids = now
    length = len(knot.frames)
    for place, frame in enumerate(knot.frames):
        offset = place + 0.5 - length / 2
        neighbour = before if offset < 0 else after
        found = grids
        if neighbour is not None and offset:
            share = abs(offset) / ((length + len(neighbour[0].frames)) / 2)
            pairs = zip(grids, neighbour[1], strict=True)
            found = tuple(a if a is None or b is None else torch.lerp(a, b, share) for a, b in pairs)
        settled = Grids(*found)
        if settled.clearing is not None:
            settled = fold(settled, settled.clearing)
        yield FrameGrids(settled, frame.look, frame.seen)
