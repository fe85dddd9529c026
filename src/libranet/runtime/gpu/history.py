"""The grids of the last frames on the device, the cell means of their residuals, and their filter over time.

The ring here is longer than the other rings of a step, and its length depends on the frame rate. So a captured graph
does not know its slots: a clock on the device counts the frames, and the graph advances it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.kernels.bands import resize_matrix
from libranet.kernels.grid_filter.gpu import filter_out
from libranet.kernels.grid_filter.reference import GridFilter, visibility
from libranet.network.libranet import Grids
from libranet.network.residual_haze import PLAN_MAPS, fold, plan, view_frame
from libranet.network.stream import FrameGrids
from libranet.runtime.gpu.ring import RingSchedule

ENDLESS = 2**62  # frames of a stream that has not ended


class GridHistory:
    """Remembers both fields' grids and the frames' cell means, and filters the grids of the frames to restore."""

    def __init__(
        self,
        grid_filter: GridFilter,
        schedule: RingSchedule,
        *,
        bins: int,
        side: int,
        cells: tuple[int, int],  # height and width of the frames in cells of 4x4 pixels
        device: torch.device,
        given: bool = False,
        dense_fog: bool = False,
    ) -> None:
        self.grid_filter, self.schedule = grid_filter, schedule
        self.given = given
        """The caller writes `filtered_chroma` and `filtered_planes` (`give`); residuals alone are filtered here."""
        self.ring = schedule.delay + schedule.batch + grid_filter.memory
        self.side = side

        def make(*shape: int) -> Tensor:
            return torch.zeros(*shape, side, side, device=device)

        self.chroma = make(self.ring, 2, 12, bins)
        self.planes = make(self.ring, 12)
        self.looks = make(self.ring, 3)
        self.seen = torch.zeros(self.ring, device=device)
        self.clock = torch.tensor([0, ENDLESS], device=device)
        """The first frame of the step's batch; how many frames the stream has."""
        self._new = torch.arange(schedule.batch, device=device)
        self._restored = torch.arange(schedule.batch, device=device) - schedule.delay
        self.filtered_chroma = make(schedule.batch, 2, 12, bins)
        self.filtered_planes = make(schedule.batch, 12)
        self.dense_fog = dense_fog and not given  # grids that are given have it folded in
        if self.dense_fog:
            self.views = torch.zeros(self.ring, 3, 4 * side, 4 * side, device=device)
            self.plans = make(self.ring, PLAN_MAPS)
            self._filtered_plans = make(schedule.batch, PLAN_MAPS)
        self.residuals = make(self.ring, 3)
        self._filtered_residuals = make(schedule.batch, 3)
        # A residual's mean over each cell of the grid: the reduction of both axes, and of a cell's sixteen pixels.
        self._down, self._across = (resize_matrix(size, side).T.contiguous().to(device) for size in cells)
        self._down = self._down.half()
        self._colours = F.pad(torch.eye(3), (0, 0, 0, 1)).div(16.0).repeat(16, 1).to(device)  # [64, 3]

    def remember_frames(
        self,
        small: Tensor,  # [B, S, S, 4] fp16 in [-1, 1], the encoders' input
        chroma: Tensor,  # [B, 2, 12, bins, gh, gw] fp32
    ) -> None:
        """Remember what the frames of this step look like, and their chromatic grids."""
        size = small.shape[1] // self.side
        cells = small.view(len(small), self.side, size, self.side, size, 4)
        means = cells.mean(dim=(2, 4), dtype=torch.float32)[..., :3].permute(0, 3, 1, 2)
        slots = (self._new + self.clock[0]).remainder_(self.ring)
        self.looks.index_copy_(0, slots, means)
        self.chroma.index_copy_(0, slots, chroma)
        image = small[..., :3].permute(0, 3, 1, 2)
        self.seen.index_copy_(0, slots, visibility(image))
        if self.dense_fog:
            self.views.index_copy_(0, slots, view_frame(image, self.side))

    def remember_planes(self, planes: Tensor) -> None:  # [B, 12, gh, gw] fp32
        """Remember the temporal planes of the frames that this step restores."""
        slots = (self._restored + self.clock[0]).remainder_(self.ring)
        self.planes.index_copy_(0, slots, planes)

    def give(
        self,
        number: int,  # of the frame in its stream
        place: int,  # in the batch
        grids: FrameGrids,
    ) -> None:
        """Take the grids to restore a frame of the next step by, and what it looks like."""
        assert grids.grids.chromatic is not None
        assert grids.grids.plane is not None
        self.filtered_chroma[place].copy_(grids.grids.chromatic[0], non_blocking=True)
        self.filtered_planes[place].copy_(grids.grids.plane[0], non_blocking=True)
        self.looks[number % self.ring].copy_(grids.look[0], non_blocking=True)
        self.seen[number % self.ring].copy_(grids.seen[0], non_blocking=True)

    def strengths(self, strength: Tensor) -> Tensor:  # [1] -> [B]
        """The factors on the corrections of the frames that this step restores: none where nothing can be seen."""
        slots = (self._restored + self.clock[0]).remainder_(self.ring)
        return strength * self.seen.index_select(0, slots)

    def filter_grids(self) -> None:
        """Filter the grids of the frames that this step restores. Writes `filtered_chroma` and `filtered_planes`."""
        if self.given:
            return
        ahead = min(self.schedule.lookahead, self.grid_filter.memory)
        self._filter(self.chroma, self.filtered_chroma, ahead=ahead)
        self._filter(self.planes, self.filtered_planes, ahead=0)  # those of the look-ahead are not known yet
        if self.dense_fog:
            self._clear_residual_haze()

    def _clear_residual_haze(self) -> None:
        """Plan for the frames that this step restores, filter the plans as the grids, and fold them in."""
        slots = (self._restored + self.clock[0]).remainder_(self.ring)
        grids = Grids(self.chroma.index_select(0, slots), self.planes.index_select(0, slots)[:, :, None])
        self.plans.index_copy_(0, slots, plan(grids, self.views.index_select(0, slots)))
        self._filter(self.plans, self._filtered_plans, ahead=0)
        filtered = Grids(self.filtered_chroma, self.filtered_planes[:, :, None])
        changed = fold(filtered, self._filtered_plans).chromatic
        assert changed is not None
        self.filtered_chroma.copy_(changed)

    def _filter(self, grids: Tensor, out: Tensor, *, ahead: int) -> None:
        delay = self.schedule.delay
        filter_out(grids, self.looks, self.clock, out, grid_filter=self.grid_filter, delay=delay, ahead=ahead)

    def cell_means(
        self,
        residual: Tensor,  # [B, h, w, 64] fp16, the channels of `pack_project`
    ) -> Tensor:  # [B, 3, side, side]
        rows = torch.matmul(self._down, residual.flatten(2))  # [B, side, w 64]
        cells = torch.matmul(self._across, rows.view(len(residual), self.side, -1, 64).float())  # [B, side, side, 64]
        return torch.matmul(cells, self._colours).permute(0, 3, 1, 2).contiguous()

    def filter_residuals(self, means: Tensor) -> Tensor:  # [B, 3, side, side] -> [B, 3, side, side]
        """Remember the residuals' cell means, and return those they should have."""
        slots = (self._restored + self.clock[0]).remainder_(self.ring)
        self.residuals.index_copy_(0, slots, means)
        self._filter(self.residuals, self._filtered_residuals, ahead=0)
        return self._filtered_residuals

    def advance(self) -> None:
        self.clock[:1].add_(self.schedule.batch)

    def end(self, count: int) -> None:
        """Say that the stream has `count` frames in all."""
        self.clock[1:].fill_(count)

    def reset(self) -> None:
        self.clock[:1].zero_()
        self.clock[1:].fill_(ENDLESS)
