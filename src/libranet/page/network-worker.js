// The network beside the page's thread: images in, restored images out, by WebGPU or else by WebAssembly.

import {openGpuNetwork} from "./gpu-network.js";

let network = null, given = null;

async function load({manifest, name, gpu}) {
  given = {model: manifest.models.find((each) => each.name === name) || manifest.models[0]};
  network = null;
  if (gpu && given.model.gpu) {
    network = await openGpu(given.model.gpu).catch((error) => { console.warn(`${error.message} WebAssembly it is.`); });
  }
  network ??= await openWasm(given.model);
  return {runtime: network.runtime};
}

async function openGpu({file, config}) {
  return Object.assign(await openGpuNetwork(await fetched(file), config), {runtime: "webgpu"});
}

async function restore({image, timed, ...how}) {
  const begin = performance.now();
  let found;
  try {
    found = await network.restore(image, how);
    if (timed) await network.finished?.();
  } catch (error) {
    if (network.runtime === "wasm") throw error;
    console.warn(`${error.message} WebAssembly goes on.`); // a GPU may be lost, or too small for a frame
    network = await openWasm(given.model);
    found = await network.restore(image, how);
  }
  image.close();
  return {image: found, milliseconds: performance.now() - begin, runtime: network.runtime};
}

async function fetched(file) {
  const response = await fetch(file);
  if (!response.ok) throw new Error(`The network could not be downloaded (${response.status}).`);
  return response.arrayBuffer();
}

async function openWasm(model) {
  const base = new URL("./vendor/", self.location.href).href;
  const ort = await import(`${base}ort.wasm.min.mjs`);
  ort.env.wasm.wasmPaths = base;
  ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(8, self.navigator.hardwareConcurrency || 1) : 1;
  ort.env.logLevel = "error";
  const session = await ort.InferenceSession.create(new Uint8Array(await fetched(model.file)), {
    executionProviders: ["wasm"], graphOptimizationLevel: "all",
  });
  const streams = new Map();
  const zeros = () => Object.fromEntries(Object.entries(model.state).map(([name, shape]) =>
    [name, new ort.Tensor("float32", new Float32Array(shape.reduce((a, b) => a * b, 1)), shape)]));

  /** Restore an image. Frames of one stream share the memory that keeps colours steady. */
  async function restore(image, {stream = "", reset = false, strength = 1}) {
    const width = image.displayWidth ?? image.width, height = image.displayHeight ?? image.height, pixels = width * height;
    const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d", {willReadFrequently: true});
    context.drawImage(image, 0, 0);
    const samples = context.getImageData(0, 0, width, height), rgba = samples.data, data = new Float32Array(3 * pixels);
    for (let i = 0; i < pixels; i++) {
      for (let channel = 0; channel < 3; channel++) data[channel * pixels + i] = rgba[4 * i + channel] / 255;
    }
    const known = streams.get(stream);
    const fresh = reset || !known || known.width !== width || known.height !== height;
    const feeds = fresh ? zeros() : {...known.state};
    feeds.frame = new ort.Tensor("float32", data, [1, 3, height, width]);
    feeds.reset = new ort.Tensor("float32", new Float32Array([fresh ? 1 : 0]), [1]);
    const found = await session.run(feeds);
    if (stream) {
      const state = {};
      for (const name of Object.keys(model.state)) state[name] = found[name.replace("state_", "next_")];
      streams.set(stream, {width, height, state});
    }
    const restored = found.image.data;
    for (let i = 0; i < pixels; i++) {
      for (let channel = 0; channel < 3; channel++) {
        const before = data[channel * pixels + i];
        rgba[4 * i + channel] = 255 * (before + strength * (restored[channel * pixels + i] - before));
      }
    }
    context.putImageData(samples, 0, 0);
    return canvas.transferToImageBitmap();
  }

  return {restore, forget: (stream) => streams.delete(stream), runtime: "wasm"};
}

const operations = {load, restore, forget: async ({stream}) => { network?.forget(stream); }};
let turn = Promise.resolve();

self.onmessage = ({data: {id, operation, values}}) => {
  turn = turn.then(async () => {
    try {
      const answer = await operations[operation](values);
      self.postMessage({id, answer}, answer?.image ? [answer.image] : []);
    } catch (error) {
      self.postMessage({id, error: String(error?.message || error)});
    }
  });
};
