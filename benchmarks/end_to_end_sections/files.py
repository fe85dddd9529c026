"""File to file: what decoding and encoding take without us, and what the product takes."""

import contextlib
import os
import queue
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import torch

from end_to_end_sections.table import RATE, YUV8, YUV10, Setting, Table, moving_planes
from libranet.engine import DehazeOptions, dehaze_video
from libranet.frames import PixelLayout
from libranet.network import LiBrANet
from libranet.video.encoder_options import FAST_PRESET
from libranet.video.pixels import plane_views
from libranet.video.reader import open_video

DISTINCT = 60
"""Frames that are encoded: the motion of a whole turn. A longer clip repeats their packets."""
CAMERA, NOISY = 0.006, 0.01
"""Noise of the clips: about 100 Mbit/s at 25 frames a second, as cameras write 4K, and 400."""
SEGMENT = 120
"""Frames of a segment in the product."""


def write_source(
    path: Path, layout: PixelLayout, frames: int, size: tuple[int, int], device: str, *, noise: float = CAMERA
) -> Path:
    """A H.264 file of moving colours, whose packets repeat after a whole turn."""
    distinct = [plane.cpu().numpy() for plane in moving_planes(layout, DISTINCT, size, device, noise=noise)]
    packets: list[tuple[bytes, int, int, bool]] = []
    with av.open(str(path), "w") as container:
        options = {"preset": "ultrafast", "crf": "18"}
        stream = container.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = *size, layout.name

        def take(encoded: list[av.Packet]) -> None:
            packets.extend((bytes(p), p.pts or 0, p.dts or 0, p.is_keyframe) for p in encoded)

        for index in range(DISTINCT):
            frame = av.VideoFrame(*size, layout.name)
            for view, plane in zip(plane_views(frame), distinct, strict=True):
                view[...] = plane[index]
            frame.pts = index
            take(stream.encode(frame))
        base = stream.codec_context.time_base
        take(stream.encode(None))
        for index in range(frames):
            data, pts, dts, key = packets[index % DISTINCT]
            packet = av.Packet(data)
            packet.stream, packet.time_base, packet.is_keyframe = stream, base, key
            shift = index // DISTINCT * DISTINCT
            packet.pts, packet.dts, packet.duration = pts + shift, dts + shift, 1
            container.mux(packet)
    return path


@dataclass(frozen=True)
class Pace:
    """Of a run without us."""

    fps: float
    cores: float
    """Kept busy on average."""


