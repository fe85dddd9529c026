"""axe-core finds nothing on the page: welcome, open, running and done, light and dark."""

import shutil
import subprocess
import tarfile

import pytest

from browser import new_page, open_browser
from clips import Clip, write_clip

AXE = "axe-core@4.11.0"
CHECK = """async () => (await axe.run()).violations.map(({id, nodes}) =>
  `${id}: ${nodes.map(({html, failureSummary}) => `${html.slice(0, 160)} ${failureSummary}`).join(" | ")}`)"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory) -> str:
    """The source of axe-core, from npm's registry."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("npm is not installed: it fetches axe-core")
    command = [npm, "pack", AXE, "--pack-destination", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if made.returncode:
        pytest.skip(f"{AXE} cannot be fetched: {made.stderr.strip()[-200:]}")
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as files:
        return files.extractfile("package/axe.min.js").read().decode()


@pytest.mark.more
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(clean, axe, tmp_path, scheme):
    clip = Clip(frames=400, width=320, height=192, still=True, options=(("preset", "ultrafast"),))
    source = write_clip(tmp_path / "in.mp4", clip)
    with open_browser() as browser, new_page(browser, clean.address, color_scheme=scheme) as page:
        page.evaluate(axe)
        assert page.evaluate(CHECK) == []
        page.set_input_files("#file", source)
        page.wait_for_selector("canvas.after[data-strength='1']")
        assert page.evaluate(CHECK) == []
        for part in ("presets", "histogram", "more"):
            page.click(f"#{part} summary")
        page.fill("#preset-name", "Evening")
        page.click("#preset-form button")
        page.click("#zoom >> text=2:1")
        assert page.evaluate(CHECK) == []
        page.click("#start")
        page.wait_for_selector("#cancel")
        assert page.evaluate(CHECK) == []
        page.wait_for_selector("#download")
        page.wait_for_selector("video.after")
        assert page.evaluate(CHECK) == []
