"""Mutated files against every reader: videos, images and checkpoints, each in a process of its own.

A run is good when no file gives a traceback, a crash or a hang, and no run that ends with code 0 misses frames. A few
mutations make a valid file with fewer frames, such as a copy that ends between two parts. They count on their own, as
`valid`, and only on evidence: Debian's ffmpeg has to read the file to its end without a message, and to find as many
frames as we do. Without that program they count as missing frames.

    python benchmarks/fuzz.py --files 10000 --seed 0 --jobs 2   # the whole thing
    python benchmarks/fuzz.py --files 50 --seed 7 --keep bad    # keeps what went wrong
    python benchmarks/fuzz.py --files 1 --first 4711 --keep bad # one file again: seed and number decide the mutation

The originals are made on the spot; a few of their bytes, such as Matroska's random names, differ from run to run.
Python, PyTorch and a tiny network are loaded once; then every file gets a forked child with limits on memory and time,
and its own folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from libranet.network import Network

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

MEMORY = 4 << 30
"""Bytes of address space beyond those of the loaded libraries."""
SECONDS = 60
VIDEOS = {
    "h264.mp4": {"audio": ("aac",)},
    "h264.mkv": {"audio": ("flac",), "subtitles": "subrip", "chapters": 2, "attachment": True},
    "h264.ts": {"audio": ("aac",)},
    "h264.flv": {"audio": ("aac",)},
    "h264.avi": {"audio": ("libmp3lame",)},
    "vp9.webm": {"codec": "libvpx-vp9", "audio": ("libopus",)},
    "ffv1.mkv": {"codec": "ffv1", "pixel_format": "yuv422p10le"},
    "prores.mov": {"codec": "prores_ks", "pixel_format": "yuva444p10le"},
    "mpeg2.mpg": {"codec": "mpeg2video", "audio": ("mp2",), "time_base": Fraction(1, 25)},
    "mjpeg.avi": {"codec": "mjpeg", "pixel_format": "yuvj420p", "color_range": 2},
    "hevc.mp4": {"codec": "libx265", "options": (("x265-params", "log-level=none"),)},
    "av1.mp4": {"codec": "libsvtav1", "options": (("preset", "12"), ("svtav1-params", "lp=1"))},
    "clusters.mkv": {"frames": 30, "audio": ("aac",), "options": (("g", "5"), ("crf", "10"))},
    "ffv1.nut": {"codec": "ffv1"},
    "mpeg2.mxf": {"codec": "mpeg2video", "time_base": Fraction(1, 25)},
    "raw.y4m": {"codec": "rawvideo", "frames": 5},
    "vp8.ogv": {"codec": "libvpx", "audio": ("libopus",)},
    "h264.m2ts": {"frames": 20, "options": (("g", "10"),)},
}


@dataclass(frozen=True)
class Verdict:
    """What became of one file."""

    kind: str
    """ok, refused, partial, bug, crash, hang, memory, lost, short (fewer frames than before, and nothing was said), or
    valid: short, but an independent reader finds neither more frames nor damage."""
    detail: str = ""

    @property
    def bad(self) -> bool:
        """Whether this must not happen."""
        return self.kind in ("bug", "crash", "hang", "lost", "short")


@dataclass(frozen=True)
class Original:
    """A file that is mutated."""

    path: Path
    frames: int
    """That the whole file holds; 0 for a checkpoint."""


@dataclass
class Child:
    """A process that handles one file."""

    number: int
    original: Original
    path: Path
    pid: int
    reader: int
    end: float
    """When it counts as hanging."""


def make_originals(folder: Path) -> list[Original]:
    """Make one file of every kind that a reader takes."""
    import cv2
    import numpy as np
    import torch

    from clips import Clip, write_clip
    from libranet.network import LiBrANet, save_checkpoint
    from tiny_network import TINY, perturb

    made = []
    for name, facts in VIDEOS.items():
        clip = Clip(**{"frames": 8, "width": 64, "height": 32, **facts})
        made.append(Original(write_clip(folder / name, clip), clip.frames))
    made.append(Original(fragment(made[0].path, folder / "fragments.mp4"), made[0].frames))
    image = np.random.default_rng(0).integers(0, 255, (32, 48, 3), np.uint8)
    for suffix in (".png", ".jpg", ".webp", ".tif", ".bmp"):
        cv2.imwrite(str(folder / f"image{suffix}"), image)
        made.append(Original(folder / f"image{suffix}", 1))
    cv2.imwritemulti(str(folder / "pages.tif"), [image, image])
    made.append(Original(folder / "pages.tif", 2))
    animation = cv2.Animation()
    animation.frames, animation.durations = [image, 255 - image], [50, 50]
    for suffix in (".webp", ".png", ".gif"):
        cv2.imwriteanimation(str(folder / f"animation{suffix}"), animation)
        made.append(Original(folder / f"animation{suffix}", 2))
    torch.manual_seed(0)
    save_checkpoint(perturb(LiBrANet(TINY)).eval(), folder / "tiny.safetensors")
    return [*made, Original(folder / "tiny.safetensors", 0)]


def fragment(source: Path, output: Path) -> Path:
    """Copy the video of a file into an mp4 file with a fragment for every two frames."""
    import av

    options = {"movflags": "empty_moov+default_base_moof", "frag_duration": "80000"}
    with av.open(str(source)) as given, av.open(str(output), "w", container_options=options) as container:
        video = given.streams.video[0]
        copied = container.add_stream_from_template(video)
        for packet in given.demux(video):
            if packet.dts is not None:
                packet.stream = copied
                container.mux(packet)
    return output


def mutate(data: bytes, generator: random.Random) -> bytes:
    """Damage a file in one of the ways that files are damaged."""
    out = bytearray(data)
    kind = generator.randrange(7)
    if kind == 0:  # cut off
        return bytes(out[: generator.randrange(1, len(out))])
    if kind == 1:  # a hole
        at, size = generator.randrange(len(out)), generator.randrange(1, 4096)
        out[at : at + size] = bytes(min(size, len(out) - at))
    elif kind == 2:  # a missing piece
        at = generator.randrange(len(out))
        del out[at : at + generator.randrange(1, 4096)]
        return bytes(out or b"\0")
    elif kind == 3:  # a repeated piece
        at, size = generator.randrange(len(out)), generator.randrange(1, 4096)
        out[at:at] = out[at : at + size]
    elif kind == 4:  # extreme numbers in the header
        at = generator.randrange(min(len(out), 2048))
        out[at : at + 4] = generator.choice([b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0"])
    else:  # random bytes, few or many
        for _ in range(1 if kind == 5 else generator.randrange(2, 64)):
            out[generator.randrange(len(out))] = generator.randrange(256)
    return bytes(out)


def use(path: Path, original: Original, network: Network, folder: Path) -> Verdict:
    """Do with a file what the command line would do. Runs in a child process."""
    from libranet.engine import DehazeOptions, dehaze_video
    from libranet.engine.image_files import dehaze_image
    from libranet.errors import LibraNetError
    from libranet.images import is_image_name
    from libranet.runtime import load_network

    try:
        if path.suffix == ".safetensors":
            load_network(str(path), device="cpu")
            return Verdict("ok")
        if is_image_name(path):
            expected = count_pages(path)
            report = dehaze_image(path, folder / f"out{path.suffix}", network)
        else:
            expected = count_frames(path)
            options = DehazeOptions(codec="ffv1", backend="plain")
            report = dehaze_video(path, folder / "out.mkv", model=network, options=options, device="cpu")
    except LibraNetError as error:
        return Verdict("refused", str(error))
    except MemoryError:
        return Verdict("memory")
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Verdict("bug", f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
    if report.partial:
        return Verdict("partial", report.partial)
    if report.frames < expected:
        return Verdict("lost", f"{report.frames} of {expected} frames, and nothing was said")
    if report.frames < original.frames:
        found = f"{report.frames} of {original.frames} frames"
        problem = independent_reading(path, report.frames)
        return Verdict("short", f"{found}; {problem}") if problem else Verdict("valid", found)
    return Verdict("ok")


def independent_reading(path: Path, frames: int) -> str:
    """Return what Debian's ffmpeg says against a file with so many frames, or nothing."""
    if (program := shutil.which("ffprobe")) is None:
        return "no ffmpeg is installed that could confirm them"
    command = [program, "-v", "warning", "-count_frames", "-select_streams", "V:0"]
    command += ["-show_entries", "stream=nb_read_frames", "-of", "default=noprint_wrappers=1:nokey=1", f"file:{path}"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=SECONDS / 2)
    found = set(done.stdout.split())  # a transport stream lists its streams twice
    if found != {str(frames)}:
        return f"ffprobe finds {' and '.join(found) or 'none'}"
    return f"ffprobe says: {done.stderr.strip().splitlines()[0]}" if done.stderr.strip() else ""


