"""An environment with VapourSynth, which runs on newer Pythons than ours may be."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def find_newer_python() -> str | None:
    """A Python from 3.12 on, which VapourSynth needs: this one, on the path, or of pyenv."""
    names = [sys.executable, *(shutil.which(f"python3.{minor}") or "" for minor in (12, 13, 14))]
    names += [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.1[2-4]*/bin/python"))]
    test = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))"
    for name in filter(None, names):
        if subprocess.run([name, "-c", test], capture_output=True, check=False).returncode == 0:
            return name
    return None


@pytest.fixture(scope="session")
def vapoursynth_python(tmp_path_factory) -> str:
    """An environment with VapourSynth and its runner for ONNX files, from the package index."""
    python = find_newer_python()
    if python is None:
        pytest.skip("VapourSynth needs Python 3.12, and none was found")
    folder = tmp_path_factory.mktemp("vapoursynth")
    subprocess.run([python, "-m", "venv", str(folder)], check=True, timeout=300)
    install = [str(folder / "bin" / "pip"), "install", "-q", "vapoursynth", "vapoursynth-mlrt-ort", "numpy"]
    done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        pytest.skip(f"VapourSynth could not be installed: {done.stderr.strip().splitlines()[-1]}")
    return str(folder / "bin" / "python")
