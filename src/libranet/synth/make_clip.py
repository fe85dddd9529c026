"""One clip from source to checked files: pass 1 analyses at proxy size, pass 2 makes the haze at native size.

Everything is written into a work folder, file by file and each one whole or absent, so that a killed run goes on with
the first file that is missing. The folder moves to its final name in one step, after the checks.
"""

import io
import itertools
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import torch

from libranet.atomic import TEMPORARY_SUFFIX, write_atomically
from libranet.data.dataset import CLIP_FILE, MODALITIES, Clip, ClipInfo, modality_file, read_json, sha256, write_json
from libranet.data.frames import Image, read_rgb, write_png
from libranet.data.maps import Plane, write_map
from libranet.flow import FlowEstimator, resize_flow
from libranet.synth.depth import DepthEstimator, DepthRange
from libranet.synth.guided_filter import guided_upsample
from libranet.synth.regimes import Regime
from libranet.synth.scattering import add_haze, transmission
from libranet.synth.screening import screen_clip
from libranet.synth.smoothing import smooth_depth
from libranet.synth.sources import ClipSource, FrameRequest

SCRATCH = "work"
"""Folder inside the work folder for what is needed only until the clip is whole."""
PASSES = 3
"""Progress counts every frame once per pass: analysis, synthesis, checks."""

Progress = Callable[[str, int, int], None]
"""Called with the stage, the steps done and the steps in all."""


@dataclass(frozen=True)
class ClipTask:
    """Everything that determines one clip."""

    name: str
    source: ClipSource
    regime: Regime
    seed: int
    frames: int
    fps: float
    size: tuple[int, int]
    proxy: int
    angstrom: float
    noise: float
    depth: DepthEstimator
    flow: FlowEstimator

    def request(self) -> FrameRequest:
        """What to ask the source for."""
        return FrameRequest(self.frames, self.fps, self.size, self.proxy, self.seed, self.depth)


