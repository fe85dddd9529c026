"""What needs processes of its own: the first frame of a new one, and a run that is killed."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from end_to_end_sections.files import write_source
from end_to_end_sections.table import YUV8, Setting, Table
from libranet.network import LiBrANet

FIRST_FRAME = """
import json, time
begin = time.perf_counter()
parts = {{}}

def mark(name):
    global begin
    now = time.perf_counter()
    parts[name], begin = parts.get(name, 0.0) + now - begin, now

import torch
mark("import torch")
from libranet import Dehazer
mark("import libranet")
dehazer = Dehazer(live=True, device="{device}")
mark("load")
frame = torch.randint(0, 256, ({height}, {width}, 3), dtype=torch.uint8).numpy()
if "{device}" == "cuda":
    torch.zeros(1, device="cuda")
    mark("start CUDA")
    from libranet.runtime.gpu.backend import FusedBackend

    def timed(name):
        work = getattr(FusedBackend, name)

        def wrapped(*given):
            mark("before")
            result = work(*given)
            mark(name)
            return result

        setattr(FusedBackend, name, wrapped)

    timed("_make_step")
    timed("_why_distrust")
dehazer.push(frame)
mark("rest of the first frame")
print(json.dumps({{name: round(part, 2) for name, part in parts.items()}}))
"""
RESUMED = """
import sys
from libranet.engine import DehazeOptions, dehaze_video
options = DehazeOptions(segment_frames=int(sys.argv[3]))
dehaze_video(sys.argv[1], sys.argv[2], resume=True, device="{device}", options=options)
"""


def first_frame(table: Table, network: LiBrANet, setting: Setting) -> None:
    """Seconds to the first frame in a new process: nothing compiled, then everything on disk."""
    program = FIRST_FRAME.format(device=setting.device, width=setting.width, height=setting.height)
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TRITON_CACHE_DIR": f"{cache}/triton", "HOME": cache}
        for name, limit in (("cold", "<= 6 s"), ("warm", "<= 2 s"), ("warm again", "<= 2 s")):
            begin = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True,
                                  check=False)  # fmt: skip
            if done.returncode:
                raise RuntimeError(done.stderr[-1500:])
            print(done.stderr[-500:], flush=True)
            parts = json.loads(done.stdout.splitlines()[-1])
            imports, total = parts["import torch"] + parts["import libranet"], sum(parts.values())
            table.facts[f"first frame, {name}"] = parts | {"whole process": round(time.perf_counter() - begin, 2)}
            print(parts, flush=True)
            table.add(f"first frame, {name} (imports {imports:.1f} s of it)", total, unit="s", limit=limit)


def resume(table: Table, network: LiBrANet, setting: Setting) -> None:
    """SIGKILL in the middle, then --resume: the file must be the uninterrupted one."""
    folder = setting.folder
    half = (setting.width // 4 * 2, setting.height // 4 * 2)
    source = write_source(folder / "half.mp4", YUV8, setting.resumed, half, setting.device)

    def start(output: str) -> subprocess.Popen[bytes]:
        arguments = [str(source), str(folder / output), str(setting.resumed // 10)]
        return subprocess.Popen([sys.executable, "-c", RESUMED.format(device=setting.device), *arguments])

    def kept() -> int:
        return len(json.loads(manifest.read_text())["segments"]) if manifest.is_file() else 0

    manifest = folder / ".killed.mp4.libranet" / "manifest.json"
    killed = start("killed.mp4")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and killed.poll() is None and kept() < 3:
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    segments = kept()
    both = [start("whole.mp4"), start("killed.mp4")]
    codes = [process.wait() for process in both]
    if any(codes):
        raise RuntimeError(f"the runs ended with exit codes {codes}")
    same = (folder / "whole.mp4").read_bytes() == (folder / "killed.mp4").read_bytes()
    table.add(f"resumed after SIGKILL ({segments} segments kept): identical", float(same), unit="bool", limit="1")