def count_pages(path: Path) -> int:
    """Count the images that OpenCV finds in a file."""
    import cv2

    try:
        return cv2.imcount(str(path))
    except cv2.error:
        return 0


def count_frames(path: Path) -> int:
    """Count the frames that FFmpeg decodes on one thread in the format of the first one."""
    import av

    count, shape = 0, None
    try:
        with av.open(f"file:{path}", metadata_errors="replace") as container:
            video = next(s for s in container.streams.video)
            video.codec_context.thread_count = 1
            for packet in container.demux(video):
                try:
                    frames = packet.decode()
                except (av.FFmpegError, EOFError):
                    continue
                for frame in frames:
                    shape = shape or (frame.width, frame.height, frame.format.name)
                    count += shape == (frame.width, frame.height, frame.format.name)
    except Exception:  # what FFmpeg refuses, we may refuse
        return count
    return count


def start(number: int, original: Original, folder: Path, seed: int, network: Network) -> Child:
    """Write the mutated file and fork a child that uses it, with limits."""
    own = folder / f"{number:06d}"
    own.mkdir()
    path = own / f"mutated{original.path.suffix}"
    path.write_bytes(mutate(original.path.read_bytes(), random.Random(f"{seed} {number}")))
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        verdict = use(path, original, network, own)
        os.write(writer, json.dumps([verdict.kind, verdict.detail[:300]]).encode())
        os._exit(0)
    os.close(writer)
    return Child(number, original, path, pid, reader, time.monotonic() + SECONDS)