def make_clip(
    task: ClipTask, work: Path, final: Path, progress: Progress = lambda stage, done, total: None
) -> ClipInfo:
    """Make the clip, or what is missing of it, and move it to `final`."""
    scratch = work / SCRATCH
    if not (work / CLIP_FILE).is_file():
        for folder in (*MODALITIES, SCRATCH):
            (work / folder).mkdir(parents=True, exist_ok=True)
        for leftover in work.rglob(f".*{TEMPORARY_SUFFIX}"):
            leftover.unlink()
        count, exact = _analyse(task, work, progress)
        depth_range = _synthesise(task, work, count, exact, progress)
        draft = _describe(task, work, count, exact, depth_range)
        done = itertools.count(2 * count + 1)
        checks, psnr = screen_clip(Clip(work, draft), lambda: progress("checks", next(done), PASSES * count))
        paths = [modality_file(modality, i) for modality in MODALITIES for i in range(count)]
        files = {path: sha256(work / path) for path in paths}
        replace(draft, checks=checks, hazy_psnr=round(psnr, 4), files=files).save(work)
    # clip.json is there, so everything else is: only the move is left, and it may be repeated.
    shutil.rmtree(scratch, ignore_errors=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    os.replace(work, final)
    return ClipInfo.load(final)


def _analyse(task: ClipTask, work: Path, progress: Progress) -> tuple[int, bool]:
    """Pass 1: clear frames at native size, small ones for analysis, and depth and flow, exact or estimated."""
    scratch = work / SCRATCH
    ingested = scratch / "ingest.json"
    if not ingested.is_file():
        index = start = _leading(scratch, "{:05d}.png", task.frames)
        exact = (scratch / "00000-distance.npy").is_file()
        for index, frame in enumerate(task.source.frames(task.request(), start), start=start + 1):
            number = index - 1
            exact = frame.distance is not None and frame.flow is not None
            write_png(work / modality_file("clear", number), frame.image)
            if frame.distance is not None and frame.flow is not None:
                _save(scratch / f"{number:05d}-distance.npy", frame.distance)
                write_map(work / modality_file("flow", number), "flow", frame.flow)
            write_png(scratch / f"{number:05d}.png", _shrink(frame.image, task.proxy))
            progress("analysis", index, PASSES * task.frames)
        write_json(ingested, {"frames": index, "exact": exact})
    state = read_json(ingested)
    count, exact = int(state["frames"]), bool(state["exact"])
    if not exact:
        _estimate(task, scratch, count)
    progress("analysis", count, PASSES * count)
    return count, exact


def _estimate(task: ClipTask, scratch: Path, count: int) -> None:
    """Raw depth of every proxy frame and forward flow to the next one."""
    following = read_rgb(scratch / "00000.png")
    for index in range(count):
        image, depth_file, flow_file = following, *(scratch / f"{index:05d}-{kind}.npy" for kind in ("depth", "flow"))
        if not depth_file.is_file():
            _save(depth_file, task.depth.estimate(image))
        if index + 1 < count:
            following = read_rgb(scratch / f"{index + 1:05d}.png")
            if not flow_file.is_file():
                _save(flow_file, task.flow.estimate(image, following))


def _synthesise(task: ClipTask, work: Path, count: int, exact: bool, progress: Progress) -> DepthRange:
    """Pass 2: one depth range for the clip, smoothing along the flow, native size, haze."""
    scratch = work / SCRATCH
    if exact:
        distances = (np.load(scratch / f"{i:05d}-distance.npy", mmap_mode="r") for i in range(count))
        depth_range = task.source.range or DepthRange.measure_metres(distances, sky=task.source.sky)
        smooth: list[Plane] = []
    else:
        raw = [np.load(scratch / f"{i:05d}-depth.npy") for i in range(count)]
        flows = [np.load(scratch / f"{i:05d}-flow.npy") for i in range(count - 1)]
        depth_range = DepthRange.measure(raw, task.depth.meaning)
        small = [read_rgb(scratch / f"{i:05d}.png") for i in range(count)]
        smooth = smooth_depth([depth_range.normalise(plane) for plane in raw], flows, small)
    for index in range(count):
        targets = {name: work / modality_file(name, index) for name in ("depth", "transmission", "flow", "hazy")}
        if not all(path.is_file() for path in targets.values()):
            clear = read_rgb(work / modality_file("clear", index))
            if exact:
                depth = depth_range.normalise(np.load(scratch / f"{index:05d}-distance.npy"))
            else:
                depth = guided_upsample(smooth[index], clear)
                height, width = depth.shape
                flow = resize_flow(flows[index], width, height) if index + 1 < count else np.zeros((2, height, width))
                write_map(targets["flow"], "flow", flow)
            through, hazy = _haze(task, clear, depth, index)
            write_map(targets["depth"], "depth", depth[None])
            write_map(targets["transmission"], "transmission", through)
            write_png(targets["hazy"], hazy)
        progress("synthesis", count + index + 1, PASSES * count)
    return depth_range


def _haze(task: ClipTask, clear: Image, depth: Plane, index: int) -> tuple[np.ndarray, Image]:
    """Transmission and hazy frame. Depth and transmission are rounded to what the files hold before they are used."""
    stored = torch.from_numpy(depth.astype(np.float16).astype(np.float32))[None, None]
    through = transmission(stored, torch.tensor([task.regime.betas(task.angstrom)])).half().float()
    pixels = torch.from_numpy(clear).permute(2, 0, 1)[None].float() / 255.0
    generator = torch.Generator().manual_seed(task.seed * 100_003 + index)
    light = torch.tensor([task.regime.airlight])
    hazy = add_haze(pixels, through, light, noise=task.noise, generator=generator)
    frame = (hazy[0] * 255.0).round_().byte().permute(1, 2, 0).numpy()
    return through[0].numpy(), np.ascontiguousarray(frame)


def _describe(task: ClipTask, work: Path, count: int, exact: bool, depth_range: DepthRange) -> ClipInfo:
    height, width = read_rgb(work / modality_file("clear", 0)).shape[:2]
    source = task.source.describe()
    moved = exact and task.source.range is not None
    span = {"low": round(depth_range.low, 6), "high": round(depth_range.high, 6)}
    return ClipInfo(
        name=task.name,
        source=source,
        width=width,
        height=height,
        frames=count,
        fps=task.fps,
        regime=task.regime.name,
        beta=tuple(round(beta, 6) for beta in task.regime.betas(task.angstrom)),
        airlight=task.regime.airlight,
        noise=task.noise,
        depth={"estimator": task.depth.name if moved or not exact else "exact", "from": depth_range.meaning, **span},
        flow={"estimator": "exact" if exact else task.flow.name},
        flow_frames=count if exact else count - 1,
        hazy_psnr=0.0,
        checks=(),
        files={},
    )


def _leading(folder: Path, pattern: str, limit: int) -> int:
    """How many files of a numbered series are there without a gap."""
    return next((i for i in range(limit) if not (folder / pattern.format(i)).is_file()), limit)


def _shrink(image: Image, width: int) -> Image:
    rows, columns = image.shape[:2]
    if columns <= width:
        return image
    return np.asarray(cv2.resize(image, (width, round(rows * width / columns)), interpolation=cv2.INTER_AREA))


def _save(path: Path, values: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, values.astype(np.float32, copy=False))
    write_atomically(path, buffer.getvalue())
