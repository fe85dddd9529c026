// The network beside the page's thread: frames as RGBA in, restored frames out. Each stream keeps its own state.

let ort = null, session = null, model = null, runtime = "";
const streams = new Map();

async function load({manifest, name, prefer}) {
  model = manifest.models.find((each) => each.name === name) || manifest.models[0];
  streams.clear();
  const adapter = prefer !== "wasm" && self.navigator.gpu ? await self.navigator.gpu.requestAdapter().catch(() => null) : null;
  for (const each of adapter ? ["webgpu", "wasm"] : ["wasm"]) {
    try {
      await open(each);
      return {runtime: each, model: model.name};
    } catch (error) {
      if (each === "wasm") throw error;
    }
  }
}

async function open(name) {
  const base = new URL("./vendor/", self.location.href).href;
  ort = await import(`${base}ort.${name}.min.mjs`);
  ort.env.wasm.wasmPaths = base;
  ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(8, self.navigator.hardwareConcurrency || 1) : 1;
  ort.env.logLevel = "error";
  const file = await fetch(model.file);
  if (!file.ok) throw new Error(`The network could not be downloaded (${file.status}).`);
  session = await ort.InferenceSession.create(new Uint8Array(await file.arrayBuffer()), {
    executionProviders: [name], graphOptimizationLevel: "all",
  });
  runtime = name;
}

async function restore({rgba, width, height, stream, reset, strength}) {
  const pixels = width * height;
  const data = new Float32Array(3 * pixels);
  for (let i = 0; i < pixels; i++) {
    for (let channel = 0; channel < 3; channel++) data[channel * pixels + i] = rgba[4 * i + channel] / 255;
  }
  const known = streams.get(stream);
  const fresh = reset || !known || known.width !== width || known.height !== height;
  const feeds = fresh ? zeros() : {...known.state};
  feeds.frame = new ort.Tensor("float32", data, [1, 3, height, width]);
  feeds.reset = new ort.Tensor("float32", new Float32Array([fresh ? 1 : 0]), [1]);
  const begin = performance.now();
  const found = await session.run(feeds);
  const image = await found.image.getData();
  const milliseconds = performance.now() - begin;
  if (stream) {
    const state = {};
    for (const name of Object.keys(model.state)) state[name] = found[name.replace("state_", "next_")];
    streams.set(stream, {width, height, state});
  }
  const mixed = new Uint8ClampedArray(4 * pixels);
  for (let i = 0; i < pixels; i++) {
    for (let channel = 0; channel < 3; channel++) {
      const before = data[channel * pixels + i];
      mixed[4 * i + channel] = 255 * (before + strength * (image[channel * pixels + i] - before));
    }
    mixed[4 * i + 3] = rgba[4 * i + 3];
  }
  return {rgba: mixed, milliseconds, runtime};
}

function zeros() {
  return Object.fromEntries(Object.entries(model.state).map(([name, shape]) =>
    [name, new ort.Tensor("float32", new Float32Array(shape.reduce((a, b) => a * b, 1)), shape)]));
}

const operations = {load, restore, forget: async ({stream}) => { streams.delete(stream); }};
let turn = Promise.resolve();

self.onmessage = ({data: {id, operation, values}}) => {
  turn = turn.then(async () => {
    try {
      const answer = await operations[operation](values);
      self.postMessage({id, answer}, answer?.rgba ? [answer.rgba.buffer] : []);
    } catch (error) {
      self.postMessage({id, error: String(error?.message || error)});
    }
  });
};
