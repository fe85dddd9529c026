"""Where training windows come from."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.fused.support import why_not_device
from libranet.training.haze_config import HazeConfig
from libranet.training.haze_draw import (
    SKY_LEVEL,
    HazeDraw,
    chance,
    draw_haze,
    grade_colours,
    haze_frames,
    sky_share,
    uniform,
)
from libranet.training.photo_bank import COARSE, FINE, PhotoBank

LEAST_OPEN_SKY = 0.12
"""Share of the height that has to be nothing but sky for a picture to lend its sky to others."""


@dataclass(frozen=True)
class Batch:
    """One process's share of a step."""

    hazy: Tensor  # [B, T, 3, H, W] in [0, 1], or [B, 1, 3, H, W] with `still`
    clear: Tensor  # [B, 3, H, W] in [0, 1], the centre frame
    still: bool = False
    """Every window is one frame T times, which is stored and encoded once."""

    def __len__(self) -> int:
        return self.clear.shape[0]


@dataclass(frozen=True)
class Share:
    """Which part of the global batch this process computes."""

    rank: int = 0
    world: int = 1

    def of(self, batch: int) -> slice:
        per_process = batch // self.world
        return slice(self.rank * per_process, (self.rank + 1) * per_process)


class BatchSource(Protocol):
    """Gives the batch of a step. The same step always gives the same batch, which is what makes resuming exact."""

    def batch(self, step: int, share: Share) -> Batch: ...


@dataclass(frozen=True)
class View:
    """What the camera of each sample sees. Drawn on the CPU; the pictures are on the device."""

    images: Tensor  # [N, 3, Hc, Wc] uint8, the whole bank
    index: Tensor  # [B], which picture
    centre: Tensor  # [B, 2]; the canvas spans [-1, 1]
    half: Tensor  # [B, 2], half the crop's size
    motion: Tensor  # [B, 4]
    turn: Tensor  # [B, 2, 2], takes places in the crop, [-1, 1], to places in an upright one: tilt and mirror
    used: Tensor  # [B], share of the canvas's width
    donor: Tensor  # [B], which picture the sky comes from
    stretch: Tensor  # [B], rows of the donor per row of the picture; 0 keeps the picture's own sky
    donor_used: Tensor  # [B], share of the canvas's width that the donor fills
    time: Tensor  # [B], frames by which the window is late
    draw: HazeDraw

    def rows(self, part: slice | Tensor) -> "View":
        """The same for some of the samples; a tensor of numbers may name one twice."""
        drawn = {name: value[part] for name, value in vars(self).items() if name not in ("images", "draw")}
        return View(self.images, draw=self.draw.rows(part), **drawn)

    def twice(self) -> "View":
        """Every sample and, right after it, the same one frame later."""
        both = self.rows(torch.arange(len(self.index)).repeat_interleave(2))
        return replace(both, time=both.time + torch.arange(len(both.time)) % 2)


