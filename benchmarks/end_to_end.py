"""One command, one table: what a user gets beside what the kernels can, per stage and file to file, at 3840x2160.

    PYTHONPATH=src python3 benchmarks/end_to_end.py --out results/

Every row is measured in this run: the product's number, the kernels' own number, and their ratio. Rows that need PyAV
are left out where it is missing. Sections that fail are named and cost only their own rows.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from libranet import Dehazer
from libranet.backends import load_network, make_backend
from libranet.frames import ColorSpec, FrameFormat, Frames, PixelLayout
from libranet.frames.format import PLANAR_RGB8, RGB8
from libranet.models import GridFilter, LiBrANet
from machine import describe_machine

WIDTH, HEIGHT = 3840, 2160
RATE = 25
YUV8 = PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False)
YUV10 = PixelLayout("yuv420p10le", "yuv", 10, 2, 2, alpha=False)
FILTER = GridFilter(1.0, 25.0)
CUDA = torch.cuda.is_available()
DEVICE = "cuda"
COMPILE = True
SHORT, MIDDLE, RESUMED = 60, 120, 400
"""Frames of the shorter file runs, and of the one that is killed."""


class Table:
    """Rows of the result: name, the product's number, the kernels' own, their unit, and the limit of the issue."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(
        self, name: str, product: float | None, kernels: float | None = None, *, unit: str = "ms", limit: str = ""
    ) -> None:
        ratio = product / kernels if product and kernels else None
        self.rows.append(
            {"name": name, "product": product, "kernels": kernels, "ratio": ratio, "unit": unit, "limit": limit}
        )
        print(self.line(self.rows[-1]), flush=True)

    @staticmethod
    def line(row: dict[str, Any]) -> str:
        numbers = [
            f"{row[key]:9.3f}" if row[key] is not None else f"{'-':>9}" for key in ("product", "kernels", "ratio")
        ]
        return f"{row['name']:<58}{numbers[0]}{numbers[1]}{numbers[2]}  {row['unit']:<4} {row['limit']}"

    def text(self) -> str:
        head = f"{'':<58}{'product':>9}{'kernels':>9}{'ratio':>9}  unit limit"
        return "\n".join([head, *(self.line(row) for row in self.rows)])


