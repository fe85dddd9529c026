"""The page's own kernels on Chromium's software GPU: each step is PyTorch's, and images are within 2 of 255."""

import base64
import json

import av
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from browser import SOFTWARE_GPU, new_page, open_browser
from libranet.kernels.resample.reference import pad_to_multiple
from libranet.network import GridFilter, LiBrANet, load_model, start_stream, stream_step
from libranet.web.gpu_weights import gpu_runs, write_gpu_weights
from libranet.web.site import RATE
from tiny_network import TINY, make_config, perturb

pytestmark = pytest.mark.more
LIMIT = 2
"""Steps of 8 bits."""


@pytest.fixture(scope="module")
def browser():
    with open_browser(*SOFTWARE_GPU) as opened:
        yield opened


@pytest.fixture
def page(browser, site):
    """A page that may compute by WebGPU."""
    with new_page(browser, f"{site}?runtime=webgpu") as opened:
        opened.set_default_timeout(600_000)
        if not opened.evaluate("navigator.gpu && navigator.gpu.requestAdapter().then((adapter) => Boolean(adapter))"):
            pytest.skip("this Chromium has no adapter for WebGPU")
        yield opened


RUN = """async ([weights, config, ways, strength]) => {
  const {GpuNetwork, openGpuNetwork} = await import("./gpu-network.js");
  const file = Uint8Array.from(atob(weights), (c) => c.charCodeAt(0));
  const network = await openGpuNetwork(file.buffer, config, ways);
  const [count, height, width] = network.tensors["check.frames"].shape, frames = network.tensors["check.frames"].data;
  const text = (bytes) => btoa(Array.from(new Uint8Array(bytes), (c) => String.fromCharCode(c)).join(""));
  const images = [];
  for (let n = 0; n < count; n++) {
    const rgba = new Uint8ClampedArray(4 * width * height).fill(255);
    for (let i = 0; i < 3 * width * height; i++) {
      rgba[4 * Math.floor(i / 3) + i % 3] = frames[n * 3 * width * height + i];
    }
    const given = await createImageBitmap(new ImageData(rgba, width, height));
    const context = new OffscreenCanvas(width, height).getContext("2d", {willReadFrequently: true});
    context.drawImage(await network.restore(given, {stream: "test", strength}), 0, 0);
    images.push(text(context.getImageData(0, 0, width, height).data.buffer));
  }
  const {device} = network, steps = {};
  for (const [name, {buffer, planes, width, height}] of Object.entries(network.plans.get("test").inspected)) {
    const size = 16 * planes * width * height;
    const copy = device.createBuffer({size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ});
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, copy, 0, size);
    device.queue.submit([encoder.finish()]);
    await copy.mapAsync(GPUMapMode.READ);
    steps[name] = {shape: [planes, height, width, 4], data: text(copy.getMappedRange())};
  }
  return {images, steps, shared: network.config.shared};
}"""


def run(page, network: LiBrANet, tmp_path, *, shared: bool, strength: float = 1.0):
    """Restore the check's frames as one stream. Returns frames, images and the last frame's steps."""
    path = tmp_path / "network.safetensors"
    config = write_gpu_weights(network, path, GridFilter(rate=RATE))
    weights = base64.b64encode(path.read_bytes()).decode()
    found = page.evaluate(RUN, [weights, config, [shared], strength])
    assert found["shared"] is shared
    stored = load_file(path)
    frames = stored["check.frames"].permute(0, 3, 1, 2).float() / 255  # [T, 3, H, W]
    _, _, height, width = frames.shape
    images = [np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width, 4) for text in found["images"]]
    steps = {
        name: torch.frombuffer(bytearray(base64.b64decode(step["data"])), dtype=torch.float32)
        .reshape(step["shape"])
        .permute(0, 3, 1, 2)
        .flatten(0, 1)
        for name, step in found["steps"].items()
    }  # [channels, h, w]
    return frames, [image[..., :3].astype(int) for image in images], steps


