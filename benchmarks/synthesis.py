"""Frames per second of every stage of the UHV-4K pipeline, and what bounds it.

python benchmarks/synthesis.py [--size 3840x2160] [--repeats 3] [--scene]
"""

import argparse
import itertools
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch

from libranet.cli.units import parse_size
from libranet.data.dataset import MODALITIES, Clip, ClipInfo, modality_file, sha256
from libranet.data.frames import RgbImage, write_png
from libranet.data.maps import FlowField, Map, Plane, encode_exr, write_map
from libranet.data.png_bands import encode_png
from libranet.flow import DisFlow, resize_flow
from libranet.haze.scattering import REGIMES, Regime, add_haze, transmission
from libranet.synth.depth_estimators import LayoutPrior
from libranet.synth.depth_maps import DepthRange, guided_upsample, smooth_depth
from libranet.synth.photo_motion import CameraMove, photo_clip
from libranet.synth.screening import screen_clip
from machine import describe_machine

PROXY = 960


def scene_frames(width: int, height: int) -> list[np.ndarray]:
    """Five frames with photographic statistics that slide over one another."""
    rng = np.random.default_rng(0)
    wide = np.zeros((height, width + 80, 3), np.float32)
    for cells, share in ((8, 0.5), (40, 0.25), (200, 0.15), (1000, 0.07)):
        wide += share * cv2.resize(rng.random((cells, 2 * cells, 3), np.float32), (width + 80, height))
    wide = np.clip(wide + rng.normal(0, 0.008, wide.shape).astype(np.float32), 0, 1) * 255
    return [np.ascontiguousarray(wide[:, 16 * i : 16 * i + width]).astype(np.uint8) for i in range(5)]


def write_clip(
    folder: Path, frames: tuple[RgbImage, RgbImage], maps: tuple[Plane, Map, FlowField], regime: Regime
) -> Clip:
    """A clip of one frame on disk, as the checks find it."""
    (clear, hazy), (depth, t, flow) = frames, maps
    for modality in MODALITIES:
        (folder / modality).mkdir()
    write_png(folder / modality_file("clear", 0), clear)
    write_png(folder / modality_file("hazy", 0), hazy)
    write_map(folder / modality_file("depth", 0), "depth", depth[None])
    write_map(folder / modality_file("transmission", 0), "transmission", t)
    write_map(folder / modality_file("flow", 0), "flow", flow)
    info = ClipInfo(
        name="benchmark",
        source={},
        width=clear.shape[1],
        height=clear.shape[0],
        frames=1,
        fps=5.0,
        regime=regime.name,
        beta=regime.betas(),
        airlight=regime.airlight,
        noise=0.0,
        depth={},
        flow={},
        flow_frames=1,
        hazy_psnr=0.0,
        checks=(),
        files={},
    )
    return Clip(folder, info)


