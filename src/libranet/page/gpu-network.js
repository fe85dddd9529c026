// The network on the visitor's GPU: its kernels in their order (network/forward.py), frames in and out as images that
// never leave the GPU. A plan has the buffers and bindings of one stream at one size.

import * as kernels from "./gpu-kernels.js";

const LIMITS = ["maxBufferSize", "maxStorageBufferBindingSize", "maxTextureDimension2D"];
const SCALE = 4; // of the refiner: a cell is 4x4 pixels
const LOOK_CHANGE = 0.04; // as in kernels/grid_filter
const MOST_DIFFERENCE = 2; // of 255, from PyTorch's answer

/** Open the network, and compare what this GPU computes with the answer of PyTorch. */
export async function openGpuNetwork(file, config, ways = null) {
  const tensors = readTensors(file);
  let problem = "This browser has no WebGPU.";
  const adapter = await findAdapter();
  // Software adapters share no canvas: in Chromium the attempt ends the process of the GPU.
  for (const shared of ways ?? (adapter?.info.isFallbackAdapter ? [false] : [true, false])) {
    const adapter = await findAdapter(); // one adapter gives one device
    if (!adapter) break;
    const requiredLimits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
    const device = await adapter.requestDevice({requiredLimits});
    const network = new GpuNetwork(device, tensors, {...config, shared});
    const difference = await network.check(tensors["check.frames"], tensors["check.images"]).catch((error) => error.message);
    if (difference <= MOST_DIFFERENCE) return network;
    problem = `This GPU's answer is off: ${difference}.`;
    device.destroy();
  }
  throw new Error(problem);
}

const findAdapter = () => navigator.gpu?.requestAdapter({powerPreference: "high-performance"});

/** The tensors of a safetensors file. */
function readTensors(file) {
  const length = new DataView(file).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
  delete header.__metadata__;
  return Object.fromEntries(Object.entries(header).map(([name, {dtype, shape, data_offsets: [from, to]}]) => {
    const bytes = file.slice(8 + length + from, 8 + length + to);
    return [name, {shape, data: dtype === "U8" ? new Uint8Array(bytes) : Float32Array.from(new Float16Array(bytes))}];
  }));
}

export class GpuNetwork {
  constructor(device, tensors, config) {
    Object.assign(this, {device, tensors, config, pipelines: new Map(), weights: new Map(), plans: new Map(), lost: false});
    device.lost.then(() => { this.lost = true; });
  }

  /** Restore an image. Frames of one stream share the memory that keeps colours steady. */
  async restore(image, {stream = "", reset = false, strength = 1} = {}) {
    const width = image.displayWidth ?? image.width, height = image.displayHeight ?? image.height;
    let plan = this.plans.get(stream);
    if (plan?.width !== width || plan?.height !== height) {
      this.forget(stream);
      plan = await this.makePlan(width, height);
      this.plans.set(stream, plan);
    }
    if (this.lost) throw new Error("The GPU was lost.");
    this.device.queue.copyExternalImageToTexture({source: image}, {texture: plan.frame}, [width, height]);
    return plan.run(strength, reset || !stream);
  }

  /** When the GPU has done what it was given. */
  finished() {
    return this.device.queue.onSubmittedWorkDone();
  }

  forget(stream) {
    this.plans.get(stream)?.destroy();
    this.plans.delete(stream);
  }

  async check(frames, answers) {
    const [count, height, width] = frames.shape, size = 3 * width * height;
    const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d", {willReadFrequently: true});
    let most = 0;
    for (let n = 0; n < count; n++) {
      const rgba = new Uint8ClampedArray(4 * width * height).fill(255);
      for (let i = 0; i < size; i++) rgba[4 * Math.floor(i / 3) + i % 3] = frames.data[n * size + i];
      const given = await createImageBitmap(new ImageData(rgba, width, height));
      context.drawImage(await this.restore(given, {stream: "check"}), 0, 0);
      const found = context.getImageData(0, 0, width, height).data;
      for (let i = 0; i < size; i++) {
        most = Math.max(most, Math.abs(found[4 * Math.floor(i / 3) + i % 3] - answers.data[n * size + i]));
      }
    }
    this.forget("check");
    return most;
  }

  async makePlan(width, height) {
    this.device.pushErrorScope("out-of-memory");
    this.device.pushErrorScope("validation");
    const plan = new Plan(this, width, height);
    const problem = await this.device.popErrorScope() || await this.device.popErrorScope();
    if (!problem) return plan;
    plan.destroy();
    throw new Error(`A frame of ${width}x${height} is too large for this GPU: ${problem.message}`);
  }

