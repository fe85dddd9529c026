"""Every shell and Python block of the documentation runs as it stands, in a folder with the files that it names.

The blocks of one document run in order in one folder, so a later one may use what an earlier one made. A block that
cannot run here has a comment above it that says why: `<!-- not run: needs a camera -->`.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest

from clips import Clip, write_clip
from markdown_blocks import ALL_BLOCKS, DOCUMENTS, ROOT, SHELL, read_blocks

NOT_RUN = {
    "CONTRIBUTING.md": 1,
    "README.md": 2,
    "docs/analysis.md": 1,
    "docs/comparison.md": 4,
    "docs/paper.md": 3,
    "docs/performance.md": 1,
    "docs/plug-ins.md": 7,
    "docs/evaluation.md": 2,
    "docs/browser.md": 1,
    "docs/install.md": 1,
    "docs/serve.md": 2,
    "docs/service.md": 2,
    "docs/cluster.md": 1,
    "docs/real-haze.md": 2,
    "docs/scale.md": 1,
    "docs/training.md": 1,
    "docs/uhv4k.md": 3,
}
"""How many blocks of each document no test can run."""
FAST = {"docs/api/index.md"}
LINKED = ("benchmarks", "examples", "recipes", "research", "src")
"""Folders of the repository that commands name."""


def make_files(folder: Path) -> None:
    """Provide the files that the documentation names."""
    sound = Clip(frames=8, width=160, height=96, audio=("aac",))
    for name in ("foggy.mp4", "clip.mp4", "clip.mkv", "trip/day1/one.mp4"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_clip(folder / name, sound)
    rng = np.random.default_rng(0)
    photo = cv2.resize(rng.integers(40, 220, (12, 16, 3), np.uint8), (320, 240), interpolation=cv2.INTER_CUBIC)
    images = ["photo.jpg", "photos/a.jpg", "photos/more/b.png", "trip/view.jpg"]
    images += [f"frame_{index:04d}.png" for index in range(1, 6)] + [f"frames/{index:04d}.png" for index in range(6)]
    for index, name in enumerate(images):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / name), np.roll(photo, 2 * index, axis=1))
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)


def runnable(path: Path) -> list:
    return [block for block in read_blocks(path) if block.language in (*SHELL, "python") and not block.not_run]


def _cases() -> list:
    documents = [path for path in DOCUMENTS if runnable(path)]
    names = [str(path.relative_to(ROOT)) for path in documents]
    marks = [[] if name in FAST else [pytest.mark.slow] for name in names]
    return [pytest.param(path, id=name, marks=mark) for path, name, mark in zip(documents, names, marks, strict=True)]


@pytest.mark.parametrize("path", _cases())
def test_blocks_run(path, tmp_path):
    make_files(tmp_path)
    bin_folder = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
    }
    for block in runnable(path):
        shell = ["bash", "-euo", "pipefail", "-c", block.text]
        command = [sys.executable, "-c", block.text] if block.language == "python" else shell
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{block.place}\n{block.text}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


def test_blocks_that_do_not_run_are_counted():
    assert Counter(block.document for block in ALL_BLOCKS if block.not_run) == NOT_RUN
