"""Object stores, against moto's S3 server on loopback."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from clips import Clip, write_clip
from libranet.cli.main import build_app
from libranet.cluster import storage
from libranet.engine import OutputError
from libranet.errors import MissingDependencyError


@pytest.fixture(scope="module")
def server():
    moto = pytest.importorskip("moto.server")
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    yield "http://{}:{}".format(*running.get_host_and_port())
    running.stop()


@pytest.fixture
def bucket(server, monkeypatch, tmp_path):
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(storage.tempfile, "gettempdir", lambda: str(tmp_path / "scratch"))
    s3fs = pytest.importorskip("s3fs")
    s3fs.S3FileSystem.clear_instance_cache()
    storage._store.cache_clear()
    store = s3fs.S3FileSystem()
    name = f"bucket-{abs(hash(str(tmp_path))) % 10**9}"
    store.mkdir(name)
    yield store, name
    s3fs.S3FileSystem.clear_instance_cache()
    storage._store.cache_clear()


def dehaze(*words: object) -> tuple[int, dict]:
    result = CliRunner().invoke(build_app(), ["dehaze", *map(str, words), "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_bucket_becomes_another_with_the_bits_of_local_files(bucket, tmp_path, tiny_checkpoint):
    store, name = bucket
    torch.manual_seed(0)
    local = tmp_path / "in"
    local.mkdir()
    for number, where in enumerate(("a.mp4", "day/b.mp4")):
        path = write_clip(local / Path(where).name, Clip(frames=4 + number))
        store.put_file(str(path), f"{name}/in/{where}")
    store.pipe_file(f"{name}/in/notes.txt", b"no video")
    model = ("--model", tiny_checkpoint)
    dehaze(local, "-o", tmp_path / "plain", *model)
    code, found = dehaze(f"s3://{name}/in", "-o", f"s3://{name}/out", *model)
    assert code == 0
    assert [result["output"] for result in found["results"]] == [f"s3://{name}/out/{p}" for p in ("a.mp4", "day/b.mp4")]
    for where in ("a.mp4", "day/b.mp4"):
        assert store.cat_file(f"{name}/out/{where}") == (tmp_path / "plain" / Path(where).name).read_bytes()
    assert list((tmp_path / "scratch").rglob("*.mp4")) == []

    code, found = dehaze(f"s3://{name}/in/*.mp4", "-o", f"s3://{name}/out", *model)
    assert code == 2
    assert "exists: add --overwrite" in found["results"][0]["error"]
    code, found = dehaze(f"s3://{name}/in", "-o", f"s3://{name}/out", *model, "--skip-finished")
    assert (code, [result["skipped"] for result in found["results"]]) == (0, [True, True])
    assert dehaze(f"s3://{name}/in/a.mp4", "-o", tmp_path / "one.mp4", *model)[0] == 0
    assert (tmp_path / "one.mp4").read_bytes() == (tmp_path / "plain" / "a.mp4").read_bytes()


def test_what_is_missing_or_forbidden_is_one_sentence(bucket, tmp_path, tiny_checkpoint):
    store, name = bucket
    code, found = dehaze(f"s3://{name}/none.mp4", "-o", tmp_path / "x.mp4", "--model", tiny_checkpoint)
    assert code == 2
    assert f"there is no file s3://{name}/none.mp4" in found["results"][0]["error"]
    store.pipe_file(f"{name}/broken.mp4", b"no video at all")
    code, found = dehaze(f"s3://{name}/broken.mp4", "-o", f"s3://{name}/x.mp4", "--model", tiny_checkpoint)
    assert code == 2
    assert found["results"][0]["error"].startswith(f"s3://{name}/broken.mp4 is not a video")
    assert [path for path in (tmp_path / "scratch").rglob("*") if path.suffix == ".mp4"] == []  # no copy of it is kept
    with pytest.raises(OutputError, match="cannot write s3://no-such-bucket"):
        storage.upload(write_clip(tmp_path / "a.mp4", Clip(frames=2)), "s3://no-such-bucket-here/a.mp4")


def test_a_store_without_its_package_names_it(monkeypatch):
    storage._store.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(MissingDependencyError, match="gcsfs"):
        storage.fingerprint("gs://bucket/clip.mp4")


def test_names():
    assert storage.is_remote("s3://bucket/clip.mp4")
    assert not storage.is_remote("rtsp://camera/1")
    assert storage.local_name("file:///tmp/a%20b.mp4") == "/tmp/a b.mp4"