  pipeline(code) {
    if (!this.pipelines.has(code)) {
      const compute = {module: this.device.createShaderModule({code}), entryPoint: "main"};
      this.pipelines.set(code, this.device.createComputePipeline({layout: "auto", compute}));
    }
    return this.pipelines.get(code);
  }

  /** A buffer with values that are the same for every plan. */
  constant(key, make) {
    if (!this.weights.has(key)) this.weights.set(key, upload(this.device, make()));
    return this.weights.get(key);
  }
}

class Plan {
  constructor(network, width, height) {
    const {device, config} = network;
    Object.assign(this, {network, device, config, width, height, owned: [], spare: [], steps: [], encoding: [], frames: 0, slot: 0});
    this.slots = config.memory + 1;
    this.w = Math.ceil(width / SCALE);
    this.h = Math.ceil(height / SCALE);
    const {TEXTURE_BINDING, COPY_DST, RENDER_ATTACHMENT, STORAGE_BINDING} = GPUTextureUsage;
    this.frame = device.createTexture({size: [width, height], format: "rgba8unorm", usage: TEXTURE_BINDING | COPY_DST | RENDER_ATTACHMENT});
    this.owned.push(this.frame);
    if (config.shared) {
      this.canvas = new OffscreenCanvas(width, height);
      this.context = this.canvas.getContext("webgpu");
      this.context.configure({device, format: "rgba8unorm", usage: STORAGE_BINDING, alphaMode: "premultiplied"});
    } else {
      this.image = device.createTexture({size: [width, height], format: "rgba8unorm", usage: STORAGE_BINDING | GPUTextureUsage.COPY_SRC});
      this.owned.push(this.image);
    }
    this.strength = this.buffer(4);
    this.clock = this.buffer(4 * (this.slots + 2));
    this.window = this.buffer(4 * config.window);
    this.describe();
  }

  describe() {
    const {side, size, bins, window} = this.config, cells = side * side;
    const chromatic = 6 * bins, planes = chromatic + 3;
    const small = this.map(1, size, size);
    this.reduceTo(small, true);
    const grids = this.map(planes, side, side);
    const head = (features, name, into, order) => {
      const hidden = this.conv(features, `${name}.head.expand`, {bias: true, gelu: true});
      this.conv(hidden, `${name}.head.project`, {bias: true, order, into, output: grids});
    };
    head(this.encode(small, "chromatic"), "chromatic", 0, gridOrder(bins));
    const features = this.encode(small, "temporal");
    // The newest features go into the ring between two passes: which slot it is changes with every frame.
    this.encoding = this.steps;
    this.steps = [];
    this.features = features;
    this.ring = this.buffer(window * features.planes * cells * 16);
    head(this.mix(features), "temporal", chromatic);
    const weights = this.buffer(4 * this.slots * cells);
    this.step(kernels.weigh({slots: this.slots, halfSquared: LOOK_CHANGE ** 2}),
      [small, this.clock, this.buffer(16 * this.slots * cells), weights], [side, side, size, size], [cells / 64]);
    const filtered = this.steady(grids, weights);
    const low = this.map(1, this.w, this.h), corrected = this.map(1, this.w, this.h), correction = this.map(1, this.w, this.h);
    this.reduceTo(low, false);
    this.step(kernels.applyField({bins}), [low, filtered, this.strength, corrected, correction], [this.w, this.h, side, side], [this.w / 8, this.h / 8]);
    const residual = this.refine(corrected);
    const means = this.map(1, side, side);
    this.step(kernels.cellMeans(), [residual, means], [side, side, this.w, this.h], [side, side]);
    const change = this.steady(means, weights, true);
    this.step(kernels.shift(), [change, this.strength, correction], [this.w, this.h, side, side], [this.w / 8, this.h / 8]);
    this.inspected = {small, grids, filtered, corrected, residual};
    const last = this.network.pipeline(kernels.addBack(this.config));
    const uniform = this.uniform([this.width, this.height, this.w, this.h]);
    this.finish = (pass) => {
      pass.setPipeline(last);
      pass.setBindGroup(0, this.group(last, [uniform, this.frame.createView(), correction, residual, this.strength, (this.image ?? this.context.getCurrentTexture()).createView()]));
      pass.dispatchWorkgroups(Math.ceil(this.width / 8), Math.ceil(this.height / 8));
    };
  }

