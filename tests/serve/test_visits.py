"""What visitors of the page do beside the straight way: drop anywhere, reload, lose the server, change their mind."""

import base64
import re

import pytest

from browser import DROP, new_page, open_browser, wait_until
from clips import Clip, write_clip

FAST = (("preset", "ultrafast"),)
RESTORED = "canvas.after[data-strength='1']"


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("clip") / "in.mp4"
    return write_clip(path, Clip(frames=10, width=160, height=96, options=FAST))


def set_strength(page, value: float) -> None:
    page.evaluate(f"document.getElementById('strength').value = {value}")
    page.dispatch_event("#strength", "input")


def test_a_drop_anywhere_and_a_reload(clean, browser, clip):
    content = base64.b64encode(clip.read_bytes()).decode()
    with new_page(browser, clean.address) as page:
        page.click("#tab-camera")
        kept = page.evaluate(DROP, ["footer", ["in.mp4", "other.mp4"], content])
        assert kept[1:] == [False, False]  # else the browser would leave the page for the file
        page.wait_for_selector(RESTORED)
        assert page.get_attribute("#tab-file", "aria-selected") == "true"
        wait_until(page, "document.querySelectorAll('#jobs img').length === 2")
        assert sorted(job["name"] for job in clean.client.get("/api/jobs").json()) == ["in.mp4", "other.mp4"]
        assert page.is_hidden("#alert")  # both are taken: nothing to complain about
        id_ = page.evaluate("location.hash")[1:]
        page.reload()
        page.wait_for_selector(RESTORED)
        assert page.inner_text("#facts").startswith("in.mp4")
        assert clean.client.delete(f"/api/jobs/{id_}").status_code == 204
        page.reload()
        page.wait_for_selector("#alert")
        assert "no such job" in page.inner_text("#alert")
        assert page.evaluate("location.hash") == ""


def test_an_upload_goes_on_after_a_reload(clean, browser, tmp_path):
    path = tmp_path / "noise.bin"
    path.write_bytes(bytes(range(256)) * (10 << 10))  # 2.5 MiB; pieces have 1 MiB
    offsets = []
    with new_page(browser, clean.address) as page:
        page.route(re.compile("offset=1048576"), lambda route: route.abort())
        page.set_input_files("#file", path)
        wait_until(page, "document.getElementById('busy-text').textContent.includes('does not answer')")
        page.reload()
        page.wait_for_selector("#jobs li")
        assert "40 % sent" in page.inner_text("#jobs")
        page.unroute_all()
        page.on("request", lambda request: offsets.extend(re.findall(r"offset=(\d+)", request.url)))
        page.set_input_files("#file", path)
        page.wait_for_selector("#alert")
        assert "neither an image nor a video" in page.inner_text("#alert")
    assert offsets == ["1048576", "2097152"]


def test_a_stopped_upload(clean, browser, tmp_path):
    (tmp_path / "x.bin").write_bytes(b"0" * 3_000_000)
    with new_page(browser, clean.address) as page:
        page.route(re.compile("offset=0"), lambda route: None)
        page.set_input_files("#file", tmp_path / "x.bin")
        page.click("#stop")
        assert page.is_enabled("#choose")
        assert page.is_hidden("#busy")
        page.unroute_all()


def test_a_server_that_goes_away_and_comes_back(clean, browser, clip):
    clean.upload(clip)
    with new_page(browser, clean.address) as page:
        page.click("#jobs button:has-text('Open')")
        page.wait_for_selector(RESTORED)
        page.route("**/api/**", lambda route: route.abort())
        set_strength(page, 0.5)
        page.wait_for_selector("#away")
        assert "goes on when it is back" in page.inner_text("#away")
        page.unroute_all()
        page.wait_for_selector("canvas.after[data-strength='0.5']")
        assert page.is_hidden("#away")


def test_a_result_is_there_again_with_its_settings(clean, browser, clip):
    clean.run(clean.upload(clip)["id"])
    with new_page(browser, clean.address) as page:
        page.click("#jobs button:has-text('Open')")
        page.wait_for_selector("video.after")
        set_strength(page, 0.5)
        page.wait_for_selector("canvas.after[data-strength='0.5']")
        assert page.inner_text("#start") == "Dehaze video again"
        assert page.inner_text("#download") == "Download the last result"
        set_strength(page, 1)
        page.wait_for_selector("video.after")
        assert page.is_hidden("#start")
        assert page.inner_text("#download") == "Download"
        page.select_option("#save", "split")
        page.click("#start")
        page.wait_for_selector("#wipe.whole video.after")
        assert page.is_hidden("#wipe .divider")  # the frame has its own


def test_deleting_asks_first(clean, browser, clip):
    clean.upload(clip)
    with new_page(browser, clean.address) as page:
        bin_ = page.locator("#jobs button[aria-label*='Delete']")
        bin_.click()
        assert bin_.inner_text() == "Really delete?"
        page.focus("#choose")
        assert bin_.inner_text() == "Delete"
        assert len(clean.client.get("/api/jobs").json()) == 1
        bin_.click()
        bin_.click()
        page.wait_for_selector("#history", state="hidden")
        assert clean.client.get("/api/jobs").json() == []


@pytest.mark.slow
def test_a_job_deleted_elsewhere_while_it_runs(clean, browser, tmp_path):
    long = write_clip(tmp_path / "long.mp4", Clip(frames=400, width=320, height=192, still=True, options=FAST))
    id_ = clean.upload(long)["id"]
    clean.client.post(f"/api/jobs/{id_}/start", json={})
    with new_page(browser, f"{clean.address}/#{id_}") as page:
        page.wait_for_selector("#running")
        clean.client.delete(f"/api/jobs/{id_}")
        page.wait_for_selector("#alert")
        assert page.inner_text("#alert") == "The file was deleted."
        assert page.is_visible("#choose")
