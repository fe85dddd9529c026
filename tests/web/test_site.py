"""The static site in a real browser: the network within 2/255 of PyTorch, for photos and clips."""

import base64

import av
import cv2
import numpy as np
import pytest
import torch

from browser import UNNAMED, new_page, open_browser, overflow
from libranet.network import GridFilter, load_model, start_stream, stream_step
from libranet.page import example_path
from libranet.web.site import RATE

LIMIT = 2
"""Steps of 8 bits."""


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


def misty(width: int, height: int, count: int) -> list[np.ndarray]:  # uint8 [H, W, 3], RGB
    """Frames of the example, small."""
    with av.open(str(example_path())) as video:
        frames = [
            frame.to_ndarray(format="rgb24") for frame, _ in zip(video.decode(video=0), range(count), strict=False)
        ]
    return [cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA) for frame in frames]


def tensor(frame: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(frame).permute(2, 0, 1)[None].float() / 255


def levels(image: torch.Tensor) -> np.ndarray:
    return (image[0].permute(1, 2, 0) * 255).round().numpy().astype(int)


def choose_model(page, name: str) -> None:
    """Choose a network before the first preview."""
    page.evaluate("document.getElementById('controls').hidden = false")
    page.check(f"input[name=model][value={name}]", force=True)


def restored_photo(page, frame: np.ndarray, model: str) -> np.ndarray:
    """Let the page dehaze a photo, and download the result."""
    png = cv2.imencode(".png", frame[..., ::-1])[1].tobytes()
    choose_model(page, model)
    page.set_input_files("#file", {"name": "mist.png", "mimeType": "image/png", "buffer": png})
    page.wait_for_selector("canvas.after[data-strength='1']")
    page.click("#start")
    page.wait_for_selector("#download")
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == "mist-clear.png"
    return cv2.imread(str(download.value.path()))[..., ::-1].astype(int)


def test_a_photo_by_wasm(site, browser):
    (frame,) = misty(161, 97, 1)
    with new_page(browser, f"{site}?runtime=wasm") as page:
        assert "MB once" in page.inner_text("#promise")
        assert page.is_checked("input[name=model][value=small]")
        found = restored_photo(page, frame, "base")
        assert page.get_attribute("html", "data-runtime") == "wasm"
        assert page.evaluate(UNNAMED) == []
        tops = "[...document.querySelectorAll('#models label')].map((label) => label.offsetTop)"
        assert len(set(page.evaluate(tops))) == 1, "both qualities beside each other"
        page.set_viewport_size({"width": 400, "height": 800})
        assert overflow(page) <= 0
    with torch.no_grad():
        expected = levels(load_model()(tensor(frame)[:, None], still=True))
    assert np.abs(expected - frame).mean() > 5
    assert np.abs(found - expected).max() <= LIMIT


STREAM = """async ([frames, width, height]) => {
  const engine = await import("./engine.js");
  await engine.openCamera();
  const results = [];
  for (const text of frames) {
    const rgba = Uint8ClampedArray.from(atob(text), (c) => c.charCodeAt(0));
    const image = await createImageBitmap(new ImageData(rgba, width, height));
    const {image: found} = await engine.restore(image, {stream: "test"});
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(found, 0, 0);
    const data = context.getImageData(0, 0, width, height).data;
    results.push(btoa(Array.from(data, (c) => String.fromCharCode(c)).join("")));
  }
  return results;
}"""


def live_by_pytorch(network, frames: list[np.ndarray]) -> list[np.ndarray]:
    state = start_stream(network, lookahead=0, grid_filter=GridFilter(rate=RATE))
    results = []
    with torch.no_grad():
        for frame in frames:
            image, state = stream_step(network, tensor(frame), state)
            results.append(levels(image))
    return results


def restored_stream(page, frames: list[np.ndarray]) -> list[np.ndarray]:
    """Let the page restore frames one after the other."""
    height, width = frames[0].shape[:2]
    opaque = [np.dstack([frame, np.full((height, width), 255, np.uint8)]) for frame in frames]
    found = page.evaluate(STREAM, [[base64.b64encode(frame.tobytes()).decode() for frame in opaque], width, height])
    return [rgb(text, width, height) for text in found]


def rgb(text: str, width: int, height: int) -> np.ndarray:  # base64 of RGBA -> [H, W, 3]
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width, 4)[..., :3].astype(int)