class Stages:
    """Times of named stages, per frame."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.rows: list[tuple[str, str, float, float, str]] = []

    def measure(self, part: str, name: str, bound: str, action: Callable[[], object], *, per: int = 1) -> None:
        """`per` is how many frames one call handles."""
        walls, cpus = [], []
        for _ in range(self.repeats):
            wall, cpu = time.perf_counter(), time.process_time()
            action()
            walls.append((time.perf_counter() - wall) / per)
            cpus.append((time.process_time() - cpu) / per)
        self.rows.append((part, name, statistics.median(walls), statistics.median(cpus), bound))

    def print(self) -> None:
        total = sum(row[3] for row in self.rows if row[0] != "source")
        print("| part | stage | s per frame (CPU) | frames per second | share | bound by |\n|---|---|---|---|---|---|")
        for part, name, _, cpu, bound in self.rows:
            share = "" if part == "source" else f"{100 * cpu / total:.0f} %"
            print(f"| {part} | {name} | {cpu:.3f} | {1 / cpu:.2f} | {share} | {bound} |")
        print(f"| all | one frame without its source | {total:.3f} | {1 / total:.2f} | 100 % | |")
        slowest = max((row for row in self.rows if row[0] != "source"), key=lambda row: row[3])
        print(
            f"\nThe slowest stage is '{slowest[1]}' ({slowest[4]}): {100 * slowest[3] / total:.0f} % of the CPU time."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="3840x2160")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scene", action="store_true", help="also render one procedural frame, which takes a while")
    arguments = parser.parse_args()
    width, height = parse_size(arguments.size)
    frames = scene_frames(width, height)
    small = [
        cv2.resize(frame, (PROXY, round(height * PROXY / width)), interpolation=cv2.INTER_AREA) for frame in frames
    ]
    stages = Stages(arguments.repeats)
    prior, flow = LayoutPrior(0), DisFlow()
    raw = [prior.estimate(image) for image in small]
    depths = [DepthRange.from_estimates(raw, "disparity").normalise(plane) for plane in raw]
    flows = [flow.estimate(a, b) for a, b in itertools.pairwise(small)]
    depth = guided_upsample(depths[0], frames[0])
    half = torch.from_numpy(depth)[None, None]
    regime = REGIMES[4]
    t = transmission(half, regime.beta)
    light = torch.tensor([regime.airlight])

    def scatter() -> torch.Tensor:
        clear = torch.from_numpy(frames[0]).permute(2, 0, 1)[None].float() / 255
        return (add_haze(clear, transmission(half, regime.beta), light) * 255).round_().byte()

    hazy = np.ascontiguousarray(scatter()[0].permute(1, 2, 0).numpy())
    large_flow = resize_flow(flows[0], width, height).astype(np.float16)
    if arguments.scene:
        from libranet.lab.scenes import render_clip

        one = Stages(1)
        one.measure(
            "source",
            "procedural scene",
            "tracing and shading on one core",
            lambda: next(iter(render_clip(0, frames=1, width=width, height=height))),
        )
        stages.rows += one.rows
    move = CameraMove.draw(0)
    stages.measure("source", "photo in motion", "memory: scattered writes into the depth buffer",
                   lambda: list(photo_clip(frames[0], depth, move, frames=2, size=(width, height))), per=2)  # fmt: skip
    stages.measure("pass 1", "write clear PNG", "deflate", lambda: encode_png(frames[0]))
    stages.measure(
        "pass 1",
        "proxy",
        "memory",
        lambda: cv2.resize(frames[0], (PROXY, round(height * PROXY / width)), interpolation=cv2.INTER_AREA),
    )
    stages.measure("pass 1", "depth (layout prior)", "superpixels", lambda: prior.estimate(small[0]))
    stages.measure("pass 1", "flow (DIS)", "patch search at proxy size", lambda: flow.estimate(small[0], small[1]))
    stages.measure(
        "pass 2", "smoothing along the flow", "warps at proxy size", lambda: smooth_depth(depths, flows, small), per=5
    )
    stages.measure("pass 2", "guided upsampling", "memory", lambda: guided_upsample(depths[0], frames[0]))
    stages.measure("pass 2", "scattering", "memory", scatter)
    stages.measure("pass 2", "write hazy PNG", "deflate", lambda: encode_png(hazy))
    planes = [plane.astype(np.float16) for plane in (depth, t[0, 0].numpy())]
    stages.measure(
        "pass 2", "write depth and transmission EXR", "deflate", lambda: [encode_exr({"Z": p}, level=2) for p in planes]
    )
    stages.measure(
        "pass 2", "write flow EXR", "deflate", lambda: encode_exr({"u": large_flow[0], "v": large_flow[1]}, level=2)
    )
    with tempfile.TemporaryDirectory() as name:
        clip = write_clip(Path(name), (frames[0], hazy), (depth, t[0].numpy(), large_flow), regime)
        files = sorted(path for path in clip.folder.rglob("*") if path.is_file())
        stages.measure("checks", "the five checks, read from disk", "inflate and memory", lambda: screen_clip(clip))
        stages.measure("checks", "checksums", "SHA-256", lambda: [sha256(path) for path in files])
    print(", ".join(f"{key} {value}" for key, value in describe_machine().items()) + f", {arguments.size}\n")
    stages.print()
    print(f"Peak memory of this benchmark: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB.")


if __name__ == "__main__":
    main()
