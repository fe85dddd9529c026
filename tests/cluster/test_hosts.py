"""A flaky S3, hosts in network namespaces, one of them cut off: `benchmarks/cluster.py hosts`, also with few clips."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="pip install 'libranet[cluster]'")
pytest.importorskip("moto.server")
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "cluster.py"


def can_make_namespaces() -> bool:
    if shutil.which("ip") is None or os.getuid() != 0:
        return False
    made = subprocess.run(["ip", "netns", "add", "libranet-try"], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "del", "libranet-try"], capture_output=True, check=False)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("clips", [12, 200])
def test_hosts_with_a_flaky_store_lose_one_of_them_and_no_clip(clips, tmp_path):
    if not can_make_namespaces():
        pytest.skip("network namespaces need root and ip: apt-get install iproute2")
    found = tmp_path / "found.json"
    words = [sys.executable, str(BENCHMARK), "hosts", "--clips", str(clips), "-o", str(found)]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(found.read_text())["result"]
    assert (result["code"], result["done"], result["identical"]) == (3, clips - 1, clips - 1)
    (failed,) = result["failed"]
    assert failed["source"].endswith("clip007.mp4")
    assert "not a video" in failed["error"]
    assert result["hosts_cut_off"] == 1
    assert sum(result["faults"].values()) > 0
    assert (result["written_twice"], result["left_in_the_store"]) == (0, 0)
    assert result["second_call"] == {"done": 0, "finished_before": clips - 1, "failed": 1}
    assert result["poison_list_after_mending"] == {"done": 1, "failed": 0}
    assert result["spans"]["run"] == 1
    assert result["spans"]["job"] == clips
    assert result["spans"]["upload"] >= clips - 1
    assert result["metrics"]["tasks_failed"] == 1
    assert result["metrics"]["tasks_done"] == clips - 1
    assert result["metrics"]["attempts_total"] == result["spans"]["attempt"] >= clips
