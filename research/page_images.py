"""Make docs/images/page-light.webp and page-phone.webp again: the page with the example, as a visitor sees it.

PYTHONPATH=src:tests python research/page_images.py [-o docs/images]
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import cv2
import numpy as np

from browser import new_page, open_browser

SHOTS = {
    "page-light.webp": ((1280, 800), {"color_scheme": "light"}),
    "page-phone.webp": ((400, 860), {"color_scheme": "dark"}),
}


def main() -> None:
    """Serve the page with the package's weights and take both images."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    out = parser.parse_args().out
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "libranet", "serve", "--port", str(port), "--data", folder]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(os.environ))
        try:
            wait_for(address)
            with open_browser() as browser:
                for name, ((width, height), options) in SHOTS.items():
                    with new_page(browser, address, **options) as page:
                        page.set_viewport_size({"width": width, "height": height})
                        page.set_default_timeout(600_000)
                        page.click("#example")
                        page.wait_for_selector("canvas.after[data-strength='1']")
                        page.wait_for_selector("#busy", state="hidden")
                        page.wait_for_timeout(1500)  # the list and the estimate
                        image = cv2.imdecode(np.frombuffer(page.screenshot(), np.uint8), cv2.IMREAD_COLOR)
                        cv2.imwrite(str(out / name), image, [cv2.IMWRITE_WEBP_QUALITY, 85])
        finally:
            server.terminate()
            server.wait()


def wait_for(address: str) -> None:
    """Wait until the server answers."""
    for _ in range(3000):
        try:
            urllib.request.urlopen(f"{address}/health").close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"no server answers at {address}")


if __name__ == "__main__":
    main()
