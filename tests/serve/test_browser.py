"""The page with a server behind it, in a real browser."""

import base64

import pytest

from browser import DROP, UNNAMED, new_page, open_browser, overflow, wait_until
from clips import Clip, write_clip
from libranet.engine import DehazeOptions, dehaze_video

AFTER = "() => [...document.querySelector('canvas.after').getContext('2d').getImageData(60, 60, 8, 8).data]"
FAST = (("preset", "ultrafast"),)


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


def mean_difference(a: list[int], b: list[int]) -> float:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)


def test_drop_compare_start_play_download(clean, browser, tmp_path, tiny_checkpoint):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=120, width=320, height=192, still=True, options=FAST))
    with new_page(browser, clean.address) as page:
        page.evaluate(DROP, ["#stage", ["in.mp4"], base64.b64encode(source.read_bytes()).decode()])
        page.wait_for_selector("canvas.after[data-strength='1']")
        assert page.inner_text("#facts") == "in.mp4 · 320×192 · 0:05 · 25 fps · H.264"
        assert page.evaluate(UNNAMED) == []

        # The divider: by mouse and by keyboard.
        box = page.locator("#wipe").bounding_box()
        page.mouse.click(box["x"] + 0.25 * box["width"], box["y"] + 40)
        assert page.evaluate("document.getElementById('wipe').style.getPropertyValue('--at')") == "25%"
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.getElementById('wipe').style.getPropertyValue('--at')") == "25.5%"

        # The strength: at once about right, then exactly.
        full = page.evaluate(AFTER)
        page.evaluate("document.getElementById('strength').value = 0.5")
        page.dispatch_event("#strength", "input")
        assert page.get_attribute("canvas.after", "data-strength") == "about 0.5"
        about = page.evaluate(AFTER)
        page.wait_for_selector("canvas.after[data-strength='0.5']")
        exact = page.evaluate(AFTER)
        assert mean_difference(full, exact) > 2
        assert mean_difference(about, exact) < mean_difference(full, exact)  # it differs where samples are clamped

        page.click("#views >> text=Haze")
        page.wait_for_selector("canvas.after[data-view='haze']")
        page.click("#views >> text=Clear")
        page.wait_for_selector("canvas.after[data-view='result']")

        assert page.inner_text("#start") == "Dehaze video"
        wait_until(page, "/^Takes about \\d+ (s|min)\\.$/.test(document.getElementById('estimate').textContent)")
        page.click("#start")
        page.wait_for_selector("#running")
        wait_until(page, "document.getElementById('fps').textContent.includes('fps')")
        page.wait_for_selector("#download")
        page.wait_for_selector("video.after")
        wait_until(page, "document.querySelector('video.after').currentTime > 0.5")
        drift = page.evaluate(
            "document.querySelector('video.before').currentTime - document.querySelector('video.after').currentTime"
        )
        assert abs(drift) < 0.3
        page.keyboard.press("Escape")
        page.click("#play")
        assert page.evaluate("document.querySelector('video.after').paused")
        with page.expect_download() as download:
            page.click("#download")
        options = DehazeOptions(strength=0.5)
        dehaze_video(source, tmp_path / "out.mp4", model=str(tiny_checkpoint), device="cpu", options=options)
        assert download.value.suggested_filename == "in-clear.mp4"
        download.value.save_as(tmp_path / "got.mp4")
        assert (tmp_path / "got.mp4").read_bytes() == (tmp_path / "out.mp4").read_bytes()

    # After a reload the file is still there, with its result.
    with new_page(browser, clean.address) as page:
        page.click("text=Open")
        page.wait_for_selector("#download")
        assert page.input_value("#strength") == "0.5"


