"""Environments of host programs, which `make hosts` prepares beside the tests' own: other Pythons, other packages."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"


def host(name: str, program: str = "") -> Path:
    """The folder of programs of a host, or one of them."""
    path = ROOT / ".hosts" / name / "bin" / program
    if not path.exists():
        pytest.skip(f"no environment for {name}: run `make hosts`")
    return path


def run(*words: object, folder: Path, seconds: float = 300, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a program of a host with our sources, and without this environment's settings."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"} | settings
    command = [str(word) for word in words]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=seconds
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done
