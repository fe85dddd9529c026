"""The look of reports in a real browser: sorting, the divider, dark mode, phone width."""

import base64

import cv2
import numpy as np
import pytest

from browser import UNNAMED, open_browser, overflow
from libranet.page import make_page


def shade(level: int) -> str:
    image = cv2.imencode(".png", np.full((60, 80, 3), level, np.uint8))[1].tobytes()
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    rows = "".join(
        f"<tr><td>{name}</td><td>{value}</td><td class=text>{text}</td></tr>"
        for name, value, text in (("a", "9.50", "x"), ("b", "10.25 <small>± 1</small>", "z"), ("c", "–", "y"))
    )
    wide = "".join(f"<th>metric {index}</th>" for index in range(14))
    images = "".join(f'<figure><img alt="{name}" src="{shade(level)}"></figure>' for name, level in SHADES.items())
    body = (
        f"<h1>Report</h1><table id=t><tr><th>name</th><th>value</th><th class=text>text</th></tr>{rows}</table>"
        f'<div class="wide"><table><tr>{wide}</tr></table></div>'
        f'<div class="strip" data-wipe="ours" style="grid-template-columns: repeat(3, minmax(0, 480px))">{images}</div>'
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(make_page("Report <1>", body))
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme="dark")
        page.goto(path.as_uri())
        yield page


SHADES = {"hazy": 200, "dcp": 120, "ours": 40}


def column(page, number: int) -> list[str]:
    return [cell.partition("±")[0].strip() for cell in page.locator(f"#t td:nth-child({number})").all_inner_texts()]


def test_tables_sort(report):
    report.click("#t th:nth-child(2) button")
    assert column(report, 2) == ["10.25", "9.50", "–"]
    assert report.get_attribute("#t th:nth-child(2)", "aria-sort") == "descending"
    report.focus("#t th:nth-child(2) button")
    report.keyboard.press("Enter")
    assert column(report, 2) == ["9.50", "10.25", "–"]
    report.click("#t th:nth-child(3) button")
    assert column(report, 3) == ["z", "y", "x"]


def test_two_images_under_a_divider(report):
    assert report.locator(".compare .layer.before").get_attribute("alt") == "hazy"
    assert report.locator(".compare .layer.after").get_attribute("alt") == "ours"
    report.select_option("select[aria-label^='Left']", label="dcp")
    assert report.locator(".compare .layer.before").get_attribute("alt") == "dcp"
    report.focus(".compare input")
    report.keyboard.press("Home")
    assert report.evaluate("document.querySelector('.compare').style.getPropertyValue('--at')") == "0%"


def test_dark_and_narrow(report):
    assert report.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 22)"
    assert overflow(report) <= 0
    assert report.evaluate(UNNAMED) == []
    assert report.title() == "Report <1>"