def verdict_of(child: Child) -> Verdict | None:
    """Return what became of a child's file, or None while it works."""
    pid, status = os.waitpid(child.pid, os.WNOHANG)
    if pid == 0 and time.monotonic() < child.end:
        return None
    if pid == 0:
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
    with os.fdopen(child.reader, "rb") as pipe:
        answer = pipe.read()
    if pid == 0:
        return Verdict("hang", f"more than {SECONDS} s")
    if status != 0 or not answer:
        return Verdict("crash", f"status {status}")
    return Verdict(*json.loads(answer))


def run(
    originals: list[Original], numbers: Iterable[int], arguments: argparse.Namespace
) -> Iterator[tuple[Child, Verdict]]:
    """Handle the files, several at once, and yield what became of each."""
    from libranet.runtime import load_network

    network = load_network(str(originals[-1].path), device="cpu")
    begin = time.monotonic()
    waiting = iter(numbers)
    children: list[Child] = []
    while True:
        while len(children) < arguments.jobs and time.monotonic() - begin < arguments.seconds:
            if (number := next(waiting, None)) is None:
                break
            original = originals[number % len(originals)]
            children.append(start(number, original, originals[0].path.parent, arguments.seed, network))
        if not children:
            return
        for child in list(children):
            if (verdict := verdict_of(child)) is not None:
                children.remove(child)
                yield child, verdict
                shutil.rmtree(child.path.parent, ignore_errors=True)
        time.sleep(0.002)


def main() -> int:
    """Run and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--keep", type=Path, help="folder for files that went wrong, and for valid shorter ones")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    arguments = parser.parse_args()
    os.environ["SVT_LOG"] = "1"  # SVT-AV1 writes to the terminal otherwise
    import torch

    import libranet.engine.image_files  # noqa: F401  (loaded once, before the forks)
    from machine import describe_machine

    torch.set_num_threads(1)  # a forked process has no other threads
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    valid: list[str] = []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        originals = make_originals(Path(name))
        for child, verdict in run(originals, range(arguments.first, arguments.first + arguments.files), arguments):
            counts[verdict.kind] += 1
            line = f"file {child.number} from {child.original.path.name}: {verdict.kind}: {verdict.detail}"
            if verdict.bad:
                wrong.append(line)
            if verdict.kind == "valid":
                valid.append(line)
            if verdict.bad or verdict.kind == "valid":
                print(line, flush=True)
            if arguments.keep and (verdict.bad or verdict.kind == "valid"):
                arguments.keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(child.path, arguments.keep / f"{child.number:05d}-{child.original.path.name}")
    total = sum(counts.values())
    print(f"{total} files in {time.monotonic() - begin:.0f} s, seed {arguments.seed}")
    print(json.dumps(dict(sorted(counts.items()))))
    if arguments.json:
        result = {"machine": describe_machine(), "seed": arguments.seed, "files": total, "first": arguments.first}
        result |= {"seconds": round(time.monotonic() - begin), "counts": dict(sorted(counts.items()))}
        result |= {"wrong": wrong, "valid": valid}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
