"""The five checks of a clip, computed from the files on disk. A clip that fails one is flagged."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from libranet.data.dataset import CheckResult, Clip
from libranet.data.frames import RgbImage
from libranet.data.maps import Map
from libranet.data.windows import frame_to_tensor
from libranet.flow import warp
from libranet.haze.scattering import add_haze, airlight_sums, transmission

CHECKS = {
    "alignment": (
        1.0 / 255.0,
        "largest difference between a hazy frame and clear * t + airlight * (1 - t), or between t and exp(-beta d)",
    ),
    # A fast drive at 5 frames per second (three metres per frame in a street of thirty metres) has 0.06; an unstable
    # estimate has 0.1 and more.
    "depth stability": (0.08, "mean change of depth along the flow between neighbouring frames"),
    "haze consistency": (0.05, "largest jump of the mean veil between neighbouring frames, relative to the airlight"),
    "airlight round trip": (
        1.0 / 255.0,
        "difference between the airlight solved from the files and the one in clip.json",
    ),
    "pixel ranges": (
        0.0,
        "fraction of values outside depth 0..1, transmission 0..1, flow of four frame sides, or not finite",
    ),
}
"""The largest value that passes each check, and what the value is."""
FLOW_LIMIT = 4.0
"""Largest flow as a multiple of the longer side: the ground below a fast camera leaves the frame within one step."""
WARP_WIDTH = 960  # width at which depth is compared along the flow
BAND_ROWS = 128  # frames are processed in bands that fit the processor's cache


@dataclass(frozen=True)
class FrameReport:
    """The values of one frame; those of the clip are their maxima, means or sums."""

    misfit: float
    psnr: float
    veil: float
    outside: float
    airlight: np.ndarray  # [2, 3], numerator and denominator


def screen_clip(clip: Clip, progress: Callable[[], None] = lambda: None) -> tuple[tuple[CheckResult, ...], float]:
    """Run the five checks on a clip. Every file is read once, one frame at a time.

    Returns:
        The results, and the mean PSNR of the hazy frames in dB.
    """
    reports: list[FrameReport] = []
    drifts: list[float] = []
    depth_before: np.ndarray | None = None
    flow_before: Map | None = None
    for index in range(len(clip)):
        frames = clip.frame("hazy", index), clip.frame("clear", index)
        depth, t_map, flow = clip.map("depth", index), clip.map("transmission", index), clip.map("flow", index)
        reports.append(_screen_frame(clip, frames, (depth, t_map, flow)))
        step = max(clip.info.width // WARP_WIDTH, 1)
        small_depth = np.ascontiguousarray(depth[0, ::step, ::step])
        if depth_before is not None and flow_before is not None and small_depth.shape == depth_before.shape:
            moved, inside = warp(small_depth, flow_before / step)
            drifts.append(float(np.abs(moved - depth_before)[inside].mean()) if inside.any() else 0.0)
        depth_before = small_depth
        flow_before = np.ascontiguousarray(flow[:, ::step, ::step])
        progress()
    return _judge(clip, reports, drifts), float(np.mean([report.psnr for report in reports]))


def _screen_frame(clip: Clip, frames: tuple[RgbImage, RgbImage], maps: tuple[Map, Map, Map]) -> FrameReport:
    (hazy, clear), (depth, t_map, flow) = frames, maps
    expected = (clip.info.height, clip.info.width)
    shapes = {array.shape[:2] for array in frames} | {array.shape[1:] for array in maps}
    if shapes != {expected}:
        return FrameReport(1.0, float("nan"), float("nan"), 1.0, np.full((2, 3), np.nan))
    farthest = FLOW_LIMIT * max(expected)
    outside = _outside(depth, 0.0, 1.0) + _outside(t_map, 1e-6, 1.0) + _outside(flow, -farthest, farthest)
    light = torch.from_numpy(clip.airlight())[None]
    beta = torch.tensor(clip.info.beta).reshape(1, -1)
    largest = drift = gap_sum = error_sum = veil_sum = 0.0
    sums = torch.zeros(2, 3, dtype=torch.float64)
    for top in range(0, expected[0], BAND_ROWS):
        rows = slice(top, top + BAND_ROWS)
        hazy_t, clear_t = frame_to_tensor(hazy[rows])[None], frame_to_tensor(clear[rows])[None]
        t = torch.from_numpy(t_map[:, rows])[None]
        gap = (add_haze(clear_t, t, light) - hazy_t).abs_()
        largest = max(largest, float(gap.max()))
        gap_sum += float(gap.sum())
        predicted = transmission(torch.from_numpy(depth[:, rows])[None], beta)
        drift = max(drift, float((predicted - t).abs_().max()))
        error_sum += float((hazy_t - clear_t).square_().sum())
        veil_sum += float((hazy_t - clear_t * t).sum())
        sums += torch.cat(airlight_sums(hazy_t, clear_t, t))
    count = hazy.size
    # With sensor noise single pixels differ by design; then the mean must match the noise's own mean deviation.
    misfit = largest if clip.info.noise == 0 else max(gap_sum / count - 0.8 * clip.info.noise, 0.0)
    return FrameReport(
        misfit=max(misfit, drift - 2.0**-10),
        psnr=-10.0 * float(np.log10(max(error_sum / count, 1e-12))),
        veil=veil_sum / count,
        outside=outside,
        airlight=sums.numpy(),
    )


def _judge(clip: Clip, reports: list[FrameReport], drifts: list[float]) -> tuple[CheckResult, ...]:
    light = clip.airlight()
    jumps = [abs(after.veil - before.veil) for before, after in itertools.pairwise(reports)]
    numerator, denominator = np.sum([report.airlight for report in reports], axis=0)
    recovered = numerator / np.where(denominator > 0, denominator, np.nan)
    values = {
        "alignment": max(report.misfit for report in reports),
        "depth stability": float(np.mean(drifts)) if drifts else float("nan"),
        "haze consistency": max(jumps, default=float("nan")) / float(light.mean()),
        "airlight round trip": float(np.abs(recovered - light).max()),
        "pixel ranges": max(report.outside for report in reports),
    }
    results = []
    for name, (limit, what) in CHECKS.items():
        passed = bool(np.isfinite(values[name])) and values[name] <= limit * (1.0 + 1e-6)
        results.append(CheckResult(name, round(values[name], 6), round(limit, 6), passed, what))
    return tuple(results)


def _outside(values: Map, low: float, high: float) -> float:
    return float(1.0 - np.mean(np.isfinite(values) & (values >= low) & (values <= high)))
