// The page's engine where there is no server: this browser restores the frames. Nothing leaves it.

import {decodable, openClip} from "./clip.js";

const PREVIEW_SIDE = 960;
const LARGEST_PHOTO = 24e6; // pixels
const manifest = await (await fetch("manifest.json")).json();
const prefer = new URLSearchParams(location.search).get("runtime") || "auto";
const adapter = prefer !== "wasm" && await navigator.gpu?.requestAdapter({powerPreference: "high-performance"}).catch(() => null);
// A GPU that the processor plays is slower than WebAssembly.
const gpu = Boolean(adapter) && (prefer === "webgpu" || !adapter.info.isFallbackAdapter);
const LABELS = {small: "Fast", base: "Best"};
const downloads = manifest.models.map((each) => (gpu && each.gpu ? each.gpu.bytes : each.bytes + manifest.runtime));
const listeners = new Set();
let worker = null, loaded = null, calls = 0;
if ("serviceWorker" in navigator) navigator.serviceWorker.register("service-worker.js").catch(() => {}); // only https and localhost have one

export const features = {
  views: [["result", "Cleared"]],
  saves: [["result", "Cleared"], ["split", "Before and after, split"]],
  sizes: [["0", "Full size"], ["1280", "1280 px"], ["640", "640 px"]], // the first is the default: nothing is reduced unasked
  previewSide: gpu ? Infinity : PREVIEW_SIDE,
  adjust: false,
  history: false,
  models: manifest.models.map(({name}, index) => [name, `${LABELS[name] || name} · ${megabytes(downloads[index])}`]),
};

export async function describe() {
  const {yes, no} = await decodable();
  return {
    promise: `Nothing is uploaded: your own browser computes${gpu ? ", on your GPU" : ""}. It downloads ${megabytes(downloads[0])} once.`,
    accepts: `JPEG, PNG and WebP up to 24 million pixels; videos in ${yes.join(", ") || "no codec: this browser has no WebCodecs"}.`
      + (no.length ? ` This browser does not decode ${no.join(" or ")}.` : ""),
    about: `LiBrA-Net ${manifest.version} · weights ${manifest.models.map((each) => each.weights).join(", ")}`,
  };
}

export async function open(file, {report}) {
  report("Opening");
  const photo = await createImageBitmap(file).catch(() => null);
  if (photo) {
    if (photo.width * photo.height > LARGEST_PHOTO) throw new Error("This photo has more than 24 million pixels: make it smaller first.");
    return {name: file.name, kind: "image", width: photo.width, height: photo.height, format: file.type.replace("image/", ""), photo, state: "ready"};
  }
  const clip = await openClip(file).catch((error) => {
    throw new Error(/This|no video/.test(error.message) ? error.message : "This is neither an image nor a video that the browser can read.");
  });
  const {width, height, seconds, rate, format, sound} = clip;
  return {name: file.name, kind: "video", width, height, seconds, rate, format, sound, clip, file, state: "ready"};
}

export async function example(how) {
  const blob = await (await fetch("foggy.mp4")).blob();
  return open(new File([blob], "foggy.mp4", {type: "video/mp4"}), how);
}

export async function frame(media, at, signal, whole) {
  const size = within(media, whole ? Infinity : features.previewSide);
  return createImageBitmap(media.photo || await media.clip.frame(at, size), {resizeWidth: size.width, resizeHeight: size.height});
}

export async function preview(media, settings, at) {
  await ready(settings.model);
  const original = await frame(media, at, null, settings.whole);
  return (await restore(original, {strength: settings.strength})).image;
}

// One run at a time; `follow` hears of it.

let run = null;

export async function start(media, settings) {
  const mine = run = {media, state: "running", progress: null, stopped: false};
  work(mine, settings).catch((error) => {
    mine.state = mine.stopped ? "cancelled" : "failed";
    mine.error = error.message;
    tell();
  });
}

