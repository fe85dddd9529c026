"""Speed of the video tool: each stage on its own, the whole run, and the dark channel prior for comparison.

    python benchmarks/video.py [--sizes 1280x720 1920x1080] [--frames 24] [--model weights.safetensors] [--threads 1]

The stages are measured alone on the same frames; the whole run may take at most 1.15 times the slowest of them, or the
exit code is 1. On a machine with other work that ratio varies, so the busy time of the stages in the run is printed as
well. The baseline is the dark channel prior with a guided filter in OpenCV, on the same clip in the same run. Without
--model, the network has the shipped size and no training: speed does not depend on the weights.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np
import torch

from libranet.cli.units import parse_size
from libranet.engine import DehazeOptions, DehazeReport, dehaze_video, load_network
from libranet.engine.plan import encoder_settings
from libranet.engine.restorer import FrameRestorer
from libranet.engine.segment_encoders import SegmentSink
from libranet.engine.segments import OutputClock, RunFolder
from libranet.network import LiBrANet
from libranet.video.reader import open_video
from machine import describe_machine

LIMIT = 1.15
PATCH = 15


@dataclass(frozen=True)
class Stages:
    """Seconds for the whole clip, each stage on its own."""

    decode: float
    network: float
    encode: float


def write_hazy_clip(path: Path, width: int, height: int, frames: int) -> None:
    """A moving textured scene under haze that thickens upwards."""
    generator = np.random.default_rng(0)
    coarse = cv2.resize(generator.uniform(0, 1, (24, 64, 3)).astype(np.float32), (width + 4 * frames, height))
    fine = generator.uniform(-0.05, 0.05, coarse.shape).astype(np.float32)
    scene = np.clip(coarse + fine, 0, 1)
    clear = np.linspace(0.25, 0.9, height, dtype=np.float32)[:, None, None]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "veryfast", "crf": "18"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(frames):
            view = scene[:, 4 * index : 4 * index + width] * clear + 0.85 * (1 - clear)
            frame = av.VideoFrame.from_ndarray((view * 255).astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def measure_stages(source: Path, folder: Path, network: LiBrANet, options: DehazeOptions) -> Stages:
    """Measure each stage alone: decode all, restore all, encode all."""
    with open_video(source) as reader:
        begin = time.perf_counter()
        frames = list(reader.frames())
        decode = time.perf_counter() - begin
        settings = encoder_settings(reader, folder / "stages.mp4", options)
        restorer = FrameRestorer(reader, network, options, settings)
        begin = time.perf_counter()
        restored = [done for frame in frames for done in restorer.push(restorer.stage(frame))] + restorer.flush()
        network_seconds = time.perf_counter() - begin
    run = RunFolder(folder / "stages.mp4")
    run.open({}, resume=False)
    clock = OutputClock(settings.time_base, settings.time_base, 0, 1)
    sink = SegmentSink(run, settings, clock, length=options.segment_frames)
    begin = time.perf_counter()
    for finished in restored:
        sink.write(restorer.pack(finished))
    sink.finish()
    encode = time.perf_counter() - begin
    run.remove()
    return Stages(decode, network_seconds, encode)


def dark_channel_frame(hazy: np.ndarray, smooth_light: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """He's dark channel prior with a guided filter, as the usual OpenCV script does it, per frame."""
    image = hazy.astype(np.float32) / 255
    kernel = np.ones((PATCH, PATCH), np.uint8)
    dark = cv2.erode(image.min(axis=2), kernel)
    brightest = np.argsort(dark, axis=None)[-max(1, dark.size // 1000) :]
    light = image.reshape(-1, 3)[brightest].mean(axis=0)
    light = light if smooth_light is None else 0.9 * smooth_light + 0.1 * light
    rough = 1 - 0.95 * cv2.erode((image / light).min(axis=2), kernel)
    guide = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    transmission = np.maximum(guided_filter(guide, rough.astype(np.float32), 60, 1e-4), 0.1)[..., None]
    return np.clip(((image - light) / transmission + light) * 255, 0, 255).astype(np.uint8), light


def guided_filter(guide: np.ndarray, target: np.ndarray, radius: int, epsilon: float) -> np.ndarray:
    """Filter with boxes only, as in the original paper."""
    size = (2 * radius + 1, 2 * radius + 1)
    mean_g, mean_t = cv2.blur(guide, size), cv2.blur(target, size)
    slope = (cv2.blur(guide * target, size) - mean_g * mean_t) / (cv2.blur(guide * guide, size) - mean_g**2 + epsilon)
    return cv2.blur(slope, size) * guide + cv2.blur(mean_t - slope * mean_g, size)


def measure_dark_channel(source: Path, output: Path) -> float:
    """Read, dehaze frame by frame and write; return the seconds."""
    begin = time.perf_counter()
    capture = cv2.VideoCapture(str(source))
    size = int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)), int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
    writer = cv2.VideoWriter(str(output), cv2.VideoWriter.fourcc(*"mp4v"), capture.get(cv2.CAP_PROP_FPS), size)
    light: np.ndarray | None = None
    while True:
        ok, frame = capture.read()
        if not ok:
            break
        clear, light = dark_channel_frame(frame, light)
        writer.write(clear)
    writer.release()
    return time.perf_counter() - begin


