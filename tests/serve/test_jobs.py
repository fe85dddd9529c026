"""Jobs over HTTP, from the upload to the result, by a real server."""

import json
import os
import signal
import time

import cv2
import numpy as np
import pytest

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.adjust import Adjustments
from libranet.engine.image_files import dehaze_image
from libranet.network import load_model


def photo(path, width=96, height=64):
    rng = np.random.default_rng(0)
    small = rng.integers(40, 220, (8, 12, 3), np.uint8)
    cv2.imwrite(str(path), cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC))
    return path


def decoded(response):
    assert response.status_code == 200, response.text
    return cv2.imdecode(np.frombuffer(response.content, np.uint8), cv2.IMREAD_COLOR).astype(int)


def test_an_upload_goes_on_where_it_broke_off(clean, tmp_path):
    content = write_clip(tmp_path / "in.mp4", Clip(frames=12, audio=("aac",))).read_bytes()
    job = clean.client.post("/api/jobs", json={"name": "in.mp4", "size": len(content)}).json()
    place = f"/api/jobs/{job['id']}/content"
    half = len(content) // 2
    assert clean.client.patch(f"{place}?offset=0", content=content[:half]).json()["received"] == half
    refused = clean.client.patch(f"{place}?offset=0", content=content)
    assert (refused.status_code, str(half) in refused.json()["error"]) == (409, True)
    assert clean.client.get(f"/api/jobs/{job['id']}").json()["received"] == half
    clean.client.patch(f"{place}?offset={half}", content=content[half:])
    ready = clean.wait(job["id"])
    facts = {key: ready["media"][key] for key in ("kind", "width", "height", "frames", "rate", "sound")}
    assert facts == {"kind": "video", "width": 64, "height": 48, "frames": 12, "rate": 25.0, "sound": True}
    assert clean.client.get(f"/api/jobs/{job['id']}/source").content == content


