"""Freed arrays stay with the process, and memory does not grow with the length of a video."""

import os
import platform
import subprocess
import sys

import pytest

from clips import Clip, write_clip
from libranet.engine import allocator
from libranet.network import save_checkpoint

MEGABYTES = 100

RESIDENT = f"""
import resource, sys
import torch
from libranet.engine.allocator import keep_large_arrays, return_free_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

if sys.argv[1] == "kept":
    keep_large_arrays()
before = resident()
torch.ones({MEGABYTES} << 20, dtype=torch.uint8)
freed = resident()
return_free_memory()
print(freed - before, resident() - before)
"""
"""Megabytes in use after an array was freed, and after everything free was given back."""

MEASURE = """
import resource, sys
from libranet.engine import DehazeOptions, dehaze_video
source, output, model = sys.argv[1:4]
dehaze_video(source, output, model=model, options=DehazeOptions(preset="ultrafast"), device="cpu")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator of another C library")
def test_a_freed_array_stays_until_it_is_given_back():
    resident = {}
    for kind in ("left alone", "kept"):
        words = [sys.executable, "-c", RESIDENT, kind]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        resident[kind], given_back = map(float, done.stdout.split())
        assert given_back < 0.2 * MEGABYTES
    assert resident["left alone"] < 0.2 * MEGABYTES
    assert resident["kept"] > 0.9 * MEGABYTES


def test_without_glibc_nothing_happens(monkeypatch):
    monkeypatch.setattr(allocator.sys, "platform", "win32")
    allocator.glibc.cache_clear()
    try:
        assert allocator.glibc() is None
        allocator.keep_large_arrays()
        allocator.return_free_memory()
    finally:
        allocator.glibc.cache_clear()


@pytest.mark.slow
def test_peak_memory_is_the_same_for_60_and_600_frames_of_1080p(tmp_path, tiny_model):
    """With a tiny network, for time's sake: its frames and queues are as large as the real one's."""
    save_checkpoint(tiny_model, tmp_path / "tiny.safetensors")
    peaks = {}
    for frames in (60, 600):
        clip = Clip(frames=frames, width=1920, height=1080, still=True, options=(("preset", "ultrafast"),))
        source = write_clip(tmp_path / f"{frames}.mp4", clip)
        words = [str(source), str(tmp_path / f"out{frames}.mp4"), str(tmp_path / "tiny.safetensors")]
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *words],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        peaks[frames] = float(done.stdout)
    print(f"peak RSS in MiB: {peaks}, ratio {peaks[600] / peaks[60]:.4f}")
    assert peaks[600] < 1.05 * peaks[60]
