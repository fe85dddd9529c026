"""What a frame costs on a visitor's GPU: operations and bytes of the page's own kernels, and what they allow at most.

    PYTHONPATH=src:benchmarks:tests python3 benchmarks/browser_gpu.py [--model small] [--size 1280x720] [--frames 2]

Operations are counted by torch. Bytes are those of all buffers and textures that each step binds: read or written once,
so caches that miss are not in it. The roofline divides by what a GPU of a class has; real kernels reach a part of it.
The time is that of Chromium's software adapter on this machine, which says nothing about a GPU.
"""

import argparse
import json
import tempfile
from pathlib import Path

from browser import SOFTWARE_GPU, open_browser, serve_folder
from libranet.network import GridFilter, load_model
from libranet.network.cost import measure_cost
from libranet.page import asset_path
from libranet.web.gpu_weights import write_gpu_weights
from libranet.web.site import RATE
from machine import describe_machine

CLASSES = {"integrated, 2016 (UHD 630)": (400, 35), "integrated, 2020 (Iris Xe, Vega 8)": (1600, 50)}
"""GFLOP/s in float32 and GB/s."""
PARTS = (1.0, 0.4, 0.25)
"""What part of the roofline kernels reach."""
RUN = """async ([config, width, height, count]) => {
  let bytes = 0, watched = false;
  const original = GPUDevice.prototype.createBindGroup;
  const sizes = ({resource}) => resource.buffer ? resource.buffer.size : 4 * width * height;
  GPUDevice.prototype.createBindGroup = function (given) {
    if (watched) bytes += given.entries.reduce((sum, entry) => sum + sizes(entry), 0);
    return original.call(this, given);
  };
  const {openGpuNetwork} = await import("./gpu-network.js");
  const file = await (await fetch("network.safetensors")).arrayBuffer();
  const network = await openGpuNetwork(file, config);
  const rgba = Uint8ClampedArray.from({length: 4 * width * height}, (_, i) => (i % 4 === 3 ? 255 : i * 7919 >> 5));
  const image = await createImageBitmap(new ImageData(rgba, width, height));
  watched = true;
  await network.restore(image, {stream: "clip"});
  watched = false;
  const begin = performance.now();
  for (let n = 0; n < count; n++) await network.restore(image, {stream: "clip"});
  await network.finished();
  const {encoding, steps} = network.plans.get("clip");
  return {bytes, steps: encoding.length + steps.length + 1, milliseconds: (performance.now() - begin) / count};
}"""


def main() -> None:
    """Count, time, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="small")
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--frames", type=int, default=2)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    network = load_model(options.model)
    gflop = measure_cost(network.config, width=width, height=height).stream_gflops
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        config = write_gpu_weights(network, place / "network.safetensors", GridFilter(rate=RATE))
        (place / "index.html").write_text("<!doctype html><title>benchmark</title>")
        for name in ("gpu-network.js", "gpu-kernels.js"):
            (place / name).write_bytes(asset_path(name).read_bytes())
        with serve_folder(place) as address, open_browser(*SOFTWARE_GPU) as browser:
            page = browser.new_page()
            page.set_default_timeout(900_000)
            page.goto(address)
            found = page.evaluate(RUN, [config, width, height, options.frames])
    print(json.dumps(describe_machine()))
    megabytes = found["bytes"] / 1e6
    print(f"{options.model} at {options.size}: {gflop:.2f} GFLOP, {megabytes:.0f} MB, {found['steps']} steps")
    print(f"software adapter: {found['milliseconds']:.0f} ms a frame")
    for name, (gflops, gigabytes) in CLASSES.items():
        milliseconds = 1000 * max(gflop / gflops, found["bytes"] / 1e9 / gigabytes)
        rates = ", ".join(f"{1000 * part / milliseconds:.0f} fps at {part:.0%}" for part in PARTS)
        print(f"{name}, {gflops} GFLOP/s, {gigabytes} GB/s: {milliseconds:.1f} ms at the roofline; estimated {rates}")


if __name__ == "__main__":
    main()
