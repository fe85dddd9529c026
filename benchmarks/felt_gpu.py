"""The GPU's part of `felt.py`: programs that run in processes of their own, and the clips they read."""

import os
import subprocess
import sys
from pathlib import Path

FILE = """
import json, sys, time
if sys.argv[5] == "hidden":
    sys.modules["triton"] = None
if sys.argv[5] == "triton":
    from libranet.kernels import shipped
    shipped.FOLDER = shipped.FOLDER / "none"
from libranet.engine import DehazeOptions, dehaze_video
report = dehaze_video(sys.argv[1], sys.argv[2], model=sys.argv[3], device="cuda", overwrite=True,
                      options=DehazeOptions(decoder=sys.argv[4]))
print(json.dumps({"seconds": report.seconds, "start_seconds": report.start_seconds, "frames": report.frames,
                  "stage_seconds": report.stage_seconds, "backend": report.backend, "warnings": list(report.warnings)}))
"""
DECODING = """
import json, sys, time
from libranet.engine.dehazer import Dehazer
from libranet.video.gpu_frames import read_gpu_frames
from libranet.video.reader import open_video
import torch
torch.zeros(1, device="cuda")
found = {}
def count(name, frames, work=lambda frame: None):
    frames = iter(frames)
    work(next(frames))
    torch.cuda.synchronize()
    begin, number = time.time(), 0
    for frame in frames:
        work(frame)
        number += 1
    torch.cuda.synchronize()
    found[name] = round(number / (time.time() - begin), 1)
for decoder in ("cpu", "cuda"):
    with open_video(sys.argv[1], decoder=decoder) as reader:
        count(f"{decoder}, to main memory", reader.frames())
        found[f"{decoder} notes"] = reader.notes
try:
    count("cuda, stay on the GPU", read_gpu_frames(sys.argv[1]))
    dehazer = Dehazer(device="cuda", batch=4)
    count("cuda, stay and are restored", read_gpu_frames(sys.argv[1]), dehazer.push)
except Exception as error:
    found["stay on the GPU"] = f"failed: {error}"
print(json.dumps(found))
"""
EQUAL = """
import json, time
import torch
from libranet.frames import ColorSpec, FrameFormat, Frames
from libranet.frames.format import RGB8
from libranet.engine.plan import named_layout
from libranet.kernels import shipped
from libranet.network import GridFilter
from libranet.runtime import load_network
from libranet.runtime.gpu.backend import find_difference, trial_clip
from libranet.runtime.gpu.step import FusedStep
from libranet.runtime.plain import PlainBackend
folder = shipped.FOLDER
formats = ((RGB8, ColorSpec()), (named_layout("yuv420p"), ColorSpec(full_range=False)),
           (named_layout("yuv420p10le"), ColorSpec(full_range=False)))
for model, chosen in (("libranet-base", formats), ("libranet-small", formats[:1])):
    network = load_network(model, device="cuda")
    for layout, color in chosen:
        format_ = FrameFormat(1920, 1080, layout, color)
        generator = torch.Generator().manual_seed(0)
        planes = tuple((torch.rand(s, generator=generator) * layout.peak).to(layout.dtype).cuda()
                       for s in format_.plane_shapes(1))
        clip = trial_clip(Frames(planes, format_))
        results, seconds, milliseconds = [], [], []
        for where in (folder, folder / "none"):
            shipped.FOLDER = where
            shipped.archive_for.cache_clear()
            begin = time.time()
            step = FusedStep(network, format_, batch=4, overlap=True, grid_filter=GridFilter(1.0, 25.0))
            torch.cuda.synchronize()
            seconds.append(round(time.time() - begin, 2))
            if where == folder:
                compiled = step.compiled
                plain = PlainBackend(network, lookahead=None, strength=1.0, grid_filter=GridFilter(1.0, 25.0))
                why = find_difference(step, plain, Frames(planes, format_))
            out = []
            for at in range(0, len(clip), 4):
                ready = step.push(tuple(p[at:at + 4] for p in clip.planes))
                out.append(tuple(p.clone() for p in ready))
            out.append(step.drain())
            results.append(out)
            step.reset()
            step.write(tuple(p[:4] for p in clip.planes), 0)
            best = float("inf")
            for _ in range(5):
                torch.cuda.synchronize()
                begin = time.time()
                for _ in range(25):
                    step.advance(4)
                torch.cuda.synchronize()
                best = min(best, time.time() - begin)
            milliseconds.append(round(best * 10, 4))
        same = all((a.cpu().numpy() == b.cpu().numpy()).all() for x, y in zip(*results) for a, b in zip(x, y))
        print(json.dumps({"network": model, "format": layout.name, "compiled": compiled,
                          "as Triton's, bit for bit": bool(same), "as the plain network": why or True,
                          "seconds to make the step, shipped and by Triton": seconds, "ms a frame": milliseconds}),
              flush=True)
"""


def write_clip(file: Path, size: tuple[int, int], frames: int, device: str) -> None:
    """A hazy clip; for a GPU one of moving colours with a camera's noise, which the GPU makes in a moment."""
    if device == "cuda":
        from end_to_end_sections.files import write_source
        from end_to_end_sections.table import YUV8

        write_source(file, YUV8, frames, size, device)
    else:
        from video import write_hazy_clip

        write_hazy_clip(file, *size, frames)


def print_foundations(root: Path, folder: Path) -> None:
    """What the GPU's rows rest on: what shipped kernels compute and take, and how fast files are decoded."""
    paths = os.pathsep.join([str(root / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    for name, program, size in (
        ("shipped kernels", EQUAL, None),
        ("decoded frames a second, 4K", DECODING, (3840, 2160)),
        ("decoded frames a second, 1080p", DECODING, (1920, 1080)),
    ):
        words = []
        if size is not None:
            words = [str(folder / "decoded.mp4")]
            write_clip(folder / "decoded.mp4", size, 240, "cuda")
        print(f"{name}:", flush=True)
        command = [sys.executable, "-c", program, *words]
        try:
            done = subprocess.run(command, check=False, timeout=60, env=os.environ | {"PYTHONPATH": paths})
            if done.returncode:
                print(f"ended with exit code {done.returncode}", flush=True)
        except subprocess.TimeoutExpired:
            print("stopped after 60 s", flush=True)
