"""Room on a node's disk, on a disk of 16 MB where this machine lets us make one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from libranet.cluster import scratch
from libranet.cluster.scratch import CrowdedError, scratch_folder, scratch_root
from libranet.engine import OutputError

MB = 10**6
HOLD = """
import sys, time
from pathlib import Path
from libranet.cluster import scratch
with scratch.scratch_folder(sys.argv[1], int(sys.argv[2])) as folder:
    (folder / "file").write_bytes(bytes(int(sys.argv[3])))
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A small disk."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = shutil.which("mount") and os.getuid() == 0
    if (
        not mounted
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", place], check=False).returncode
    ):
        pytest.skip("no right to mount a small disk")
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(scratch.tempfile, "tempdir", None)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


class Other:
    """Another worker of the node."""

    def __init__(self, address: str, needed: int, size: int) -> None:
        words = [sys.executable, "-c", HOLD, address, str(needed), str(size)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def end(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        self.process.communicate()


def test_a_job_waits_while_others_have_reserved_the_disk_and_runs_when_they_ended(disk):
    other = Other("s3://b/a.mp4", 10 * MB, MB)
    with (
        pytest.raises(CrowdedError, match=r"room for .* MB, the job needs 8.0 MB: it waits"),
        scratch_folder("b", 8 * MB),
    ):
        pass
    with scratch_folder("s3://b/b.mp4", 4 * MB):
        pass
    other.end()
    with scratch_folder("s3://b/b.mp4", 8 * MB) as folder:
        assert folder.parent == scratch_root()


def test_what_a_killed_worker_left_is_kept_while_there_is_room_and_goes_when_there_is_not(disk):
    other = Other("s3://b/a.mp4", 10 * MB, 9 * MB)
    other.end(kill=True)
    with scratch_folder("s3://b/b.mp4", 2 * MB), scratch_folder("s3://b/a.mp4", 10 * MB) as left:
        assert (left / "file").stat().st_size == 9 * MB  # the next attempt at it goes on
    with scratch_folder("s3://b/b.mp4", 12 * MB):
        assert not left.exists()


def test_a_job_that_no_such_disk_can_hold_goes_elsewhere(disk):
    too_much = pytest.raises(OutputError, match=r"needs 99.0 MB .* whose disk has 15.9 MB: use a larger one")
    with too_much, scratch_folder("s3://b/a.mp4", 99 * MB):
        pass


def test_two_workers_never_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(tmp_path))
    with scratch_folder("a") as one, pytest.raises(CrowdedError, match="another process works"), scratch_folder("a"):
        pass
    with scratch_folder("a") as two:
        assert one == two
    assert [path for path in Path(tmp_path).rglob("*") if path.is_dir()] == [one.parent, one]
