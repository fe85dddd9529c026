"""Object stores that fail: what is tried again, what is not, and where a job goes on."""

import dataclasses
import errno
import json
from pathlib import Path

import pytest
import torch

from clips import Clip, write_clip
from flaky_store import FlakyStore
from libranet.cluster import scratch, storage
from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload, JoinJob, PartJob, WholeJob
from libranet.cluster.tasks import Done, DrainedError, Split, Step, Task
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.jobs import Job
from libranet.errors import InputError
from libranet.video.source import Source


@pytest.fixture(scope="module")
def upstream():
    moto = pytest.importorskip("moto.server")
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    yield "http://{}:{}".format(*running.get_host_and_port())
    running.stop()


def use(monkeypatch, address: str):
    s3fs = pytest.importorskip("s3fs")
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    storage._store.cache_clear()
    return s3fs.S3FileSystem()


@pytest.fixture
def flaky(upstream, monkeypatch, tmp_path):
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(tmp_path / "scratch"))
    monkeypatch.setattr(storage, "FIRST_WAIT", 0.01)
    with FlakyStore(upstream, 0.0) as store:
        use(monkeypatch, store.address).mkdir("bucket" + tmp_path.name.replace("_", "-"))
        storage.take_failures()
        yield store, f"s3://bucket{tmp_path.name.replace('_', '-')}"
    storage._store.cache_clear()


def test_every_third_request_fails_and_every_file_arrives(flaky, tmp_path):
    store, bucket = flaky
    store.share = 0.35
    source = tmp_path / "a.bin"
    source.write_bytes(bytes(range(256)) * 4000)
    for number in range(12):
        storage.upload(source, f"{bucket}/{number}.bin")
        storage.fetch(f"{bucket}/{number}.bin", tmp_path / f"{number}.bin")
        assert (tmp_path / f"{number}.bin").read_bytes() == source.read_bytes()
    failures = storage.take_failures()
    # Most are repeated by botocore, where nobody would see them. aiohttp repeats some itself where a connection is cut.
    assert sum(failures.values()) >= store.faults["503"] + store.faults["500 after"] > 3
    assert {operation for operation, _ in failures} & {"PutObject", "GetObject"}
    assert storage.take_failures() == {}


def test_a_store_that_is_down_is_told_apart_from_a_missing_file_and_a_missing_right(flaky, tmp_path, monkeypatch):
    store, bucket = flaky
    with pytest.raises(InputError, match="there is no file"):
        storage.fetch(f"{bucket}/none.bin", tmp_path / "none.bin")
    asked = sum(store.requests.values())
    with pytest.raises(storage.RefusedError, match="cannot write"):
        storage.upload(Path(__file__), "s3://no-such-bucket-here/a.bin")
    assert sum(store.requests.values()) - asked == 1  # not repeated
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    use(monkeypatch, store.address)
    store.down = True
    with pytest.raises(storage.StoreError, match=f"in {storage.MOST_TRIES} tries"):
        storage.upload(Path(__file__), f"{bucket}/a.bin")


class BotoError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((BotoError(status), "transient") for status in (408, 429, 500, 502, 503, 504)),
        *((BotoError(status), "refused") for status in (400, 401, 403, 405, 412)),
        (BotoError(404), "missing"),
        (FileNotFoundError("x"), "missing"),
        (PermissionError(errno.EACCES, "x"), "refused"),
        (ConnectionResetError("x"), "transient"),
        (TimeoutError("x"), "transient"),
        (OSError(errno.ENOSPC, "x"), "full"),
        (ValueError("a bug or a setting"), "refused"),
    ],
    ids=str,
)
def test_kinds_of_errors(error, kind):
    assert storage.error_kind(error) == kind
    plain = OSError("of s3fs")
    plain.__cause__ = error
    assert storage.error_kind(plain) == kind


@pytest.fixture
def workload(tiny_checkpoint):
    torch.set_num_threads(1)
    return DehazeWorkload(DehazeSetup(model=str(tiny_checkpoint), threads=1))


OPTIONS = DehazeOptions(segment_frames=8, steady=0.08, backend="plain")