  encode(small, field) {
    let x = small, layer = 0;
    const name = (index) => `${field}.encoder.layers.${index}`;
    const normed = (given, conv, norm, {stride, ...then}) => {
      const raw = this.conv(given, conv, {stride, sums: true});
      return this.apply(raw, this.norm(raw, norm), then);
    };
    while (`${name(layer)}.weight` in this.network.tensors) {
      x = normed(x, name(layer), name(layer + 1), {stride: 2, gelu: true});
      for (layer += 3; `${name(layer)}.branch.0.weight` in this.network.tensors; layer++) {
        const hidden = normed(x, `${name(layer)}.branch.0`, `${name(layer)}.branch.1`, {gelu: true});
        x = normed(hidden, `${name(layer)}.branch.3`, `${name(layer)}.branch.4`, {add: x});
      }
    }
    return x;
  }

  /** Attention of the present frame to those before it. */
  mix({planes, width, height}) {
    const {window, heads} = this.config, cells = width * height, size = [width, height, 0, 0], name = "temporal.attention";
    const normed = this.map(planes, cells, window), centre = this.map(planes, width, height), kept = this.map(planes, width, height);
    const position = this.network.constant("position", () => this.network.tensors["temporal.position"].data);
    this.step(kernels.windowNorm({planes, window}),
      [{buffer: this.ring}, {buffer: position}, this.affine(`${name}.norm1`), this.window, normed, centre, kept], size, [cells / 64, window]);
    const query = this.conv(centre, `${name}.query`, {bias: true});
    const keyValue = this.conv(normed, `${name}.key_value`, {bias: true});
    const mixed = this.map(planes, width, height);
    this.step(kernels.attend({planes, window, heads}), [query, keyValue, mixed], size, [cells / 64, heads]);
    const first = this.conv(mixed, `${name}.out`, {bias: true, add: kept});
    const second = this.map(planes, width, height);
    this.step(kernels.layerNorm({planes}), [first, this.affine(`${name}.norm2`), second], size, [cells / 64]);
    return this.conv(this.conv(second, `${name}.ffn.0`, {bias: true, gelu: true}), `${name}.ffn.2`, {bias: true, add: first});
  }

  refine(corrected) {
    const pixels = this.map(12, this.w, this.h);
    this.step(kernels.unshuffle(), [{view: this.frame.createView()}, pixels], [this.w, this.h, 0, 0], [this.w / 8, this.h / 8]);
    const planes = this.network.tensors["refiner.join.bias"].data.length / 4;
    const both = this.map(2 * planes, this.w, this.h);
    for (const [name, given, into] of [["detail", pixels, 0], ["structure", corrected, planes]]) {
      const raw = this.conv(given, `refiner.${name}.0`, {sums: true});
      if (given === pixels) this.release(pixels);
      let x = this.apply(raw, this.norm(raw, `refiner.${name}.1`), {gelu: true});
      this.release(raw);
      let last = 3;
      while (`refiner.${name}.${last + 1}.conv.weight` in this.network.tensors) x = this.block(x, `refiner.${name}.${last++}`);
      this.block(x, `refiner.${name}.${last}`, {output: both, into});
    }
    let x = this.conv(both, "refiner.join", {bias: true});
    this.release(both);
    for (let n = 0; `refiner.fusion.${n}.conv.weight` in this.network.tensors; n++) x = this.block(x, `refiner.fusion.${n}`);
    const residual = this.conv(x, "refiner.project", {bias: true});
    this.release(x);
    return residual;
  }

  block(x, name, place = {}) {
    const raw = this.conv(x, `${name}.conv`, {sums: true});
    const result = this.conv(raw, `${name}.mix`, {bias: true, normed: this.norm(raw, `${name}.norm`), add: x, ...place});
    this.release(raw);
    this.release(x);
    return result;
  }

  // Steps

