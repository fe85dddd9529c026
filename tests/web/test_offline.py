"""The site under a sub-path of any static host, and without a network after the first visit."""

import functools
import http.server
import threading

import pytest

from browser import open_browser, overflow, wait_until

pytestmark = pytest.mark.more


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_a_sub_path_works_and_goes_on_when_its_host_is_gone(site_folder, tmp_path):
    host = tmp_path / "host"
    (host / "people" / "fog").mkdir(parents=True)
    (host / "people" / "fog" / "site").symlink_to(site_folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(host)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/people/fog/site/?runtime=wasm"
    with open_browser() as browser:
        page = browser.new_context(viewport={"width": 1200, "height": 900}).new_page()
        page.set_default_timeout(120_000)
        failed: list[str] = []
        page.on("requestfailed", lambda request: failed.append(request.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        wait_until(page, "navigator.serviceWorker.controller !== null")
        assert page.get_attribute("link[rel=manifest]", "href") == "app.webmanifest"
        page.reload()  # from here on the service worker answers, also for the network and its runtime
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate("crossOriginIsolated"), "WebAssembly has several threads on a host without special headers"
        page.click("#example")
        page.wait_for_selector("canvas.after[data-strength='1']")
        server.shutdown()
        server.server_close()
        page.reload()
        page.wait_for_selector("html[data-ready]")
        page.click("#example")
        page.wait_for_selector("canvas.after[data-strength='1']")
        assert overflow(page) <= 0
        assert page.is_checked("input[name=size][value='0']"), "nothing is reduced unless it is asked for"
        assert failed == []
