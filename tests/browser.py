"""Debian's Chromium through Playwright, for the tests of the page."""

import functools
import http.server
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ARGUMENTS = (
    "--no-sandbox",  # the tests may run as root
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
)
SOFTWARE_GPU = (
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
    "--use-vulkan=native",
    "--use-angle=vulkan",
    "--ignore-gpu-blocklist",
    "--disable-vulkan-surface",
)
"""WebGPU by the processor. Together with `SOFTWARE_VULKAN` its images can be drawn to canvases, too."""
SOFTWARE_VULKAN = "vk_swiftshader_icd.json"


@contextmanager
def open_browser(*arguments: str) -> Iterator:
    """Start the browser, or skip the test where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium here: `make chromium` installs Debian's")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        environment = dict(os.environ)
        for folder in ("/usr/lib/chromium", "/usr/lib/chromium-browser"):
            if SOFTWARE_GPU[0] in arguments and (Path(folder) / SOFTWARE_VULKAN).is_file():
                environment["VK_ICD_FILENAMES"] = f"{folder}/{SOFTWARE_VULKAN}"
        browser = driver.chromium.launch(executable_path=program, args=[*ARGUMENTS, *arguments], env=environment)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def new_page(browser, address: str, **options) -> Iterator:
    """Open the page in a window of its own. Its errors, and requests to other hosts, fail the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
    page = context.new_page()
    page.set_default_timeout(180_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if "Content Security" in message.text else None)
    page.on("request", lambda request: None if _own(request.url, address) else problems.append(request.url))
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    try:
        yield page
    finally:
        context.close()
    assert problems == []


def _own(url: str, address: str) -> bool:
    return url.startswith((re.split(r"[?#]", address)[0].rstrip("/"), "blob:", "data:"))


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve files on a loopback port. Yields the address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def wait_until(page, expression: str, seconds: float = 180.0) -> None:
    """Wait until an expression is true. Playwright's own way needs `unsafe-eval`, which the page forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(30)


def overflow(page) -> int:
    """By how many pixels the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


UNNAMED = """() => [...document.querySelectorAll("button, input, a, video, canvas")].filter((element) => {
  const shown = element.checkVisibility();
  const labels = [...(element.labels || [])].map((label) => label.textContent.trim()).join("");
  return shown && !(element.getAttribute("aria-label") || labels || element.textContent.trim() || element.title);
}).map((element) => element.outerHTML)"""
"""Controls that a screen reader has no name for."""

DROP = """([place, names, content]) => {
  const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
  const data = new DataTransfer();
  for (const name of names) data.items.add(new File([bytes], name, {type: "application/octet-stream"}));
  const target = document.querySelector(place);
  const events = ["dragenter", "dragover", "drop"].map((kind) =>
    new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
  return events.map((event) => target.dispatchEvent(event));
}"""
"""Drops files with these names and one content on an element. Returns what the page said to each event."""