def transcode(source: Path, output: Path, *, frames: int, preset: str = "", encoders: int = 1) -> Pace:
    """Decode, and with a preset encode with the product's settings, a thread for the decoder and one for each encoder.

    Several encoders get a segment each in turn, as the product's do.
    """
    waiting: list[queue.Queue[Any]] = [queue.Queue(8 if encoders == 1 else SEGMENT) for _ in range(encoders)]

    def decode() -> None:
        count = 0
        with av.open(str(source)) as container:
            container.streams.video[0].thread_type = "AUTO"
            for frame in container.decode(video=0):
                waiting[count // SEGMENT % encoders].put(frame)
                count += 1
                if count == frames:
                    break
        for each in waiting:
            each.put(None)

    def encode(number: int) -> None:
        if not preset:
            while waiting[number].get() is not None:
                pass
            return
        with av.open(str(output.with_stem(f"{output.stem}{number}")), "w") as container:
            options = {"preset": preset, "crf": "18", "x264-params": "mbtree=0"}
            stream = container.add_stream("libx264", rate=RATE, options=options)
            while (frame := waiting[number].get()) is not None:
                if not stream.codec_context.is_open:
                    stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, frame.format.name
                frame.pict_type = 0
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))

    begin, busy = time.perf_counter(), sum(os.times()[:2])
    threads = [threading.Thread(target=decode, daemon=True)]
    threads += [threading.Thread(target=encode, args=(number,), daemon=True) for number in range(encoders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    return Pace(frames / seconds, (sum(os.times()[:2]) - busy) / seconds)


def _reset_host_peak() -> None:
    """Let the system count this process's peak of memory anew."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _host_memory(key: str) -> float:
    """GB of this process: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(round(int(line.split()[1]) / 1e6, 2) for line in lines if line.startswith(key))


def _run(
    table: Table, network: LiBrANet, source: Path, name: str, *, frames: int, **options: Any
) -> tuple[float, float]:
    """The product: frames a second of the whole call, and ms a frame of its network stage, from the second frame on."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    _reset_host_peak()
    options = {"end": frames / RATE, **options}
    begin, busy = time.perf_counter(), os.times()
    report = dehaze_video(
        source, source.with_name("out.mp4"), model=network, overwrite=True, options=DehazeOptions(**options)
    )
    seconds, times = time.perf_counter() - begin, os.times()
    assert report.frames == frames, f"{report.frames} frames of {frames}"
    stage = report.stage_seconds
    table.facts[f"run {name}"] = facts = {
        "seconds": round(seconds, 3),
        "of the pipeline": round(report.seconds, 3),
        "start": report.start_seconds,
        "stages, ms a frame": {key: round(value * 1e3 / frames, 3) for key, value in stage.items()},
        "cores busy": round((times.user - busy.user + times.system - busy.system) / seconds, 2),
        "of them for the system": round((times.system - busy.system) / seconds, 2),
        "host GB": _host_memory("VmHWM"),
        "host GB afterwards": _host_memory("VmRSS"),
        "device GB": round(torch.cuda.max_memory_allocated() / 1e9, 2) if torch.cuda.is_available() else 0.0,
        "frames": frames,
    }
    print(name, facts, flush=True)
    return frames / seconds, stage["network"] * 1e3 / frames


def files(table: Table, network: LiBrANet, setting: Setting) -> None:
    """File to file beside the codec alone, the network's stage, views, memory."""
    facts, folder = table.facts, setting.folder
    source = write_source(folder / "8.mp4", YUV8, setting.long, setting.size, setting.device)
    facts["source Mbit/s"] = source.stat().st_size * 8 / 1e6 / (setting.long / RATE)
    _run(table, network, source, "ultrafast, short", frames=setting.short, preset="ultrafast")
    fps, ms = _run(table, network, source, "ultrafast", frames=setting.long, preset="ultrafast")
    table.add("network stage of a file, 8 bit", ms, facts.get("yuv420p batch"), limit="<= 2.5 ms")
    facts["8 bit stage"] = ms
    alone = transcode(source, folder / "x.mp4", preset="ultrafast", frames=setting.long)
    table.add("file to file, --preset ultrafast", fps, alone.fps, unit="fps", limit=">= 150, ratio >= 0.9")
    table.add("  cores busy", facts["run ultrafast"]["cores busy"], alone.cores, unit="")
    short, long = facts["run ultrafast, short"], facts["run ultrafast"]
    for key in ("host GB", "host GB afterwards", "device GB"):
        name = f"memory, {key}, {long['frames']} frames (beside: {short['frames']})"
        table.add(name, long[key], short[key], unit="GB")
    deep = write_source(folder / "10.mp4", YUV10, setting.short * 2, setting.size, setting.device)
    _, ms = _run(table, network, deep, "10 bit", frames=setting.short * 2, preset="ultrafast")
    table.add("network stage of a file, 10 bit", ms, facts.get("yuv420p10le batch"), limit="<= 3.5 ms")
    for name, options in (("compare split", {"compare": "split"}), ("compare side", {"compare": "side"}),
                          ("view removed", {"view": "removed"}), ("view haze", {"view": "haze"})):  # fmt: skip
        _, ms = _run(table, network, source, name, frames=setting.short * 2, preset="ultrafast", **options)
        table.add(f"network stage, --{name}", ms, facts["8 bit stage"], limit="ratio <= 1.3")
    fps, _ = _run(table, network, source, "defaults", frames=setting.middle)
    alone = transcode(source, folder / "x.mp4", preset=FAST_PRESET["h264"], frames=setting.middle)
    table.add("file to file, defaults", fps, alone.fps, unit="fps", limit="ratio >= 0.9")
    table.add("  cores busy", facts["run defaults"]["cores busy"], alone.cores, unit="")


def _decode_on_gpu(table: Table, source: Path, *, frames: int) -> None:
    """NVDEC, through the product's own reader. Where it is not there, the reader says so and the CPU decodes."""
    with open_video(source, decoder="cuda") as reader:
        table.facts["--decoder cuda"] = reader.notes
        begin = time.perf_counter()
        count = sum(1 for _ in reader.frames(end=frames / RATE))
        where = "the CPU instead" if reader.notes else "NVDEC"
        table.add(f"decoding alone, --decoder cuda ({where})", count / (time.perf_counter() - begin), unit="fps")


def codec(table: Table, network: LiBrANet, setting: Setting) -> None:
    """What bounds a file run: decoding alone, several encoders at once without us, and a clip of much noise."""
    source = setting.folder / "8.mp4"
    if not source.is_file():
        write_source(source, YUV8, setting.long, setting.size, setting.device)
    pace = transcode(source, setting.folder / "x.mp4", frames=setting.middle)
    table.add("decoding alone (beside: cores busy)", pace.fps, pace.cores, unit="fps")
    for encoders in (2, 4):
        frames = min(setting.long, encoders * SEGMENT)
        pace = transcode(source, setting.folder / "x.mp4", preset="ultrafast", frames=frames, encoders=encoders)
        table.add(f"codec alone, ultrafast, {encoders} encoders (beside: cores busy)", pace.fps, pace.cores, unit="fps")
    noisy = write_source(setting.folder / "n.mp4", YUV8, setting.middle, setting.size, setting.device, noise=NOISY)
    table.facts["noisy Mbit/s"] = noisy.stat().st_size * 8 / 1e6 / (setting.middle / RATE)
    fps, _ = _run(table, network, noisy, "noisy", frames=setting.middle, preset="ultrafast")
    alone = transcode(noisy, setting.folder / "x.mp4", preset="ultrafast", frames=setting.middle)
    table.add("file to file, ultrafast, noisy clip", fps, alone.fps, unit="fps", limit="ratio >= 0.9")
    table.add("  cores busy", table.facts["run noisy"]["cores busy"], alone.cores, unit="")
    if setting.device == "cuda":
        _decode_on_gpu(table, source, frames=setting.middle)