def random_planes(layout: PixelLayout, count: int, size: tuple[int, int]) -> tuple[torch.Tensor, ...]:
    """Smooth moving colours with a little noise, in the samples of a layout, on the device."""
    device = torch.device(DEVICE)
    format_ = FrameFormat(*size, layout)
    generator = torch.Generator(device).manual_seed(0)
    planes = []
    for shape in format_.plane_shapes(1):
        height, width = shape[1:3]
        coarse = torch.rand(1, 1, 10, 17, generator=generator, device=device) * 0.4 + 0.3
        smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic")[0, 0]
        images = []
        for index in range(count):
            image = smooth.roll(index * (width // 60), dims=1)
            image = image + 0.01 * torch.randn(image.shape, generator=generator, device=device)
            image = image.clamp(0, 1) * layout.peak
            images.append(image[..., None].expand(-1, -1, 3) if layout.packed else image)
        planes.append(torch.stack(images).to(layout.dtype))
    return tuple(planes)


def wait() -> None:
    if CUDA:
        torch.cuda.synchronize()


def time_calls(work: Callable[[int], object], count: int, *, warm: int = 8) -> float:
    """Milliseconds a call, back to back."""
    for index in range(warm):
        work(index)
    wait()
    begin = time.perf_counter()
    for index in range(count):
        work(warm + index)
    wait()
    return (time.perf_counter() - begin) * 1e3 / count


def step_ms(network: LiBrANet, layout: PixelLayout, *, batch: int, stationary: bool = True, steps: int = 30) -> float:
    """The kernels alone: a fused step, frames already in place, ms a frame."""
    from libranet.fused.refiner import RefinerTiles
    from libranet.fused.step import FusedStep

    format_ = FrameFormat(WIDTH, HEIGHT, layout, ColorSpec(full_range=layout.model != "yuv"))
    step = FusedStep(
        network, format_, batch=batch, overlap=batch > 1, grid_filter=FILTER,
        tiles=RefinerTiles(weight_stationary=stationary), device=DEVICE,
    )  # fmt: skip
    planes = random_planes(layout, batch, (WIDTH, HEIGHT))
    for _ in range(8):
        step.push(planes)
    return time_calls(lambda _: step.advance(batch), steps) / batch


def kernels(table: Table, network: LiBrANet, facts: dict[str, Any]) -> None:
    """The kernels' own column, and the path for compute capability 8."""
    for name, layout in (("RGB 8 bit", RGB8), ("YUV 4:2:0 8 bit", YUV8), ("YUV 4:2:0 10 bit", YUV10)):
        facts[f"{layout.name} batch"] = step_ms(network, layout, batch=4)
        table.add(f"kernels, {name}, batches of 4", None, facts[f"{layout.name} batch"])
    facts["rgb24 latency"] = step_ms(network, RGB8, batch=1)
    table.add("kernels, RGB 8 bit, latency", None, facts["rgb24 latency"])
    table.add("kernels, planar RGB 8 bit, latency", step_ms(network, PLANAR_RGB8, batch=1), facts["rgb24 latency"])
    forced = step_ms(network, RGB8, batch=4, stationary=False)
    table.add("capability-8 kernels, forced, batches of 4", forced, facts["rgb24 batch"], limit="<= 2 ms")
    forced = step_ms(network, YUV8, batch=4, stationary=False)
    table.add("capability-8 kernels, YUV 8 bit, batches of 4", forced, facts["yuv420p batch"], limit="<= 2 ms")


def accuracy(table: Table, network: LiBrANet, facts: dict[str, Any]) -> None:
    """Both kernel families against the plain network in single precision, at full size."""
    from libranet.backends.fused import FusedBackend
    from libranet.backends.plain import PlainBackend
    from libranet.fused.refiner import RefinerTiles

    single = load_network(device=DEVICE, precision="fp32")
    for layout in (RGB8, YUV10):
        format_ = FrameFormat(WIDTH, HEIGHT, layout, ColorSpec(full_range=layout.model != "yuv"))
        frames = Frames(random_planes(layout, 4, (WIDTH, HEIGHT)), format_)
        plain = PlainBackend(single, grid_filter=FILTER)
        want = [r.after for r in plain.push(frames) + plain.flush()]
        for stationary in (True, False):
            fused = FusedBackend(
                network, lookahead=None, strength=1.0, batch=4, grid_filter=FILTER, trial=False,
                tiles=RefinerTiles(weight_stationary=stationary),
            )  # fmt: skip
            got = [tuple(plane.clone() for plane in r.after) for r in fused.push(frames)]
            got += [r.after for r in fused.flush()]
            apart = [(a.float() - b.float()).abs() * (255 / layout.peak) for x, y in zip(got, want, strict=True)
                     for a, b in zip(x, y, strict=True)]  # fmt: skip
            name = "Hopper" if stationary else "capability 8"
            mean, most = (float(max(f(d) for d in apart)) for f in (torch.mean, torch.max))
            table.add(f"error against fp32, {layout.name}, {name}: mean", mean, unit="/255")
            table.add(f"error against fp32, {layout.name}, {name}: largest", most, unit="/255")


def api(table: Table, network: LiBrANet, facts: dict[str, Any]) -> None:
    """`Dehazer` and evaluation."""
    (planar,) = (plane.permute(0, 3, 1, 2).contiguous() for plane in random_planes(RGB8, 8, (WIDTH, HEIGHT)))
    for dtype, limit in ((torch.uint8, "<= 1.5 ms"), (torch.uint16, ""), (torch.float32, "")):
        clip = planar.float() / 255 if dtype == torch.float32 else planar.to(dtype)
        dehazer = Dehazer(network)
        ms = time_calls(lambda i, d=dehazer, c=clip: d.push(c[i % 8]), 40)
        table.add(f"Dehazer, CUDA tensors [3, H, W] {str(dtype)[6:]}", ms, facts.get("rgb24 latency"), limit=limit)
    arrays = list(planar.permute(0, 2, 3, 1).contiguous().cpu().numpy())
    dehazer = Dehazer(network)
    ms = time_calls(lambda i: dehazer.push(arrays[i % 8]), 40)
    table.add("Dehazer, NumPy frames [H, W, 3] uint8", ms, facts.get("rgb24 latency"), limit="<= 5 ms")
    backend = make_backend(network, grid_filter=FILTER, batch=4)
    frames = Frames(random_planes(RGB8, 4, (WIDTH, HEIGHT)), FrameFormat(WIDTH, HEIGHT, RGB8))
    ms = time_calls(lambda _: backend.push(frames), 20) / 4
    table.add("backend, batches of 4 on the device", ms, facts.get("rgb24 batch"))
    from libranet.evaluation.efficiency import Subject, measure_efficiency

    subject = Subject("libranet", load_network(device=DEVICE))  # it is moved to the CPU afterwards
    (row,) = measure_efficiency([subject], sizes=[(WIDTH, HEIGHT)], device=DEVICE, seconds=2.0)
    table.add("eval --table efficiency", row.milliseconds, facts.get("rgb24 latency"), limit="within 10 %")


def other_gpus(table: Table, network: LiBrANet, facts: dict[str, Any]) -> None:
    """The plain network in half precision, as GPUs without the kernels run it: what is tried there, and the choice."""
    from libranet.backends.gpu_choice import measure
    from libranet.backends.plain import PlainBackend

    frames = Frames(random_planes(RGB8, 1, (WIDTH, HEIGHT)), FrameFormat(WIDTH, HEIGHT, RGB8))
    other = load_network(device=DEVICE)
    image = frames.planes[0].permute(0, 3, 1, 2).float() / 255
    begin = time.perf_counter()
    found = measure(other, image, with_compile=COMPILE)
    table.add("seconds to try the ways of the plain network", time.perf_counter() - begin, unit="s")
    for way, ms in found.milliseconds.items():
        table.add(f"plain network, {str(other.dtype)[6:]}, {way}", ms, facts.get("rgb24 latency"))
    plain = PlainBackend(other, grid_filter=FILTER, tune=True)
    ms = time_calls(lambda _: plain.push(frames), 8, warm=4)
    table.add("plain backend, its choice without compiling", ms, facts.get("rgb24 latency"))


def write_source(path: Path, layout: PixelLayout, frames: int, size: tuple[int, int]) -> Path:
    """A H.264 file of moving colours."""
    import av

    from libranet.video.pixels import plane_views

    distinct = [plane.cpu().numpy() for plane in random_planes(layout, 30, size)]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"preset": "ultrafast", "crf": "18"})
        stream.width, stream.height, stream.pix_fmt = *size, layout.name
        for index in range(frames):
            frame = av.VideoFrame(*size, layout.name)
            for view, plane in zip(plane_views(frame), distinct, strict=True):
                view[...] = plane[index % 30]
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def transcode_fps(source: Path, output: Path, *, preset: str, frames: int, encode: bool = True) -> float:
    """Decode and encode without us: the same encoder settings, one thread each."""
    import queue
    import threading

    import av

    waiting: queue.Queue[Any] = queue.Queue(8)

    def decode() -> None:
        with av.open(str(source)) as container:
            container.streams.video[0].thread_type = "AUTO"
            for index, frame in enumerate(container.decode(video=0)):
                if index == frames:
                    break
                waiting.put(frame)
        waiting.put(None)

    begin = time.perf_counter()
    thread = threading.Thread(target=decode, daemon=True)
    thread.start()
    with av.open(str(output), "w") as container:
        stream = container.add_stream(
            "libx264", rate=RATE, options={"preset": preset, "crf": "18", "x264-params": "mbtree=0"}
        )
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        count = 0
        while (frame := waiting.get()) is not None:
            count += 1
            if encode:
                frame.pict_type = 0
                container.mux(stream.encode(frame))
        if encode:
            container.mux(stream.encode(None))
    thread.join()
    return count / (time.perf_counter() - begin)