def measure_round(
    source: Path, folder: Path, network: LiBrANet, options: DehazeOptions
) -> tuple[Stages, DehazeReport, float, float]:
    """Measure once: stages alone, the whole run and its seconds, the baseline's seconds."""
    stages = measure_stages(source, folder, network, options)
    begin = time.perf_counter()
    report = dehaze_video(source, folder / "whole.mp4", model=network, options=options, overwrite=True)
    whole = time.perf_counter() - begin
    return stages, report, whole, measure_dark_channel(source, folder / "baseline.mp4")


def measure(width: int, height: int, *, frames: int, repeat: int, network: LiBrANet, folder: Path) -> float:
    """Print one size's figures and return end to end over the slowest stage."""
    source = folder / f"{width}x{height}.mp4"
    write_hazy_clip(source, width, height, frames)
    options = DehazeOptions()
    rounds = [measure_round(source, folder, network, options) for _ in range(repeat)]
    stages = Stages(*(min(getattr(r[0], name) for r in rounds) for name in ("decode", "network", "encode")))
    report, whole = min(((r[1], r[2]) for r in rounds), key=lambda pair: pair[1])
    baseline = min(r[3] for r in rounds)
    slowest = max(stages.decode, stages.network, stages.encode)
    print(f"\n{width}x{height}, {report.frames} frames, H.264 in, H.264 crf 18 out")
    for name in ("decode", "network", "encode"):
        alone = getattr(stages, name)
        busy = report.stage_seconds[name]
        print(f"  {name:>8}: {1000 * alone / frames:8.1f} ms a frame alone, {1000 * busy / frames:8.1f} ms in the run")
    ratio = whole / slowest
    print(f"  end to end: {1000 * whole / frames:6.1f} ms a frame = {frames / whole:.2f} fps")
    in_run = max(report.stage_seconds.values())
    print(f"  end to end / slowest stage in the same run: {whole / in_run:.3f}")
    print(f"  end to end / slowest stage alone: {ratio:.3f} ({'within' if ratio <= LIMIT else 'ABOVE'} {LIMIT})")
    rate = f"{frames / baseline:.2f} fps, {whole / baseline:.2f} x ours"
    print(f"  dark channel + guided filter in OpenCV, file to file: {rate}")
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["1280x720", "1920x1080"])
    parser.add_argument("--frames", type=int, default=24)
    parser.add_argument("--repeat", type=int, default=2, help="rounds; the best of each figure counts")
    parser.add_argument("--model", default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="threads of torch and OpenCV; 0 leaves their defaults")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
        cv2.setNumThreads(arguments.threads)
    for key, value in describe_machine().items():
        print(f"{key:>8}: {value}")
    network = load_network(arguments.model or LiBrANet(), device=arguments.device)
    with tempfile.TemporaryDirectory() as folder:
        ratios = [
            measure(
                *parse_size(size),
                frames=arguments.frames,
                repeat=arguments.repeat,
                network=network,
                folder=Path(folder),
            )
            for size in arguments.sizes
        ]
    return 0 if max(ratios) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