def test_frames_of_a_stream_by_wasm(site, browser, tiny_checkpoint):
    frames = misty(120, 68, 6)
    with new_page(browser, f"{site}?runtime=wasm") as page:
        found = restored_stream(page, frames)
    for image, wanted in zip(found, live_by_pytorch(load_model(tiny_checkpoint), frames), strict=True):
        assert np.abs(image - wanted).max() <= LIMIT


RECORD = """() => {
  const text = (image) => {
    const [width, height] = [image.displayWidth ?? image.width, image.displayHeight ?? image.height];
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(image, 0, 0);
    const {data} = context.getImageData(0, 0, width, height);
    return btoa(Array.from(data, (c) => String.fromCharCode(c)).join(""));
  };
  window.recorded = [];
  const Original = Worker;
  window.Worker = class extends Original {
    postMessage(message, transfer) {
      if (message.operation === "restore" && message.values.stream) {
        window.recorded.push({id: message.id, given: text(message.values.image)});
      }
      super.postMessage(message, transfer);
    }
    set onmessage(handler) {
      super.onmessage = (event) => {
        const entry = window.recorded.find(({id}) => id === event.data.id);
        if (entry) entry.restored = text(event.data.answer.image);
        handler(event);
      };
    }
  };
}"""
"""Keeps what the page gives to the network and gets from it while it writes a clip."""
ON_DISK = """async () => {
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("results");
  const sizes = [];
  for await (const handle of folder.values()) sizes.push((await handle.getFile()).size);
  return sizes;
}"""


@pytest.mark.more
def test_a_codec_that_this_browser_lacks_is_named(site, browser, tmp_path):
    with av.open(str(tmp_path / "in.mp4"), "w") as container:
        stream = container.add_stream("libx265", rate=25, options={"x265-params": "log-level=none", "tag": "hvc1"})
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        for frame in misty(160, 96, 2):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    with new_page(browser, f"{site}?runtime=wasm") as page:
        if "does not decode HEVC (H.265)" not in page.inner_text("#accepts"):
            assert "HEVC (H.265)" in page.inner_text("#accepts")
            pytest.skip("this browser decodes HEVC")
        page.set_input_files("#file", tmp_path / "in.mp4")
        page.wait_for_selector("#alert:not([hidden])")
        assert "cannot decode HEVC (H.265)" in page.inner_text("#alert")


@pytest.mark.slow
def test_a_clip_by_wasm(site, browser, tmp_path):
    frames = misty(240, 136, 4)
    with av.open(str(tmp_path / "in.webm"), "w") as container:
        stream = container.add_stream("libvpx-vp9", rate=25, options={"lossless": "1"})
        stream.width, stream.height, stream.pix_fmt = 240, 136, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    with new_page(browser, f"{site}?runtime=wasm") as page:
        page.evaluate(RECORD)
        choose_model(page, "base")
        page.set_input_files("#file", tmp_path / "in.webm")
        page.wait_for_selector("canvas.after[data-strength='1']")
        page.click("#start")
        page.wait_for_selector("#download")
        page.wait_for_selector("video.after")
        with page.expect_download() as download:
            page.click("#download")
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        recorded = page.evaluate("window.recorded")
        assert page.evaluate(ON_DISK) == [path.stat().st_size], "the result is a file in the browser's own storage"
    with av.open(str(path)) as container:
        found = [frame.to_ndarray(format="rgb24").astype(int) for frame in container.decode(video=0)]
    given = [rgb(entry["given"], 240, 136) for entry in recorded]
    expected = live_by_pytorch(load_model(), [image.astype(np.uint8) for image in given])
    assert len(found) == len(recorded) == 4
    for image, entry, wanted, before, frame in zip(found, recorded, expected, given, frames, strict=True):
        # The codec and a conversion of colour lie between the file and what the network gets and gives.
        assert np.abs(before - frame).mean() < 4
        assert np.abs(rgb(entry["restored"], 240, 136) - wanted).max() <= LIMIT
        assert np.abs(image - wanted).mean() < 8 < np.abs(wanted - before).mean()
        assert np.abs((image - wanted).mean((0, 1))).max() < 3, "colours are tagged as they are encoded"