def reset_host_peak() -> None:
    """Let the system count this process's peak of memory anew."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def host_memory(key: str) -> float:
    """GB of this process: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(round(int(line.split()[1]) / 1e6, 2) for line in lines if line.startswith(key))


def files(table: Table, network: LiBrANet, facts: dict[str, Any]) -> None:
    """File to file: the encoder's own pace, ours, the network's stage, views, memory.

    The network's stage is timed from its second frame on; the first, which compiles everything, has a row of its own.
    """
    from libranet.engine import DehazeOptions, dehaze_video
    from libranet.video.encoder_options import FAST_PRESET

    folder = Path(facts["folder"])
    source = write_source(folder / "8.mp4", YUV8, facts["frames"], (WIDTH, HEIGHT))
    table.add("decoding alone", transcode_fps(source, folder / "x.mp4", preset="medium", frames=2 * MIDDLE,
                                              encode=False), unit="fps")  # fmt: skip

    def run(name: str, *, path: Path = source, frames: int, **options: Any) -> tuple[float, float]:
        if CUDA:
            torch.cuda.reset_peak_memory_stats()
        reset_host_peak()
        options = {"end": frames / RATE, **options}
        report = dehaze_video(path, folder / "out.mp4", model=network, overwrite=True, options=DehazeOptions(**options))
        stage = report.stage_seconds
        facts[f"stages {name}"] = {key: round(value * 1e3 / report.frames, 3) for key, value in stage.items()}
        facts[f"start {name}"] = report.start_seconds
        facts[f"memory {name}"] = {
            "host GB": host_memory("VmHWM"),
            "host GB afterwards": host_memory("VmRSS"),
            "device GB": round(torch.cuda.max_memory_allocated() / 1e9, 2),
            "frames": report.frames,
        }
        table.add(f"until the first frame is taken, {name}", report.start_seconds, unit="s")
        print(name, facts[f"stages {name}"], facts[f"memory {name}"], flush=True)
        return report.frames / report.seconds, stage["network"] * 1e3 / report.frames

    run("ultrafast, short", frames=SHORT, preset="ultrafast")
    fps, ms = run("ultrafast", frames=facts["frames"], preset="ultrafast")
    table.add("network stage of a file, 8 bit", ms, facts.get("yuv420p batch"), limit="<= 2.5 ms")
    alone = transcode_fps(source, folder / "x.mp4", preset="ultrafast", frames=facts["frames"])
    table.add("file to file, --preset ultrafast", fps, alone, unit="fps", limit=">= 150, >= 90 %")
    facts["8 bit stage"] = ms
    short, long = facts["memory ultrafast, short"], facts["memory ultrafast"]
    for key in ("host GB", "host GB afterwards", "device GB"):
        name = f"memory, {key}, {long['frames']} frames (beside: {short['frames']})"
        table.add(name, long[key], short[key], unit="GB")
    for name, options in (("compare split", {"compare": "split"}), ("compare side", {"compare": "side"}),
                          ("view removed", {"view": "removed"}), ("view haze", {"view": "haze"})):  # fmt: skip
        _, ms = run(name, frames=MIDDLE, preset="ultrafast", **options)
        table.add(f"network stage, --{name}", ms, facts["8 bit stage"], limit="<= 1.3 times")
    fps, _ = run("defaults", frames=MIDDLE)
    alone = transcode_fps(source, folder / "x.mp4", preset=FAST_PRESET["h264"], frames=MIDDLE)
    table.add("file to file, defaults", fps, alone, unit="fps", limit=">= 90 %")
    deep = write_source(folder / "10.mp4", YUV10, MIDDLE, (WIDTH, HEIGHT))
    _, ms = run("10 bit", path=deep, frames=MIDDLE, preset="ultrafast")
    table.add("network stage of a file, 10 bit", ms, facts.get("yuv420p10le batch"), limit="<= 3.5 ms")


