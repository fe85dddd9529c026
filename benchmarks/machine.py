"""What a benchmark result needs beside its numbers: when, where, and which code."""

import datetime
import platform
import subprocess
from pathlib import Path

import torch


def describe_machine() -> dict[str, str]:
    """Date, hardware, versions and commit, for the head of a result."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        commit = done.stdout.strip()
    except OSError:  # no git
        commit = ""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else _cpu_name()
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": device,
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit or "unknown",
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
