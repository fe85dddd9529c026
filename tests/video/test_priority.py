"""An encoder takes no real-time priority, which SVT-AV1 would as root, and which every later process would inherit."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, dehaze_video
from libranet.video.encoder import kept_priority

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="priorities as Linux has them")


def policies() -> set[int]:
    found = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it ended since
            found.add(os.sched_getscheduler(int(thread.name)))
    return found


def lasting_policies() -> set[int]:
    """What threads keep: while another thread opens the encoder, its threads have real time for a moment."""
    end = time.monotonic() + 5
    while (found := policies()) != {os.SCHED_OTHER} and time.monotonic() < end:
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("output", ["out.mp4", "out.mkv"])
def test_av1_is_encoded_with_the_priority_of_the_program(tmp_path, tiny_model, output):
    clip = write_clip(tmp_path / "in.mp4", Clip(frames=3, width=64, height=64))
    during = set()
    options = DehazeOptions(codec="av1")
    dehaze_video(
        clip, tmp_path / output, model=tiny_model, options=options, progress=lambda _: during.update(lasting_policies())
    )
    assert during | lasting_policies() == {os.SCHED_OTHER}
    child = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]
    assert subprocess.run(child, capture_output=True, check=True).stdout.strip() == b"0"


def test_a_program_that_wants_real_time_keeps_it():
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pytest.skip("only root may take a real-time priority")
    try:
        with kept_priority():
            pass
        assert os.sched_getscheduler(0) == os.SCHED_FIFO
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def test_what_takes_it_within_loses_it():
    with kept_priority():
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except PermissionError:
            pytest.skip("only root may take a real-time priority")
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