def test_a_result_is_that_of_the_command_line(clean, tmp_path, tiny_checkpoint):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=8, audio=("aac",)))
    job = clean.run(clean.upload(source)["id"], strength=0.7, exposure="keep")
    assert job["state"] == "done"
    assert (job["report"]["frames"], job["result_name"]) == (8, "in-clear.mp4")
    options = DehazeOptions(strength=0.7, adjust=Adjustments(exposure="keep"))
    dehaze_video(source, tmp_path / "out.mp4", model=str(tiny_checkpoint), device="cpu", options=options)
    expected = (tmp_path / "out.mp4").read_bytes()
    address = f"/api/jobs/{job['id']}/result"
    whole = clean.client.get(address)
    assert whole.content == expected
    assert whole.headers["content-type"] == "video/mp4"
    part = clean.client.get(address, headers={"range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, expected[100:200])
    assert part.headers["content-range"] == f"bytes 100-199/{len(expected)}"
    saved = clean.client.get(f"{address}?download=true").headers["content-disposition"]
    assert saved == "attachment; filename*=UTF-8''in-clear.mp4"


def test_a_photo_keeps_its_format_and_metadata(clean, tmp_path, tiny_checkpoint):
    source = photo(tmp_path / "photo.png")
    job = clean.run(clean.upload(source, '../../Ünïcode "x".exe')["id"], view="split")
    dehaze_image(source, tmp_path / "out.png", load_model(tiny_checkpoint), options=DehazeOptions(compare="split"))
    assert clean.client.get(f"/api/jobs/{job['id']}/result").content == (tmp_path / "out.png").read_bytes()
    assert (job["name"], job["result_name"]) == ("Ünïcode x.exe", "Ünïcode x-split.png")


def test_previews_follow_the_settings(clean, tmp_path):
    id_ = clean.upload(write_clip(tmp_path / "in.mkv", Clip(frames=10, width=320, height=192)))["id"]
    frame = decoded(clean.client.get(f"/api/jobs/{id_}/frame"))
    address = f"/api/jobs/{id_}/preview"
    none = decoded(clean.client.get(f"{address}?strength=0"))
    full = decoded(clean.client.get(f"{address}?strength=1"))
    split = decoded(clean.client.get(f"{address}?view=split"))
    later = decoded(clean.client.get(f"/api/jobs/{id_}/frame?at=0.3"))
    assert np.array_equal(none, frame)
    assert np.abs(full - frame).mean() > 3
    assert np.abs(split - frame)[:, :100].mean() < 3 < np.abs(split - frame)[:, 200:].mean()
    assert np.abs(later - frame).mean() > 3
    assert clean.client.get(f"{address}?view=haze").status_code == 200
    assert clean.client.get(f"{address}?strength=9").status_code == 422


def test_events_tell_the_progress(clean, tmp_path):
    id_ = clean.upload(write_clip(tmp_path / "in.mp4", Clip(frames=100, width=320, height=192, still=True)))["id"]
    clean.client.post(f"/api/jobs/{id_}/start", json={})
    seen = []
    with clean.client.stream("GET", f"/api/jobs/{id_}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
                if seen[-1]["state"] in ("done", "failed"):
                    break
    assert seen[-1]["state"] == "done"
    progress = [status["progress"] for status in seen if status["progress"]]
    frames = [entry["frames"] for entry in progress]
    assert frames == sorted(frames)
    assert any(0 < entry["frames"] < 100 and entry["remaining_seconds"] > 0 for entry in progress)
    assert {entry["bound_by"] for entry in progress} <= {"decode", "network", "encode", "disk"}


def test_h264_for_everyone_and_names_that_say_the_view(clean, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="libx265", frames=6))
    id_ = clean.upload(source)["id"]
    job = clean.run(id_, view="haze", model="fast", codec="h264", container="mp4", playable=True)
    assert (job["state"], job["result_name"], job["report"]["copied"]) == ("done", "in-haze.mp4", True)
    assert job["report"]["codec"] == "h264"
    for side in ("before", "after"):
        copy = clean.client.get(f"/api/jobs/{id_}/result?copy={side}")
        assert (copy.status_code, copy.content[4:8]) == (200, b"ftyp")
    clean.run(id_)
    assert clean.client.get(f"/api/jobs/{id_}/result?copy=after").status_code == 404


def test_thumbnails_and_frames_at_full_size(clean, tmp_path):
    id_ = clean.upload(photo(tmp_path / "large.png", 1600, 900))["id"]
    sizes = {64: (36, 64), 1280: (720, 1280), 3840: (900, 1600)}
    for side, shape in sizes.items():
        assert decoded(clean.client.get(f"/api/jobs/{id_}/frame?side={side}")).shape[:2] == shape
    assert decoded(clean.client.get(f"/api/jobs/{id_}/preview?side=3840")).shape[:2] == (900, 1600)
    assert clean.client.get(f"/api/jobs/{id_}/frame?side=9999").status_code == 422


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_the_result_is_the_same(clean, children, tmp_path, tiny_checkpoint):
    fast = (("preset", "ultrafast"),)
    source = write_clip(tmp_path / "in.mp4", Clip(frames=200, width=160, height=96, still=True, options=fast))
    id_ = clean.upload(source)["id"]
    clean.client.post(f"/api/jobs/{id_}/start", json={})
    job = clean.wait(id_, ("running", "failed"))
    while (job["progress"] or {}).get("frames", 0) < 121:
        job = clean.client.get(f"/api/jobs/{id_}").json()
        assert job["state"] == "running", job["error"] or "over before it was killed"
        time.sleep(0.01)
    for pid in children()["worker"]:
        os.kill(pid, signal.SIGKILL)
    assert clean.wait(id_, ("done", "failed"))["state"] == "done"
    dehaze_video(source, tmp_path / "out.mp4", model=str(tiny_checkpoint), device="cpu")
    assert clean.client.get(f"/api/jobs/{id_}/result").content == (tmp_path / "out.mp4").read_bytes()


def test_a_cancelled_job_can_be_started_again(clean, tmp_path):
    id_ = clean.upload(write_clip(tmp_path / "in.mp4", Clip(frames=400, width=320, height=192, still=True)))["id"]
    clean.client.post(f"/api/jobs/{id_}/start", json={})
    clean.wait(id_, ("running",))
    assert clean.client.post(f"/api/jobs/{id_}/start", json={}).status_code == 409
    assert clean.client.post(f"/api/jobs/{id_}/cancel").json()["state"] == "cancelled"
    assert [name for name in clean.files() if "result" in name] == []
    assert clean.client.get(f"/api/jobs/{id_}/result").status_code == 409
    clean.client.post(f"/api/jobs/{id_}/start", json={"strength": 0.5})
    clean.wait(id_, ("running",))
    assert clean.client.delete(f"/api/jobs/{id_}").status_code == 204
    assert clean.client.get(f"/api/jobs/{id_}").status_code == 404
    assert clean.files() == []


def test_the_example_is_there(clean):
    created = clean.client.post("/api/jobs/example")
    assert created.status_code == 201
    assert clean.wait(created.json()["id"])["media"]["frames"] == 50


def test_a_camera_gets_its_frames_back(clean):
    image = cv2.resize(np.random.default_rng(0).integers(40, 220, (8, 12, 3), np.uint8), (160, 96))
    jpeg = cv2.imencode(".jpg", image)[1].tobytes()
    id_ = clean.client.post("/api/cameras").json()["id"]
    address = f"/api/cameras/{id_}/frames"
    first = clean.client.post(address, content=jpeg)
    assert decoded(first).shape == (96, 160, 3)
    assert float(first.headers["server-timing"].partition("dur=")[2]) > 0
    assert np.abs(decoded(first) - decoded(clean.client.post(f"{address}?strength=0", content=jpeg))).mean() > 2
    assert clean.client.post(address, content=b"no image").status_code == 422
    assert clean.client.delete(f"/api/cameras/{id_}").status_code == 204
    assert clean.client.post(address, content=jpeg).status_code == 404
