"""The comparison of training runs, from end to end with tiny settings."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
import safetensors.torch
import torch

from libranet.lab.held_back import carried_name
from libranet.synth.manifest import OPEN_MANIFEST, read_manifest
from libranet.training.loop import run_training

ROOT = Path(__file__).parents[2]
SETTINGS = (
    *("precision=fp32", "batch=2", "crops=[[32, 32]]", "photos.folders=[]", "photos.depth=", "photos.scenes=1"),
    *("photos.lines=48", "photos.haze.geometry.zoom=[0.7, 0.7]", "loss.perceptual=none"),
)
TINY = (
    *("--models", "libranet,identity,clahe,uhdformer", "--samples", "4", "--seeds", "1", "--device", "cpu"),
    *("--clips", "3", "--frames", "2", "--clip-size", "96x54"),
    *(part for setting in SETTINGS for part in ("--set", setting)),
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands for the carried photos of the test part."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for row in read_manifest(OPEN_MANIFEST):
        if row.part == "test" and row.depth:
            for name, image in ((carried_name(row.file), rng.integers(0, 255, (72, 128, 3))), (row.depth, None)):
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                ramp = np.linspace(255, 0, 72)[:, None].repeat(128, axis=1)
                cv2.imwrite(str(path), (ramp if image is None else image).astype(np.uint8))
    return folder


def run(folder: Path, photos: Path, *more: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HOME": str(folder)}
    script = str(ROOT / "benchmarks" / "comparison.py")
    command = [sys.executable, script, str(folder / "out"), *TINY, "--sources", str(photos), *more]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def bench_row(model: str, milliseconds: float | None) -> dict:
    row = {"model": model, "size": [96, 54], "parameters": 1, "gflops": 1.0, "milliseconds": milliseconds}
    return row | {"peak_bytes": 2**30, "turns": 3, "device": "here", "precision": "float32", "failure": ""}


@pytest.mark.slow
def test_it_goes_on_where_it_stopped_and_ends_with_a_table(tmp_path, photos):
    assert "not done yet" in run(tmp_path, photos, "--stop-after", "0")
    assert not list((tmp_path / "out" / "runs").glob("*")), "no time was left to begin anything"
    bench = tmp_path / "bench.json"
    rows = [bench_row("uhdformer", 20.0), bench_row("libranet", 10.0)]
    bench.write_text(json.dumps({"rows": rows}))

    claims = tmp_path / "out" / "claims"
    claims.mkdir(parents=True, exist_ok=True)
    with (claims / "libranet-0").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        out = run(tmp_path, photos, "--part", "2/2")
    assert "uhdformer, seed 0: 4 of 4 samples" in out
    assert "libranet, seed 0: " not in out, "another process has it"
    assert "not done yet" in out
    shutil.rmtree(tmp_path / "out" / "trained")  # as on another machine, which only got OUT/runs
    shutil.rmtree(tmp_path / "out" / "clips")
    out = run(tmp_path, photos, "--part", "1/2", "--bench", str(bench))
    assert "all is done" in out
    assert "maxim-outdoor" not in out, "it is measured on pairs alone, and there are none"
    assert "uhdformer, seed 0: " not in out, "nothing is trained twice"

    results = json.loads((tmp_path / "out" / "results.json").read_text())
    names = ["libranet", "identity", "clahe", "uhdformer"]
    assert [row["model"] for row in results["runs"]] == names
    row = results["runs"][-1]
    assert row["samples"] == 4
    values = [clip["psnr"] for clip in row["values"]["clips"].values()]
    assert len(values) == 3, "the values of every clip are kept"
    assert results["psnr"]["uhdformer"] == pytest.approx(np.mean(values))
    line = next(line for line in out.splitlines() if line.startswith("| uhdformer"))
    assert line.endswith("| 50.00 | 1.00 |")
    assert "uhdformer" in (tmp_path / "out" / "quality-by-fps.svg").read_text()

    with pytest.raises(subprocess.CalledProcessError) as error:
        run(tmp_path, photos, "--samples", "6")
    assert "is of another protocol (steps)" in error.value.stderr


@pytest.mark.slow
def test_a_training_in_pieces_gives_the_same_weights(tmp_path, photos, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.chdir(ROOT)
    import comparison

    def stop_at_step(
        trainer: Any, source: Any, *, seconds: float, **rest: Any
    ) -> Any:  # a clock would be late at times
        return run_training(trainer, source, until=int(seconds), **rest)

    monkeypatch.setattr(comparison, "run_training", stop_at_step)
    options = SimpleNamespace(
        recipe=Path("recipes/uhv4k-open.toml"), overrides=SETTINGS, samples=8, device="cpu", part=(1, 1)
    )

    def trained(name: str, stops: list[int]) -> tuple[list[int], dict[str, torch.Tensor]]:
        records = comparison.Records(tmp_path / name, {})
        work = comparison.Work(records, options, SimpleNamespace(left=0.0))
        run, steps = comparison.Run("uhdformer"), []
        for work.clock.left in stops:
            run = work._train(run)
            steps.append(run.steps)
        return steps, safetensors.torch.load_file(records.weights("uhdformer", 0))

    steps, pieces = trained("pieces", [1, 3, 4])
    _, whole = trained("whole", [4])
    assert steps == [1, 3, 4]
    assert all(torch.equal(pieces[key], whole[key]) for key in whole)