class HazeOnTheFly:
    """Crops, camera motion, depth and haze, drawn per sample on the device from a bank of clear pictures."""

    def __init__(
        self,
        bank: PhotoBank,
        *,
        haze: HazeConfig,
        batch: int,
        crops: tuple[tuple[int, int], ...],
        window: int,
        scene_share: float,
        seed: int,
        pairs: bool = False,
    ) -> None:
        """With `pairs`, samples 2i and 2i + 1 are one frame apart."""
        self.pairs = pairs
        self.bank, self.haze = bank, haze
        self.size, self.crops, self.seed = batch, crops, seed
        photos, scenes = (torch.nonzero(mask)[:, 0] for mask in (~bank.rendered, bank.rendered))
        if len(photos) == 0 or len(scenes) == 0:
            scene_share = 1.0 if len(photos) == 0 else 0.0
        self.photos, self.scenes, self.scene_share = photos, scenes, scene_share
        self.still = haze.still == 1
        self.frames = 1 if self.still else window  # a still window is made and encoded once
        self.kernel: Callable[..., tuple[Tensor, Tensor]] | None = None
        if why_not_device(bank.fine.device) is None:
            from libranet.kernels.haze.triton import haze_window  # needs Triton

            self.kernel = haze_window

    def batch(self, step: int, share: Share) -> Batch:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        height, width = self.crops[step % len(self.crops)]
        n = self.size // 2 if self.pairs else self.size
        index = self._choose(n, generator)
        centre, half, turn, motion = self._draw_camera(index, height, width, generator)
        bank = self.bank
        donor, stretch = self._draw_donors(index, generator)
        draw = draw_haze(self.haze, bank.brightness[index], bank.sky[donor], bank.has_depth[index], generator)
        noise_seed = int(torch.randint(2**40, (1,), generator=generator))

        # A crop that covers more picture lines than it has pixels reads the smaller copy, which is free of aliasing.
        shrink = float(half[:, 1].mean()) * self.bank.fine.shape[-2] / height
        images = self.bank.fine if shrink < 0.5 * (FINE + 1 / COARSE) else self.bank.coarse
        view = View(
            images, index, centre, half, motion, turn, bank.width[index], donor, stretch, bank.width[donor],
            time=torch.zeros(n), draw=draw,
        )  # fmt: skip
        if self.pairs:
            view = view.twice()
        make = self._make_step_by_step if self.kernel is None else self._make_at_once
        with torch.no_grad():
            return make(view.rows(share.of(self.size)), (height, width), noise_seed + share.rank)

    def _make_at_once(self, view: "View", size: tuple[int, int], noise_seed: int) -> Batch:
        assert self.kernel is not None
        device, d = view.images.device, view.draw
        columns = (
            view.centre, view.half, view.motion, view.turn, view.used, d.beta, d.leftover, d.near, d.gamma,
            d.prior_share, d.horizon, d.ramp_power, d.relief_share, d.floor, d.airlight, d.light_slope, d.noise,
            d.saturation, d.lift, d.balance, d.tone, d.sky, view.stretch, view.donor_used,
            view.time, d.fog, d.tone_curve,
        )  # fmt: skip
        numbers = torch.cat([column.reshape(len(d.near), -1) for column in columns], dim=1).to(device)
        fields = torch.cat([d.relief, d.patches, d.shade], dim=1).to(device)
        pictures = (view.images, self.bank.depth, view.index.to(device), view.donor.to(device))
        made = self.kernel(*pictures, numbers, fields, size, window=self.frames, sky_level=SKY_LEVEL, seed=noise_seed)
        return Batch(*made, still=self.still)

    def _make_step_by_step(self, view: "View", size: tuple[int, int], noise_seed: int) -> Batch:
        device = view.images.device
        draw, here = view.draw.to(device), view.index.to(device)
        camera = (v.to(device) for v in (view.centre, view.half, view.motion, view.turn, view.used, view.time))
        clear, depth, place = self._look(view.images[here], self.bank.depth[here], *size, *camera)
        clear = torch.lerp(clear, self._look_up(view, place), sky_share(depth) * _each(view.stretch > 0, device))
        clear = grade_colours(clear, depth, place, draw)
        hazy, target = haze_frames(clear, depth, place, draw)
        hazy = self._add_noise(hazy, draw.noise, noise_seed)
        hazy = (hazy * 255).round() / 255  # what a camera stores
        return Batch(hazy, target[:, self.frames // 2].contiguous(), still=self.still)

    def _choose(self, n: int, generator: torch.Generator) -> Tensor:  # [n] indices into the bank
        rendered = chance(n, self.scene_share, generator)
        picks = torch.rand(n, generator=generator)
        photo = (picks * len(self.photos)).long().clamp_max(max(len(self.photos) - 1, 0))
        scene = (picks * len(self.scenes)).long().clamp_max(max(len(self.scenes) - 1, 0))
        if len(self.photos) == 0:
            return self.scenes[scene]
        return torch.where(rendered, self.scenes[scene], self.photos[photo]) if len(self.scenes) else self.photos[photo]

    def _draw_donors(self, index: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """For some pictures with a sky another one's, and how to stretch it: [B] which, [B] rows per row."""
        n, open_sky = len(index), self.bank.open_sky
        if self.haze.swap == 0 or not len(donors := torch.nonzero(open_sky >= LEAST_OPEN_SKY)[:, 0]):
            return index, torch.zeros(n)
        donor = donors[torch.randint(len(donors), (n,), generator=generator)]
        swapped = chance(n, self.haze.swap, generator) & (self.bank.skyline[index] > 0)
        stretch = open_sky[donor] / self.bank.skyline[index].clamp_min(1e-3)
        return torch.where(swapped, donor, index), torch.where(swapped, stretch, 0.0)

    def _draw_camera(
        self, index: Tensor, height: int, width: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """[B, 2] centre, [B, 2] half size, [B, 2, 2] turn, [B, 4] motion; the canvas spans [-1, 1]."""
        n = len(index)
        canvas = self.bank.fine.shape[-1] / self.bank.fine.shape[-2]
        used = self.bank.width[index]
        squeeze, lean = self.haze.squeeze, self.haze.tilt
        aspect = width / height * torch.exp(uniform(n, (-squeeze, squeeze), generator))
        tilt = uniform(n, (-lean, lean), generator).deg2rad()
        sine, cosine = tilt.sin(), tilt.cos()
        # What the tilted crop covers, in its own heights; the largest one still fits the picture.
        across, down = aspect * cosine + sine.abs(), cosine + aspect * sine.abs()
        half_y = uniform(n, self.haze.zoom, generator) * torch.minimum(used * canvas / across, 1 / down)
        half_x = half_y * aspect / canvas
        room_x, room_y = (used - half_y * across / canvas).clamp_min(0), (1 - half_y * down).clamp_min(0)
        centre_x = (used - 1) + (torch.rand(n, generator=generator) * 2 - 1) * room_x
        centre_y = (torch.rand(n, generator=generator) * 2 - 1) * room_y
        mirror = torch.where(chance(n, 0.5, generator), -1.0, 1.0)
        turn = torch.stack([mirror * cosine, -sine / aspect, mirror * sine * aspect, cosine], 1).view(n, 2, 2)
        still = chance(n, self.haze.still, generator)
        # Pictures that stand still within a window still move between two.
        speed = self.haze.motion * (torch.ones(n) if self.pairs and self.still else ~still)
        # Pan x, pan y, zoom, and parallax: how much more near things move than far ones.
        motion = (torch.rand(n, 4, generator=generator) * 2 - 1) * speed[:, None]
        return torch.stack([centre_x, centre_y], -1), torch.stack([half_x, half_y], -1), turn, motion

    def _look(
        self,
        images: Tensor,  # [B, 3, Hc, Wc] uint8
        depths: Tensor,  # [B, 1, hc, wc] uint8
        height: int,
        width: int,
        centre: Tensor,
        half: Tensor,
        motion: Tensor,
        turn: Tensor,  # [B, 2, 2]
        used: Tensor,  # [B]
        time: Tensor,  # [B]
    ) -> tuple[Tensor, Tensor, Tensor]:  # [B, T, 3, H, W], [B, T, 1, H, W], [B, T, H, W, 2]
        b, t, device = len(images), self.frames, images.device
        y = (torch.arange(height, device=device) * 2 + 1) / height - 1
        x = (torch.arange(width, device=device) * 2 + 1) / width - 1
        base = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)  # [H, W, 2]
        base = torch.einsum("hwj,bij->bhwi", base, turn)
        still = centre[:, None, None] + half[:, None, None] * base  # [B, H, W, 2]
        depth_float = depths.float() / 255
        nearness = 1 - F.grid_sample(depth_float, still, padding_mode="border", align_corners=False)[:, 0]
        tau = (torch.arange(t, device=device) - t // 2).view(1, t, 1, 1, 1) + time.view(b, 1, 1, 1, 1)
        pan, zoom, parallax = motion[:, None, None, None, :2], motion[:, 2], motion[:, 3]
        scale = 1 + tau * zoom.view(b, 1, 1, 1, 1) * 0.5
        shift = tau * (pan + pan.sign() * (nearness * parallax.abs()[:, None, None])[:, None, ..., None])
        place = centre[:, None, None, None] + half[:, None, None, None] * (base[:, None] * scale + shift * 2)
        limit = 2 * used - 1
        place = torch.stack([torch.minimum(place[..., 0], limit.view(b, 1, 1, 1)), place[..., 1]], -1).clamp(-1, 1)

        flat = place.reshape(b, t * height, width, 2)
        picture = F.grid_sample(images.float() / 255, flat, padding_mode="border", align_corners=False)
        distance = F.grid_sample(depth_float, flat, padding_mode="border", align_corners=False)
        return (
            picture.view(b, 3, t, height, width).transpose(1, 2),
            distance.view(b, 1, t, height, width).transpose(1, 2),
            place,
        )

    @staticmethod
    def _look_up(view: "View", place: Tensor) -> Tensor:  # [B, T, H, W, 2] -> [B, T, 3, H, W]
        """The donors' skies, stretched to reach down to the skylines of the pictures."""
        device = place.device
        b, t, height, width, _ = place.shape
        stretch, limit = (v.to(device).view(b, 1, 1, 1) for v in (view.stretch, 2 * view.donor_used - 1))
        x, y = torch.minimum(place[..., 0], limit), (place[..., 1] + 1) * stretch - 1
        flat = torch.stack([x, y], -1).reshape(b, t * height, width, 2)
        donors = view.images[view.donor.to(device)].float() / 255
        sampled = F.grid_sample(donors, flat, padding_mode="border", align_corners=False)
        return sampled.view(b, 3, t, height, width).transpose(1, 2)

    @staticmethod
    def _add_noise(hazy: Tensor, sigma: Tensor, seed: int) -> Tensor:
        generator = torch.Generator(hazy.device).manual_seed(seed)
        grain = torch.randn(hazy.shape, generator=generator, device=hazy.device)
        return (hazy + grain * sigma[:, None, None, None, None]).clamp(0, 1)


def _each(value: Tensor, device: torch.device) -> Tensor:  # [B] -> [B, 1, 1, 1, 1] on the device
    return value.to(device)[:, None, None, None, None]


class OneAhead:
    """Makes the next batch while the current step runs: in a thread, on a CUDA stream of its own."""

    def __init__(self, source: BatchSource) -> None:
        self.source = source
        self.stream = torch.cuda.Stream()
        self.thread = ThreadPoolExecutor(1)
        self.coming: tuple[int, Future[Batch]] | None = None

    def batch(self, step: int, share: Share) -> Batch:
        if self.coming is None or self.coming[0] != step:
            self._begin(step, share)
        assert self.coming is not None
        ready = self.coming[1].result()
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        for tensor in (ready.hazy, ready.clear):
            tensor.record_stream(current)
        self._begin(step + 1, share)
        return ready

    def _begin(self, step: int, share: Share) -> None:
        self.coming = (step, self.thread.submit(self._make, step, share))

    def _make(self, step: int, share: Share) -> Batch:
        with torch.cuda.stream(self.stream):
            return self.source.batch(step, share)
