"""Freed arrays stay with the process, and go back on request."""

import platform
import subprocess
import sys

import pytest

from libranet.engine import allocator

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
    allocator._glibc.cache_clear()
    try:
        assert allocator._glibc() is None
        allocator.keep_large_arrays()
        allocator.return_free_memory()
    finally:
        allocator._glibc.cache_clear()