def long_job(bucket: str, tmp_path: Path, tiny_checkpoint, suffix: str) -> tuple[WholeJob, bytes]:
    clip = Clip(frames=140, audio=("aac",), options=(("g", "24"),))
    source = write_clip(tmp_path / f"long{suffix}", clip)
    dehaze_video(source, tmp_path / f"plain{suffix}", model=str(tiny_checkpoint), options=OPTIONS, device="cpu")
    storage.upload(source, f"{bucket}/in/long{suffix}")
    job = Job("video", Source("url", f"{bucket}/in/long{suffix}"), f"{bucket}/out/long{suffix}")
    return WholeJob(job, OPTIONS, parts=3), (tmp_path / f"plain{suffix}").read_bytes()


def no_report(step: Step) -> None:
    pass


def run(workload: DehazeWorkload, work: object, report=no_report):
    return workload.run(Task("t", work), report)


@pytest.mark.parametrize("suffix", [".mp4", ".mov"])
def test_a_long_video_of_a_store_is_made_in_parts_that_read_only_their_ranges(
    flaky, tmp_path, tiny_checkpoint, workload, suffix
):
    store, bucket = flaky
    work, expected = long_job(bucket, tmp_path, tiny_checkpoint, suffix)
    divided = run(workload, work)
    assert isinstance(divided, Split)
    assert len(divided.parts) == 3
    store.ranges.clear()
    for part in divided.parts:
        assert isinstance(part.work, PartJob)
        assert run(workload, part.work).result["new_frames"] == part.work.part.frames
    key = f"in/long{suffix}"
    assert any(name.endswith(key) for name, _ in store.ranges)
    assert not list((tmp_path / "scratch").rglob(f"*long{suffix}"))  # nobody fetched it whole
    assert run(workload, divided.parts[1].work).result["new_frames"] == 0  # its worker died before its answer
    assert isinstance(divided.last.work, JoinJob)
    done = run(workload, divided.last.work)
    assert isinstance(done, Done)
    assert (done.result["parts"], done.result["frames"]) == (3, 140)
    storage.fetch(f"{bucket}/out/long{suffix}", tmp_path / f"got{suffix}")
    assert (tmp_path / f"got{suffix}").read_bytes() == expected
    assert storage.list_files(f"{bucket}/out") == [f"{bucket}/out/long{suffix}"]  # nothing is left there


def test_a_drained_job_goes_on_elsewhere_from_its_last_segment(flaky, tmp_path, tiny_checkpoint, workload, monkeypatch):
    _, bucket = flaky
    work, expected = long_job(bucket, tmp_path, tiny_checkpoint, ".mp4")
    work = dataclasses.replace(work, parts=0)

    def drain(step: Step) -> None:
        if step.frames >= 30:
            raise DrainedError

    with pytest.raises(DrainedError):
        run(workload, work, drain)
    kept = storage.list_files(f"{bucket}/out/.long.mp4.libranet-run")
    assert sorted(name.rpartition("/")[2] for name in kept)[0] == "manifest.json"
    elsewhere = tmp_path / "another" / "disk"
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(elsewhere))
    done = run(workload, work)
    assert done.result["resumed_frames"] >= 30 - 8 - 8  # the segment under way, and frames that the encoder had not
    storage.fetch(f"{bucket}/out/long.mp4", tmp_path / "got.mp4")
    assert (tmp_path / "got.mp4").read_bytes() == expected
    assert storage.list_files(f"{bucket}/out") == [f"{bucket}/out/long.mp4"]


def test_a_list_of_poisoned_jobs_is_a_list_of_jobs(tmp_path):
    from libranet.cli.dehaze_manifest import format_row, read_manifest
    from libranet.engine.options import Adjustments

    changes = {"crf": 20, "pixel_format": "yuv420p10le", "strength": 0.8, "adjust": Adjustments(protect_sky=0.5)}
    path = tmp_path / "poison.jsonl"
    path.write_text(format_row("s3://b/a.mp4", "s3://b/out/a.mp4", changes, reason="no video", attempts=3) + "\n")
    (row,) = read_manifest(path, Adjustments())
    assert (row.source, row.output, dict(row.changes)) == ("s3://b/a.mp4", "s3://b/out/a.mp4", changes)
    keyed = {"strength": 1.0, "adjust": Adjustments(strength_keys=((0.0, 0.2), (5.0, 1.0)))}
    path.write_text(format_row("a.mp4", "b.mp4", keyed) + "\n")
    assert dict(read_manifest(path, Adjustments())[0].changes) == keyed
    assert json.loads(path.read_text())["options"] == {"strength": "0.0:0.2,5.0:1.0"}
