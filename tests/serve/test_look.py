"""How the page looks at a frame, and how it looks itself: zoom, histogram, presets, sizes, forced colours."""

import re

import cv2
import numpy as np
import pytest

from browser import new_page, open_browser, overflow, wait_until
from clips import Clip, write_clip

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


def open_clip(page, tmp_path, width: int = 1600, height: int = 900) -> None:
    clip = Clip(frames=10, width=width, height=height, still=True, options=(("preset", "ultrafast"),))
    page.set_input_files("#file", write_clip(tmp_path / "in.mp4", clip))
    page.wait_for_selector("canvas.after[data-strength='1']")


def test_one_pixel_of_the_picture_on_one_of_the_screen(clean, browser, tmp_path):
    with new_page(browser, clean.address) as page:
        open_clip(page, tmp_path)
        fitted = page.locator("#wipe").bounding_box()["width"]
        assert fitted < 1200
        page.click("#zoom >> text=1:1")
        assert page.locator("#wipe").bounding_box()["width"] == 1600
        wait_until(page, "document.querySelector('canvas.after').width === 1600")
        assert overflow(page) <= 0, "the view scrolls, not the page"
        view = page.locator("#view").bounding_box()
        line = page.locator("#wipe .divider").bounding_box()
        assert view["x"] < line["x"] < view["x"] + view["width"], "the divider is in sight"
        page.focus("#view")
        before = page.evaluate("document.getElementById('view').scrollLeft")
        page.keyboard.press("ArrowRight")
        wait_until(page, f"document.getElementById('view').scrollLeft > {before}", 10)
        page.click("#zoom >> text=2:1")
        assert page.locator("#wipe").bounding_box()["width"] == 3200
        page.keyboard.press("z")
        assert page.locator("#wipe").bounding_box()["width"] == fitted


def test_the_histogram_is_that_of_the_frames(clean, browser, tmp_path):
    with new_page(browser, clean.address) as page:
        open_clip(page, tmp_path, 640, 360)
        page.click("#histogram summary")
        wait_until(page, "document.getElementById('histogram-text').textContent")
        text = page.inner_text("#histogram-text")
        (job,) = clean.client.get("/api/jobs").json()
        for word, address in (("Before", "frame?at=0"), ("After", "preview?at=0")):
            answer = clean.client.get(f"/api/jobs/{job['id']}/{address}").content
            image = cv2.imdecode(np.frombuffer(answer, np.uint8), cv2.IMREAD_COLOR)
            blue, green, red = image.astype(float).mean((0, 1))
            mean = (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 2.55
            assert int(re.search(rf"{word}.*?(\d+) %", text)[1]) == pytest.approx(mean, abs=1)
        drawn = "[...document.getElementById('histogram-plot').getContext('2d').getImageData(0, 0, 512, 160).data]"
        colours = {tuple(pixel) for pixel in np.array(page.evaluate(drawn)).reshape(-1, 4) if pixel[3] == 255}
        assert any(green > red + 50 for red, green, _, _ in colours), "the curve after is in the accent's colour"


def test_presets_stay_after_a_reload(clean, browser, tmp_path):
    with new_page(browser, clean.address) as page:
        open_clip(page, tmp_path, 640, 360)
        page.fill("#strength", "0.6")
        page.select_option("#save", "split")
        page.click("#presets summary")
        page.fill("#preset-name", "Evening")
        page.keyboard.press("Enter")
        page.reload()
        page.wait_for_selector("canvas.after[data-strength='1']")
        page.click("#presets summary")
        page.click("#preset-list >> text=Evening")
        page.wait_for_selector("canvas.after[data-strength='0.6']")
        assert page.input_value("#save") == "split"
        page.click("#preset-list >> text=Standard")
        page.wait_for_selector("canvas.after[data-strength='1']")
        page.click("[aria-label='Delete the preset Evening']")
        page.click("text=Really delete?")
        assert page.locator("#preset-list li").count() == 1


@pytest.mark.parametrize("size", [(1280, 800), (400, 800)])
def test_everything_fits(clean, browser, tmp_path, size):
    with new_page(browser, clean.address) as page:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        assert page.locator("h1").count() == 1
        open_clip(page, tmp_path, 360, 640)
        assert overflow(page) <= 0
        wipe, stage = (page.locator(place).bounding_box() for place in ("#wipe", "#stage"))
        assert wipe["width"] == pytest.approx(wipe["height"] * 9 / 16, abs=2)
        assert wipe["width"] < stage["width"]
        black = "getComputedStyle(document.getElementById('stage')).backgroundColor"
        assert page.evaluate(black) == "rgba(0, 0, 0, 0)", "no slabs beside a portrait clip"
        if size[0] > 1000:
            button = page.locator("#start").bounding_box()
            assert button["y"] + button["height"] <= 800, "all settings and the button without scrolling"
        for part in ("presets", "histogram", "more"):
            page.click(f"#{part} summary")
        presets, form = (page.locator(place).bounding_box() for place in ("#preset-list", "#preset-form"))
        assert form["y"] - presets["y"] - presets["height"] > 5, "presets and the form below them stay apart"
        if size[0] > 1000:
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            page.locator("#color").scroll_into_view_if_needed()
            assert page.evaluate("scrollY") > 100
            assert page.locator("#wipe").bounding_box()["y"] >= 0, "the picture stays in view of the last control"


def test_the_limit_of_minutes_is_a_number_of_minutes(clean, browser):
    with new_page(browser, clean.address) as page:
        wait_until(page, "document.getElementById('accepts').textContent !== ''")
        assert page.inner_text("#accepts").endswith(" and 1 minute.")


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"forced_colors": "active"}], ids=["dark", "forced"])
def test_what_is_chosen_can_be_seen(clean, browser, tmp_path, options):
    with new_page(browser, clean.address, **options) as page:
        open_clip(page, tmp_path, 320, 192)
        colour = "(element) => getComputedStyle(element).backgroundColor"
        for chosen, other in (
            ("#tab-file", "#tab-camera"),
            ("#views label:has(:checked)", "#views label:has(:not(:checked))"),
            ("#zoom [aria-pressed=true]", "#zoom [aria-pressed=false] >> nth=0"),
        ):
            assert page.locator(chosen).evaluate(colour) != page.locator(other).first.evaluate(colour)
