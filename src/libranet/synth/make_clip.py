"""Make one clip, from its source to checked files: pass 1 analyses at proxy size, pass 2 adds haze at native size.

Every file is written atomically into a work folder, so a killed run resumes at the first missing file. The folder moves
to its final name in one step, after the checks.
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
from libranet.data.frames import RgbImage, read_rgb, write_png
from libranet.data.maps import Plane, write_map
from libranet.data.windows import frame_to_tensor
from libranet.flow import FlowEstimator, resize_flow
from libranet.haze.scattering import Regime, add_haze, transmission
from libranet.synth.depth_maps import DepthRange, guided_upsample, smooth_depth
from libranet.synth.screening import screen_clip
from libranet.synth.sources import ClipSource, FrameRequest

SCRATCH = "work"
"""Folder inside the work folder for files that are needed only until the clip is complete."""
PASSES = 3  # progress counts every frame once per pass: analysis, synthesis, checks

Progress = Callable[[str, int, int], None]  # called with the stage, the steps done and the total


@dataclass(frozen=True)
class ClipTask:
    """Everything that determines one clip."""

    name: str
    source: ClipSource
    request: FrameRequest
    regime: Regime
    angstrom: float
    noise: float
    flow: FlowEstimator


def make_clip(
    task: ClipTask, work: Path, final: Path, progress: Progress = lambda stage, done, total: None
) -> ClipInfo:
    """Make a clip in the folder `work`, or what is missing of it, and move it to `final`."""
    scratch = work / SCRATCH
    if not (work / CLIP_FILE).is_file():
        for folder in (*MODALITIES, SCRATCH):
            (work / folder).mkdir(parents=True, exist_ok=True)
        for leftover in work.rglob(f".*{TEMPORARY_SUFFIX}"):
            leftover.unlink()
        count = _analyse(task, work, progress)
        depth_range = _make_modalities(task, work, count, progress)
        draft = _describe(task, work, count, depth_range)
        done = itertools.count(2 * count + 1)
        checks, psnr = screen_clip(Clip(work, draft), lambda: progress("checks", next(done), PASSES * count))
        paths = [modality_file(modality, i) for modality in MODALITIES for i in range(count)]
        files = {path: sha256(work / path) for path in paths}
        replace(draft, checks=checks, hazy_psnr=round(psnr, 4), files=files).save(work)
    # clip.json is written last: only the move is left, and it may be repeated.
    shutil.rmtree(scratch, ignore_errors=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    os.replace(work, final)
    return ClipInfo.load(final)


def _analyse(task: ClipTask, work: Path, progress: Progress) -> int:
    """Pass 1: clear frames at native size, proxy frames, and depth and flow, given or estimated. Returns the count."""
    scratch = work / SCRATCH
    state = scratch / "frames.json"
    given = task.source.depth_kind != "none"
    if not state.is_file():
        index = start = _count_done(scratch, task)
        for index, frame in enumerate(task.source.frames(task.request, start), start=start + 1):
            number = index - 1
            write_png(work / modality_file("clear", number), frame.image)
            if given:
                assert frame.depth is not None
                assert frame.flow is not None
                _save(scratch / f"{number:05d}-depth.npy", frame.depth)
                write_map(work / modality_file("flow", number), "flow", frame.flow)
            write_png(scratch / f"{number:05d}.png", _shrink(frame.image, task.request.proxy))
            progress("analysis", index, PASSES * task.request.frames)
        write_json(state, {"frames": index})
    count = int(read_json(state)["frames"])
    if not given:
        _estimate(task, scratch, count)
    progress("analysis", count, PASSES * count)
    return count


def _estimate(task: ClipTask, scratch: Path, count: int) -> None:
    """Estimate the raw depth of each proxy frame and the forward flow to the next one."""
    following = read_rgb(scratch / "00000.png")
    for index in range(count):
        image, depth_file, flow_file = following, *(scratch / f"{index:05d}-{kind}.npy" for kind in ("depth", "flow"))
        if not depth_file.is_file():
            _save(depth_file, task.request.depth.estimate(image))
        if index + 1 < count:
            following = read_rgb(scratch / f"{index + 1:05d}.png")
            if not flow_file.is_file():
                _save(flow_file, task.flow.estimate(image, following))


def _make_modalities(task: ClipTask, work: Path, count: int, progress: Progress) -> DepthRange:
    """Pass 2: one depth range for the clip, smoothing along the flow, native size, haze."""
    scratch = work / SCRATCH
    estimated = task.source.depth_kind == "none"
    raw = [np.load(scratch / f"{i:05d}-depth.npy", mmap_mode=None if estimated else "r") for i in range(count)]
    depth_range = _find_range(task, raw)
    if estimated:
        flows = [np.load(scratch / f"{i:05d}-flow.npy") for i in range(count - 1)]
        proxies = [read_rgb(scratch / f"{i:05d}.png") for i in range(count)]
        smooth = smooth_depth([depth_range.normalise(plane) for plane in raw], flows, proxies)
    for index in range(count):
        targets = {name: work / modality_file(name, index) for name in ("depth", "transmission", "flow", "hazy")}
        if not all(path.is_file() for path in targets.values()):
            clear = read_rgb(work / modality_file("clear", index))
            if estimated:
                depth = guided_upsample(smooth[index], clear)
                height, width = depth.shape
                flow = resize_flow(flows[index], width, height) if index + 1 < count else np.zeros((2, height, width))
                write_map(targets["flow"], "flow", flow)
            else:
                depth = depth_range.normalise(np.asarray(raw[index]))
            t, hazy = _add_haze(task, clear, depth, index)
            write_map(targets["depth"], "depth", depth[None])
            write_map(targets["transmission"], "transmission", t)
            write_png(targets["hazy"], hazy)
        progress("synthesis", count + index + 1, PASSES * count)
    return depth_range


def _find_range(task: ClipTask, raw: list[Plane]) -> DepthRange:
    if task.source.depth_kind == "normalised":
        return DepthRange("distance", 0.0, 1.0)
    if task.source.depth_kind == "metres":
        return DepthRange.from_metres(raw)
    return DepthRange.from_estimates(raw, task.request.depth.quantity)


def _add_haze(task: ClipTask, clear: RgbImage, depth: Plane, index: int) -> tuple[np.ndarray, RgbImage]:
    """Return transmission and hazy frame, both computed from depth and transmission as the files store them."""
    stored = torch.from_numpy(depth.astype(np.float16).astype(np.float32))[None, None]
    t = transmission(stored, torch.tensor([task.regime.betas(task.angstrom)])).half().float()
    generator = torch.Generator().manual_seed(task.request.seed * 100_003 + index)
    hazy = add_haze(
        frame_to_tensor(clear)[None], t, torch.tensor([task.regime.airlight]), noise=task.noise, generator=generator
    )
    frame = (hazy[0] * 255.0).round_().byte().permute(1, 2, 0).numpy()
    return t[0].numpy(), np.ascontiguousarray(frame)


def _describe(task: ClipTask, work: Path, count: int, depth_range: DepthRange) -> ClipInfo:
    height, width = read_rgb(work / modality_file("clear", 0)).shape[:2]
    kind, source = task.source.depth_kind, task.source.describe()
    return ClipInfo(
        name=task.name,
        source=source,
        width=width,
        height=height,
        frames=count,
        fps=task.request.fps,
        regime=task.regime.name,
        beta=tuple(round(beta, 6) for beta in task.regime.betas(task.angstrom)),
        airlight=task.regime.airlight,
        noise=task.noise,
        depth={
            "estimator": "exact" if kind == "metres" else source.get("depth", task.request.depth.name),
            "from": depth_range.quantity,
            "low": round(depth_range.low, 6),
            "high": round(depth_range.high, 6),
        },
        flow={"estimator": task.flow.name if kind == "none" else "exact"},
        flow_frames=count - 1 if kind == "none" else count,
        hazy_psnr=0.0,
        checks=(),
        files={},
    )


def _count_done(scratch: Path, task: ClipTask) -> int:
    """How many frames pass 1 has finished without a gap. The proxy frame is the last file it writes for each."""
    kinds = (".png",) if task.source.depth_kind == "none" else ("-depth.npy", ".png")
    done = (all((scratch / f"{i:05d}{kind}").is_file() for kind in kinds) for i in range(task.request.frames))
    return sum(itertools.takewhile(bool, done))


def _shrink(image: RgbImage, width: int) -> RgbImage:
    rows, columns = image.shape[:2]
    if columns <= width:
        return image
    return np.asarray(cv2.resize(image, (width, round(rows * width / columns)), interpolation=cv2.INTER_AREA))


def _save(path: Path, values: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, values.astype(np.float32, copy=False))
    write_atomically(path, buffer.getvalue())
