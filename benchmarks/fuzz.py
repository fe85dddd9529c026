"""Mutated files against every reader: videos, images and checkpoints, each in a process of its own.

A run is good when no file gives a traceback, a crash or a hang, and no run that ends with code 0 misses frames.

    python benchmarks/fuzz.py --files 10000 --seed 0          # the whole thing
    python benchmarks/fuzz.py --files 50 --seed 7 --keep bad  # keeps what went wrong

The seeds are made on the spot. A worker process handles a batch of files in turn, in forked children with a limit on
memory and time, so that Python and PyTorch are loaded once.
"""

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

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
}


@dataclass(frozen=True)
class Verdict:
    """What became of one file."""

    kind: str
    """ok, refused, partial, bug, crash, hang, memory or lost."""
    detail: str = ""

    @property
    def bad(self) -> bool:
        """Whether this must not happen."""
        return self.kind in ("bug", "crash", "hang", "lost")


def make_seeds(folder: Path) -> list[Path]:
    """Make one file of every kind that a reader takes."""
    import cv2
    import numpy as np
    import torch

    from clips import Clip, write_clip
    from libranet.models import LiBrANet, save_checkpoint
    from tiny_network import TINY, perturb

    seeds = []
    for name, facts in VIDEOS.items():
        seeds.append(write_clip(folder / name, Clip(frames=8, **facts)))
    image = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    for suffix in (".png", ".jpg", ".webp", ".tif", ".bmp"):
        cv2.imwrite(str(folder / f"image{suffix}"), image)
        seeds.append(folder / f"image{suffix}")
    cv2.imwritemulti(str(folder / "pages.tif"), [image, image])
    animation = cv2.Animation()
    animation.frames, animation.durations = [image, 255 - image], [50, 50]
    for suffix in (".webp", ".png"):
        cv2.imwriteanimation(str(folder / f"animation{suffix}"), animation)
        seeds.append(folder / f"animation{suffix}")
    torch.manual_seed(0)
    save_checkpoint(perturb(LiBrANet(TINY)).eval(), folder / "tiny.safetensors")
    return [*seeds, folder / "pages.tif", folder / "tiny.safetensors"]


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


def use(path: Path, checkpoint: Path, folder: Path) -> Verdict:
    """Do with a file what the command line would do. Runs in a child process."""
    from libranet.backends import load_network
    from libranet.engine import DehazeOptions, dehaze_video
    from libranet.engine.image_files import dehaze_image
    from libranet.errors import LibraNetError
    from libranet.images import is_image_name

    try:
        if path.suffix == ".safetensors":
            load_network(str(path), device="cpu")
            return Verdict("ok")
        network = load_network(str(checkpoint), device="cpu")
        if is_image_name(path):
            dehaze_image(path, folder / f"out{path.suffix}", network)
            return Verdict("ok")
        expected = count_frames(path)
        report = dehaze_video(
            path, folder / "out.mkv", model=network, options=DehazeOptions(codec="ffv1"), device="cpu"
        )
    except LibraNetError as error:
        return Verdict("refused", str(error))
    except MemoryError:
        return Verdict("memory")
    except Exception as error:
        return Verdict("bug", f"{type(error).__name__}: {error}")
    if report.frames < expected and not report.partial:
        return Verdict("lost", f"{report.frames} of {expected} frames, and nothing was said")
    return Verdict("partial" if report.partial else "ok", report.partial)


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


def in_child(path: Path, checkpoint: Path) -> Verdict:
    """Fork, limit, run, and read the verdict."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        with tempfile.TemporaryDirectory() as folder:
            verdict = use(path, checkpoint, Path(folder))
        os.write(writer, json.dumps([verdict.kind, verdict.detail[:300]]).encode())
        os._exit(0)
    os.close(writer)
    end = time.monotonic() + SECONDS
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
            return Verdict("hang", f"more than {SECONDS} s")
        time.sleep(0.005)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    if done[1] != 0 or not answer:
        return Verdict("crash", f"status {done[1]}")
    return Verdict(*json.loads(answer))


def main() -> int:
    """Run and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for files that went wrong")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    from libranet.engine import dehaze_video  # noqa: F401  (loaded once, before the forks)

    torch.set_num_threads(1)
    generator = random.Random(arguments.seed)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds = make_seeds(folder)
        checkpoint = folder / "tiny.safetensors"
        for number in range(arguments.files):
            if time.monotonic() - begin > arguments.seconds:
                break
            seed = seeds[number % len(seeds)]
            path = folder / f"mutated{seed.suffix}"
            path.write_bytes(mutate(seed.read_bytes(), generator))
            verdict = in_child(path, checkpoint)
            counts[verdict.kind] += 1
            if verdict.bad:
                wrong.append(f"file {number} from {seed.name}: {verdict.kind}: {verdict.detail}")
                print(wrong[-1], flush=True)
                if arguments.keep:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    (arguments.keep / f"{number:05d}-{seed.name}").write_bytes(path.read_bytes())
    total = sum(counts.values())
    print(f"{total} files in {time.monotonic() - begin:.0f} s, seed {arguments.seed}")
    print(json.dumps(dict(sorted(counts.items()))))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
