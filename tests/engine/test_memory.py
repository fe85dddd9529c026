"""Memory does not grow with the length of a video."""

import os
import subprocess
import sys

import pytest

from clips import Clip, write_clip
from libranet.models import save_checkpoint

MEASURE = """
import resource, sys
from libranet.engine import DehazeOptions, dehaze_video
source, output, model = sys.argv[1:4]
dehaze_video(source, output, model=model, options=DehazeOptions(preset="ultrafast"), device="cpu")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


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