def test_show_is_not_what_is_saved_and_hevc_plays(clean, browser, tmp_path):
    clip = Clip(codec="libx265", frames=10, width=160, height=96)
    with new_page(browser, clean.address) as page:
        page.set_viewport_size({"width": 1280, "height": 800})
        assert "MP4" in page.inner_text("#accepts")
        assert page.evaluate("document.querySelectorAll('h1').length") == 1
        page.set_input_files("#file", write_clip(tmp_path / "in.mp4", clip))
        page.wait_for_selector("canvas.after[data-strength='1']")
        fold = page.evaluate("document.getElementById('start').getBoundingClientRect().bottom")
        assert fold <= 800, "the settings and the button are above the fold"
        page.click("#models >> text=Fast")
        page.select_option("#save", "removed")
        page.click("#start")
        page.wait_for_selector("#download")
        page.wait_for_selector("video.after")
        wait_until(page, "document.querySelector('video.after').currentTime > 0")
        assert "copy=after" in page.get_attribute("video.after", "src")
        assert page.get_attribute("#download", "download") == "in-removed.mp4"
        (job,) = clean.client.get("/api/jobs").json()
        assert (job["settings"]["model"], job["settings"]["view"]) == ("fast", "removed")


def test_several_files_one_queue_stop_and_delete_all(clean, browser, tmp_path):
    clips = [
        write_clip(tmp_path / f"{name}.mp4", Clip(frames=frames, width=320, height=192, still=True, options=FAST))
        for name, frames in (("a", 900), ("b", 10), ("c", 10))
    ]
    with new_page(browser, clean.address) as page:
        page.set_input_files("#file", clips)
        page.wait_for_selector("text=Dehaze all 3")
        wait_until(
            page, "[...document.querySelectorAll('#jobs img')].filter((image) => image.naturalWidth).length === 3"
        )
        page.click("#start")
        page.wait_for_selector("#cancel")
        page.click("#cancel")
        page.click("#cancel")
        page.wait_for_timeout(50)  # the text stays over the next frame
        gone = "document.getElementById('running').hidden"
        assert page.evaluate(f"{gone} || document.getElementById('cancel').textContent === 'Stopping…'")
        page.wait_for_selector("#start")
        assert page.evaluate("document.activeElement.id") == "start"
        page.click("text=Dehaze all 2")
        wait_until(page, "document.querySelectorAll('#jobs .badge.good').length === 2")
        page.click("#delete-all")
        page.click("#delete-all")
        wait_until(page, "document.getElementById('history').hidden")
        assert clean.client.get("/api/jobs").json() == []


def focus(page, target: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == target:
            return
    raise AssertionError(f"{target} cannot be reached by Tab")


def test_keyboard_alone_on_a_phone(clean, browser, tmp_path):
    clip = write_clip(tmp_path / "in.mp4", Clip(frames=10, width=160, height=96, options=FAST))
    clean.upload(clip, "a file with quite a long name that has to fit.mp4")
    with new_page(browser, clean.address, color_scheme="dark") as page:
        page.set_viewport_size({"width": 400, "height": 800})
        assert overflow(page) <= 0
        focus(page, "example")
        page.keyboard.press("Shift+Tab")
        assert page.evaluate("document.activeElement.id") == "choose"
        page.locator("#jobs button").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("canvas.after[data-strength='1']")
        assert overflow(page) <= 0
        page.evaluate("document.activeElement.blur()")
        focus(page, "strength")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector("canvas.after[data-strength='0.95']")
        focus(page, "start")
        page.keyboard.press("Enter")
        page.wait_for_selector("#download")
        assert overflow(page) <= 0
        assert page.evaluate(UNNAMED) == []
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(15, 20, 22)"


def test_a_bad_file_is_a_sentence(clean, browser):
    with new_page(browser, clean.address) as page:
        page.set_input_files("#file", {"name": "x.mp4", "mimeType": "video/mp4", "buffer": b"nothing" * 40})
        page.wait_for_selector("#alert")
        assert page.inner_text("#alert") == "This is neither an image nor a video that FFmpeg can decode."


def test_the_camera_is_live(clean, browser):
    with new_page(browser, clean.address, permissions=["camera"]) as page:
        page.click("#tab-camera")
        page.click("#camera-start")
        wait_until(page, "/^\\d+ ms$/.test(document.getElementById('latency').textContent)")
        assert page.evaluate("document.querySelector('#camera-wipe canvas.after').width") >= 320
        page.click("#camera-stop")
        page.wait_for_selector("#camera-start")