  conv(given, name, {stride = 1, into = 0, order, output, bias, gelu, normed, add, sums} = {}) {
    const {shape: [channelsOut, channelsIn, taps = 1], data} = this.network.tensors[`${name}.weight`];
    const inputs = Math.ceil(channelsIn / 4), outputs = channelsOut / 4;
    const width = Math.ceil(given.width / stride), height = Math.ceil(given.height / stride);
    // Small maps are divided among more threads, large ones use each value more often.
    const px = width * height > 20000 ? 4 : width * height > 2000 ? 2 : 1;
    const q = [px, 2, 1].find((count) => count <= px && outputs % count === 0);
    output ??= this.map(outputs, width, height);
    const tiles = [Math.ceil(width / (8 * px)), Math.ceil(height / 8)];
    const code = kernels.conv({taps, stride, inputs, outputs, px, q, into, bias, gelu, normed: Boolean(normed), add: Boolean(add), sums});
    const weights = this.network.constant(`${name} ${q}`, () => matrices(data, channelsOut, channelsIn, taps, q, order));
    const bindings = [given, {buffer: weights}, output];
    if (bias) bindings[3] = {buffer: this.network.constant(`${name}.bias`, () => ordered(this.network.tensors[`${name}.bias`].data, order))};
    if (sums) bindings[4] = output.sums = this.buffer(32 * outputs * tiles[0] * tiles[1]);
    if (normed) bindings[5] = normed;
    if (add) bindings[6] = add;
    output.tiles = tiles[0] * tiles[1];
    this.step(code, bindings, [width, height, given.width, given.height], [...tiles, outputs / q]);
    return output;
  }

  /** Gain and offset of each channel, from the sums of a convolution. */
  norm({planes, width, height, sums, tiles}, name) {
    const norms = this.buffer(32 * planes);
    this.step(kernels.groupNorm({planes}), [sums, this.affine(name), norms], [width, height, tiles, 0], [1]);
    return norms;
  }

  apply({buffer, planes, width, height}, norms, {gelu, add}) {
    const output = this.map(planes, width, height);
    this.step(kernels.applyNorm({gelu, add: Boolean(add)}), [{buffer}, norms, output, ...add ? [add] : []],
      [width, height, 0, 0], [width * height / 64, planes]);
    return output;
  }

  steady(values, weights, change = false) {
    const {planes, width, height} = values, output = this.map(planes, width, height);
    const ring = this.buffer(16 * this.slots * planes * width * height);
    this.step(kernels.steady({slots: this.slots, planes, change}), [values, this.clock, weights, ring, output],
      [width, height, 0, 0], [width * height / 64, planes]);
    return output;
  }

  reduceTo(output, signed) {
    const {width, height} = output;
    this.step(kernels.reduce({signed}), [{view: this.frame.createView()}, output], [width, height, SCALE * this.w, SCALE * this.h], [width / 8, height / 8]);
  }

  affine(name) {
    const {tensors} = this.network;
    return {buffer: this.network.constant(name, () => {
      const [gain, offset] = ["weight", "bias"].map((part) => tensors[`${name}.${part}`].data);
      return Float32Array.from({length: 2 * gain.length}, (_, i) => (i % 8 < 4 ? gain : offset)[4 * Math.floor(i / 8) + i % 4]);
    })};
  }

  // What a step consists of

  step(code, bindings, size, [x, y = 1, z = 1]) {
    const pipeline = this.network.pipeline(code);
    const group = this.group(pipeline, [this.uniform(size), ...bindings]);
    this.steps.push({pipeline, group, count: [Math.ceil(x), Math.ceil(y), z]});
  }

  group(pipeline, bindings) {
    const given = Object.entries(bindings).filter(([, value]) => value); // a step may leave out some
    const entries = given.map(([binding, value]) => {
      const resource = value.view ?? (value.buffer ? {buffer: value.buffer} : value instanceof GPUBuffer ? {buffer: value} : value);
      return {binding: Number(binding), resource};
    });
    return this.device.createBindGroup({layout: pipeline.getBindGroupLayout(0), entries});
  }

  uniform(values) {
    const buffer = upload(this.device, Uint32Array.from(values), GPUBufferUsage.UNIFORM);
    this.owned.push(buffer);
    return buffer;
  }

  buffer(bytes) {
    const {STORAGE, COPY_DST, COPY_SRC} = GPUBufferUsage;
    const buffer = this.device.createBuffer({size: bytes, usage: STORAGE | COPY_DST | COPY_SRC});
    this.owned.push(buffer);
    return buffer;
  }

  map(planes, width, height) {
    const bytes = 16 * planes * width * height, place = this.spare.findIndex(({size}) => size === bytes);
    return {buffer: place < 0 ? this.buffer(bytes) : this.spare.splice(place, 1)[0], planes, width, height};
  }

  /** Later steps may write here: steps run one after the other. */
  release({buffer}) {
    this.spare.push(buffer);
  }