async function work(mine, settings) {
  const {media} = mine;
  await ready(settings.model);
  const stem = media.name.replace(/\.[^.]*$/, "");
  if (media.photo) {
    const canvas = new OffscreenCanvas(media.width, media.height);
    drawn(media.photo, settings, (await restore(media.photo, {strength: settings.strength})).image)(canvas.getContext("2d"));
    mine.result = {blob: await canvas.convertToBlob({type: "image/png"}), name: `${stem}-clear.png`, before: media.photo};
  } else {
    const size = even(within(media, Number(settings.size) || 1e9));
    const total = Math.round(media.seconds * media.rate), begin = performance.now();
    const stream = `run ${++calls}`;
    let frames = 0;
    const {blob, suffix} = await media.clip.write(size, async (frame) => {
      if (mine.stopped) throw new Error("stopped");
      const before = settings.view === "split" ? await createImageBitmap(frame) : null;
      const {image} = await restore(frame, {stream, strength: settings.strength});
      const fps = ++frames / (performance.now() - begin) * 1000;
      mine.progress = {frames, total: Math.max(total, frames), fps, bound: "network", left: Math.max(0, total - frames) / fps};
      tell();
      return drawn(before, settings, image);
    }).finally(() => call("forget", {stream}));
    mine.result = {blob, name: `${stem}-clear${suffix}`, before: media.file};
  }
  mine.state = mine.stopped ? "cancelled" : "done";
  tell();
}

export function follow(media, callback) {
  const listener = () => { if (run?.media === media) callback({state: run.state, error: run.error, progress: run.progress}); };
  listeners.add(listener);
  listener();
  return () => listeners.delete(listener);
}

const tell = () => { for (const listener of [...listeners]) listener(); };

export async function cancel() {
  run.stopped = true;
}

export async function result() {
  const {blob, name, before} = run.result;
  const original = before instanceof Blob ? before : await pngOf(before);
  const after = URL.createObjectURL(blob);
  return {before: URL.createObjectURL(original), after, download: after, name};
}

export async function openCamera() {
  const {runtime} = await ready();
  const stream = `camera ${++calls}`;
  return {
    side: runtime === "webgpu" ? 640 : 320,
    async restore(canvas, strength) {
      return restore(canvas, {stream, strength, timed: true});
    },
    close: () => call("forget", {stream}),
  };
}

// The network

/** Whether the first frame has to wait for the network. */
export const loading = () => !loaded?.done;

function ready(name = document.querySelector('input[name="model"]:checked')?.value) {
  if (loaded?.name !== name) loaded = {name, promise: call("load", {manifest, name, gpu})};
  return loaded.promise.then((facts) => {
    document.documentElement.dataset.runtime = facts.runtime;
    loaded.done = true;
    return facts;
  });
}

/** Restore an image, which stays as it is. Frames of one stream share the memory that keeps colours steady. */
export async function restore(image, how = {}) {
  const given = self.VideoFrame && image instanceof VideoFrame ? image.clone() : await createImageBitmap(image);
  const found = await call("restore", {image: given, ...how}, [given]);
  document.documentElement.dataset.runtime = found.runtime;
  return found;
}

function call(operation, values, transfer = []) {
  if (!worker) {
    worker = new Worker("network-worker.js", {type: "module"});
    worker.waiting = new Map();
    worker.onmessage = ({data}) => {
      const {done, fail} = worker.waiting.get(data.id);
      worker.waiting.delete(data.id);
      if (data.error) fail(new Error(data.error)); else done(data.answer);
    };
    worker.onerror = () => { for (const {fail} of worker.waiting.values()) fail(new Error("The network could not be started.")); };
  }
  const id = ++calls;
  return new Promise((done, fail) => {
    worker.waiting.set(id, {done, fail});
    worker.postMessage({id, operation, values}, transfer);
  });
}

// Drawing

/** What draws a result: the image, with the left half of the original where both are saved. */
const drawn = (original, {view}, image) => (context) => {
  const {width, height} = context.canvas, half = Math.round(width / 2), line = Math.max(1, Math.round(width / 960));
  context.drawImage(image, 0, 0);
  image.close();
  if (view !== "split") return;
  context.drawImage(original, 0, 0, half, height, 0, 0, half, height);
  context.fillStyle = "white";
  context.fillRect(half - line, 0, 2 * line, height);
};

async function pngOf(bitmap) {
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  return canvas.convertToBlob({type: "image/png"});
}

function within({width, height}, side) {
  const scale = Math.min(1, side / Math.max(width, height));
  return {width: Math.max(16, Math.round(width * scale)), height: Math.max(16, Math.round(height * scale))};
}

const even = ({width, height}) => ({width: width - width % 2, height: height - height % 2});

function megabytes(bytes) {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