def rounded(network: LiBrANet) -> LiBrANet:
    """The network with the weights that the file stores."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter.half().float())
    return network.eval()


def tiny(**settings) -> LiBrANet:
    torch.manual_seed(0)
    return rounded(perturb(LiBrANet(make_config(TINY, **settings))))


@pytest.mark.parametrize("shared", [True, False], ids=["canvas", "read back"])
def test_steps_and_images_are_pytorchs(page, tmp_path, shared):
    network = tiny(encoder_widths=(8, 16, 24, 32), attention_heads=4)  # groups of one to four channels
    frames, images, steps = run(page, network, tmp_path, shared=shared)
    state = start_stream(network, lookahead=0, grid_filter=GridFilter(rate=RATE))
    with torch.no_grad():
        for frame, found in zip(frames, images, strict=True):
            image, state = stream_step(network, frame[None], state)
            assert np.abs(found - (image[0].permute(1, 2, 0) * 255).round().numpy()).max() <= LIMIT
        last = frames[-1:]
        assert torch.allclose(steps["small"][:3], network.encoder_input(last)[0], atol=1e-5)
        window = torch.cat([frames, last, last])[None]  # a stream without look-ahead repeats its newest frame
        grids = network.predict_grids(window, centre_only=True)
        chromatic = network.predict_chromatic(network.encoder_input(last))[0].permute(0, 2, 1, 3, 4).flatten(0, 2)
        assert torch.allclose(steps["grids"], torch.cat([chromatic, grids.plane[0]]), atol=1e-4)
        low = steps["corrected"][:3][None]
        expected = network.refiner(pad_to_multiple(last, 4), low)
        assert torch.allclose(steps["residual"], F.pixel_unshuffle(expected, 4)[0], atol=1e-4)
    assert (steps["filtered"] - steps["grids"]).abs().max() > 1e-5, "the filter over time does something"


def test_the_strength_is_the_networks_own(page, tmp_path):
    network = tiny()
    frames, images, _ = run(page, network, tmp_path, shared=True, strength=0.5)
    with torch.no_grad():
        expected = network(frames[:1, None], still=True, strength=0.5)[0]
    assert np.abs(images[0] - (expected.permute(1, 2, 0) * 255).round().numpy()).max() <= LIMIT


@pytest.mark.slow
def test_the_small_network(page, tmp_path):
    run(page, load_model("small"), tmp_path, shared=True)  # opening it compares three frames with PyTorch's


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_a_wrong_answer_means_webassembly(page, site_folder, tmp_path, wrong):
    manifest = json.loads((site_folder / "manifest.json").read_text())
    file = manifest["models"][0]["gpu"]["file"]
    tensors = load_file(site_folder / file)
    tensors["refiner.project.bias"] += 0.1
    save_file(tensors, tmp_path / "wrong.safetensors")
    if wrong:
        page.context.route(f"**/{file}", lambda route: route.fulfill(path=tmp_path / "wrong.safetensors"))
    assert " on your GPU" in page.inner_text("#promise")
    page.click("#example")
    page.wait_for_selector("canvas.after[data-strength='1']")
    assert page.get_attribute("html", "data-runtime") == ("wasm" if wrong else "webgpu")


def test_a_clip_stays_whole(page, tmp_path):
    frames = [np.clip(noise, 60, 200) for noise in np.linspace(90, 170, 5 * 96 * 160 * 3).reshape(5, 96, 160, 3)]
    frames = [frame.astype(np.uint8) for frame in frames]
    with av.open(str(tmp_path / "in.webm"), "w") as container:
        stream = container.add_stream("libvpx-vp9", rate=25, options={"lossless": "1"})
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    page.set_input_files("#file", tmp_path / "in.webm")
    page.wait_for_selector("canvas.after[data-strength='1']")
    page.click("#start")
    page.wait_for_selector("#download")
    with page.expect_download() as download:
        page.click("#download")
    assert page.get_attribute("html", "data-runtime") == "webgpu"
    with av.open(str(download.value.path())) as container:
        found = [frame.to_ndarray(format="rgb24").astype(float) for frame in container.decode(video=0)]
    # How exact frames are is tested above; a network with random weights enlarges what the codecs between here change.
    assert [image.shape for image in found] == [(96, 160, 3)] * 5
    assert all(np.abs(image - frame).mean() > 5 for image, frame in zip(found, frames, strict=True))


def test_networks_that_the_kernels_do_not_cover():
    assert gpu_runs(LiBrANet(TINY))
    for other in ({"refiner": False}, {"cayley": False}, {"scale": 2}, {"refiner_mix_kernel": 3}):
        assert not gpu_runs(LiBrANet(make_config(TINY, **other)))