  // A frame

  run(strength, reset) {
    const {device, config: {window, memory, span}, slots} = this, {queue} = device;
    if (reset) this.frames = 0;
    const known = Math.min(this.frames, memory), slot = this.slot = (this.slot + 1) % slots;
    const clock = new Float32Array(slots + 2);
    let before = 0; // the first frame stands for those before it
    for (let age = 1; age <= memory; age++) {
      const weight = age < span ? 1 - (age / span) ** 2 : 0;
      if (age <= known) clock[(slot - age + slots) % slots] = weight; else before += weight;
    }
    clock[known ? (slot - known + slots) % slots : slots] += before;
    clock[slots + 1] = slot;
    const newest = this.frames % window, reach = (window - 1) / 2;
    const order = Array.from({length: window}, (_, t) => (newest - Math.min(Math.max(reach - t, 0), this.frames) + window) % window);
    queue.writeBuffer(this.clock, 0, clock);
    queue.writeBuffer(this.window, 0, Uint32Array.from(order));
    queue.writeBuffer(this.strength, 0, Float32Array.of(strength));
    const encoder = device.createCommandEncoder();
    this.encodeSteps(encoder, this.encoding);
    const bytes = this.features.buffer.size;
    encoder.copyBufferToBuffer(this.features.buffer, 0, this.ring, newest * bytes, bytes);
    this.encodeSteps(encoder, this.steps, this.finish);
    this.frames += 1;
    if (this.image) return this.readBack(encoder);
    queue.submit([encoder.finish()]);
    return this.canvas.transferToImageBitmap();
  }

  /** The image by way of the CPU, where the GPU shares none with the browser. */
  async readBack(encoder) {
    const {device, width, height} = this, bytesPerRow = Math.ceil(4 * width / 256) * 256;
    const copy = device.createBuffer({size: bytesPerRow * height, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ});
    encoder.copyTextureToBuffer({texture: this.image}, {buffer: copy, bytesPerRow}, [width, height]);
    device.queue.submit([encoder.finish()]);
    await copy.mapAsync(GPUMapMode.READ);
    const rows = new Uint8Array(copy.getMappedRange()), rgba = new Uint8ClampedArray(4 * width * height);
    for (let y = 0; y < height; y++) rgba.set(rows.subarray(y * bytesPerRow, y * bytesPerRow + 4 * width), 4 * width * y);
    copy.destroy();
    return createImageBitmap(new ImageData(rgba, width, height), {premultiplyAlpha: "none"});
  }

  encodeSteps(encoder, steps, finish = () => {}) {
    const pass = encoder.beginComputePass();
    for (const {pipeline, group, count} of steps) {
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(...count);
    }
    finish(pass);
    pass.end();
  }

  destroy() {
    for (const each of this.owned) each.destroy();
    this.context?.unconfigure();
  }
}

/** The grids' channels as the kernels want them, [guide][bin][coefficient], from [guide][coefficient][bin]. */
const gridOrder = (bins) => (channel) => {
  const guide = Math.floor(channel / (12 * bins)), rest = channel % (12 * bins);
  return guide * 12 * bins + rest % 12 * bins + Math.floor(rest / 12);
};

const ordered = (values, order = (n) => n) => Float32Array.from(values, (_, n) => values[order(n)]);

/** Weights [out, in, taps, taps] as 4x4 matrices, [out / 4 q][in / 4][taps][taps][q]. */
function matrices(data, channelsOut, channelsIn, taps, q, order = (n) => n) {
  const inputs = Math.ceil(channelsIn / 4), result = new Float32Array(4 * inputs * channelsOut * taps * taps);
  for (let out = 0; out < channelsOut; out++) {
    for (let input = 0; input < channelsIn; input++) {
      for (let tap = 0; tap < taps * taps; tap++) {
        const plane = Math.floor(out / 4);
        const matrix = ((Math.floor(plane / q) * inputs + Math.floor(input / 4)) * taps * taps + tap) * q + plane % q;
        result[16 * matrix + 4 * (input % 4) + out % 4] = data[(order(out) * channelsIn + input) * taps * taps + tap];
      }
    }
  }
  return result;
}

function upload(device, values, usage = GPUBufferUsage.STORAGE) {
  const buffer = device.createBuffer({size: values.byteLength, usage, mappedAtCreation: true});
  new values.constructor(buffer.getMappedRange()).set(values);
  buffer.unmap();
  return buffer;
}