def resume(table: Table, network: LiBrANet, facts: dict[str, Any]) -> None:
    """SIGKILL in the middle, then --resume: the file must be the uninterrupted one."""
    folder = Path(facts["folder"])
    source = write_source(folder / "hd.mp4", YUV8, RESUMED, (WIDTH // 2, HEIGHT // 2))
    program = (
        "import sys; from libranet.engine import DehazeOptions, dehaze_video; "
        "dehaze_video(sys.argv[1], sys.argv[2], resume=True, options=DehazeOptions(segment_frames=int(sys.argv[3])))"
    )

    def start(output: str) -> subprocess.Popen[bytes]:
        arguments = [str(source), str(folder / output), str(RESUMED // 10)]
        return subprocess.Popen([sys.executable, "-c", program, *arguments])

    assert start("whole.mp4").wait() == 0
    killed = start("killed.mp4")
    manifest = folder / ".killed.mp4.libranet" / "manifest.json"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and killed.poll() is None:
        if manifest.is_file() and len(json.loads(manifest.read_text())["segments"]) >= 3:
            break
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    kept = len(json.loads(manifest.read_text())["segments"]) if manifest.is_file() else 0
    assert start("killed.mp4").wait() == 0
    same = (folder / "whole.mp4").read_bytes() == (folder / "killed.mp4").read_bytes()
    table.add(f"resumed after SIGKILL ({kept} segments kept): identical", float(same), unit="bool", limit="1")


def first_frame(table: Table, network: LiBrANet, facts: dict[str, Any]) -> None:
    """Seconds to the first 4K frame in a new process: nothing compiled, then everything on disk."""
    program = (
        "import time; begin = time.perf_counter(); import torch; from libranet import Dehazer; "
        "loaded = time.perf_counter(); d = Dehazer(live=True); "
        f"d.push(torch.randint(0, 256, ({HEIGHT}, {WIDTH}, 3), dtype=torch.uint8).numpy()); "
        "print(time.perf_counter() - begin, loaded - begin)"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TRITON_CACHE_DIR": f"{cache}/triton", "HOME": cache}
        for name, limit in (("cold", "<= 6 s"), ("warm", "<= 2 s")):
            done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True,
                                  check=False)  # fmt: skip
            if done.returncode:
                raise RuntimeError(done.stderr[-1500:])
            total, imports = map(float, done.stdout.split())
            table.add(f"first 4K frame, {name} (imports {imports:.1f} s)", total, unit="s", limit=limit)


SECTIONS = {
    "kernels": kernels,
    "first_frame": first_frame,
    "resume": resume,
    "api": api,
    "files": files,
    "accuracy": accuracy,
    "other_gpus": other_gpus,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the numbers")
    parser.add_argument("--frames", type=int, default=600, help="frames of the longest file run")
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    options = parser.parse_args()
    if DEVICE == "cuda" and not CUDA:
        sys.exit("no CUDA device: this table is about GPUs; benchmarks/video.py measures a CPU")
    options.out.mkdir(parents=True, exist_ok=True)
    table, network = Table(), load_network(device=DEVICE)
    with tempfile.TemporaryDirectory() as folder:
        facts: dict[str, Any] = {"folder": folder, "frames": options.frames}
        for name in options.only:
            begin = time.perf_counter()
            try:
                SECTIONS[name](table, network, facts)
                problem = ""
            except Exception:
                problem = traceback.format_exc()
                print(problem, flush=True)
                table.add(f"{name} failed: {problem.strip().splitlines()[-1][:60]}", None)
            facts[f"seconds of {name}"] = round(time.perf_counter() - begin, 1)
            print(f"[{name}: {facts[f'seconds of {name}']} s]", flush=True)
            torch.cuda.empty_cache()
            save(table, facts, options.out)
    print(table.text(), flush=True)


def save(table: Table, facts: dict[str, Any], folder: Path) -> None:
    """Write the numbers so far: a run that is stopped keeps those of its finished sections."""
    machine = describe_machine()
    (folder / "end_to_end.txt").write_text(f"{machine}\n{table.text()}\n")
    (folder / "end_to_end.json").write_text(json.dumps({**machine, "rows": table.rows, "facts": facts}, indent=1))


if __name__ == "__main__":
    main()
