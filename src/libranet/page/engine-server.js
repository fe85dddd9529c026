// The page's engine where a LiBrA-Net server is behind it: everything goes through its HTTP interface.

const RETRIES = 6;
const LARGEST_SIDE = 3840;
const MEMORY = "libranet-uploads";
let facts = null;

export const features = {
  views: [["result", "Clear"], ["haze", "Haze"], ["removed", "Removed"], ["confidence", "Seen"]],
  saves: [["result", "Cleared"], ["split", "Before and after, split"], ["side", "Before and after, side by side"],
    ["haze", "Haze map"], ["removed", "What was removed"], ["confidence", "What was seen"]],
  codecs: [["same", "As the original"], ["h264", "H.264: plays everywhere"]],
  adjust: true,
  previewSide: 1280, // pixels; enlarged, the preview has up to LARGEST_SIDE
  history: true,
  models: [],
};

export async function describe() {
  facts = await json("api/server");
  const hours = Math.round(facts.keep_seconds / 3600);
  return {
    promise: "Files stay on the machine that serves this page, and are deleted after "
      + `${hours} ${hours === 1 ? "hour" : "hours"}.`,
    accepts: "MP4, MOV, MKV, WebM, AVI, TS, MXF, GIF, JPEG, PNG, WebP, TIFF and BMP, "
      + `up to ${megabytes(facts.upload_bytes)} and ${length(facts.seconds)}.`,
    models: facts.models.map((name) => [name, name === "best" ? "Best" : "Fast"]),
    about: `LiBrA-Net ${facts.version}${facts.weights ? ` · weights ${facts.weights}` : ""}`,
    link: ["API", "api/docs"],
  };
}

export async function open(file, {report, signal}) {
  facts ??= await json("api/server");
  if (file.size > facts.upload_bytes) {
    throw new Error(`This file has ${megabytes(file.size)}, and the server accepts ${megabytes(facts.upload_bytes)}.`);
  }
  if (file.size === 0) throw new Error("This file is empty.");
  const key = `${file.name}|${file.size}|${file.lastModified}`;
  const known = JSON.parse(localStorage.getItem(MEMORY) || "{}");
  let job = known[key] && await json(`api/jobs/${known[key]}`).catch(() => null);
  if (!job || job.state === "failed") {
    job = await json("api/jobs", {method: "POST", body: {name: file.name, size: file.size}, signal});
    localStorage.setItem(MEMORY, JSON.stringify({...lastFew(known), [key]: job.id}));
  }
  const first = job.received, begin = performance.now();
  for (let failures = 0; job.state === "uploading";) {
    const left = (file.size - job.received) * (performance.now() - begin) / (job.received - first) / 1000;
    const time = left > 2 && Number.isFinite(left) ? ` · ${minutes(left)} left` : "";
    try {
      if (failures) job = await json(`api/jobs/${job.id}`, {signal}); // how much has come
      report(`Sending ${Math.floor(100 * job.received / file.size)} %${time}`);
      const piece = file.slice(job.received, job.received + facts.chunk_bytes);
      job = await json(`api/jobs/${job.id}/content?offset=${job.received}`, {method: "PATCH", raw: piece, signal});
      failures = 0;
    } catch (error) {
      const final = error.status >= 400 && ![408, 409, 503].includes(error.status);
      if (signal.aborted || ++failures > RETRIES || final) throw error;
      report(error.away ? "The server does not answer: waiting" : "Sending again");
      await sleep(Math.min(4000, 300 * 2 ** failures));
    }
  }
  return checked(job, report, signal);
}

export async function example({report, signal}) {
  return checked(await json("api/jobs/example", {method: "POST", signal}), report, signal);
}

export async function resume(id, {report, signal}) {
  return checked(await json(`api/jobs/${id}`, {signal}), report, signal);
}

async function checked(job, report, signal) {
  report("Looking at the file");
  while (job.state === "checking") {
    await sleep(100);
    job = await json(`api/jobs/${job.id}`, {signal});
  }
  if (!job.media) throw new Error(sentence(job.error || "The upload is not complete: choose the same file again."));
  return {id: job.id, name: job.name, state: job.state, settings: job.settings, ...job.media};
}

const side = (whole) => (whole ? LARGEST_SIDE : features.previewSide);

export const frame = (media, at, signal, whole) => image(`api/jobs/${media.id}/frame?at=${at}&side=${side(whole)}`, signal);

export async function preview(media, settings, at, signal) {
  const query = new URLSearchParams({
    at, side: side(settings.whole), strength: settings.strength, view: settings.view, keep_exposure: settings.exposure === "keep",
    protect_sky: settings.protect_sky, protect_shadows: settings.protect_shadows, color: settings.color,
  });
  if (settings.model) query.set("model", settings.model);
  const response = await request(`api/jobs/${media.id}/preview?${query}`, {signal});
  const found = await createImageBitmap(await response.blob());
  const time = /dur=([\d.]+)/.exec(response.headers.get("server-timing") || "");
  if (time) speeds[settings.model || "best"] = 1000 * found.width * found.height / Number(time[1]);
  return found;
}

export async function start(media, settings) {
  const {model = "best", size, save, codec, ...rest} = settings;
  const body = {...rest, model, codec: codec || "same", container: codec === "h264" ? "mp4" : "same"};
  body.playable = media.kind === "video" && !await plays(`api/jobs/${media.id}/source`);
  await json(`api/jobs/${media.id}/start`, {method: "POST", body});
}

/** Whether this browser plays a video: nobody else knows. */
function plays(address) {
  const video = Object.assign(document.createElement("video"), {muted: true, preload: "auto"});
  return new Promise((done) => {
    video.onloadeddata = () => done(video.videoWidth > 0);
    video.onerror = () => done(false);
    setTimeout(() => done(false), 5000);
    video.src = address;
  }).finally(() => { video.removeAttribute("src"); video.load(); });
}

const speeds = {}; // pixels per second of the last preview, by network

/** Seconds that a file will take: as the last one did on this server, or as the preview did. */
export async function estimate(media, {model = "best"}) {
  const jobs = await json("api/jobs");
  const like = jobs.find(({state, settings, report, media: {kind} = {}}) => state === "done" && kind === media.kind
    && settings.model === model && report.seconds > 0);
  const speed = like ? like.report.frames * like.report.width * like.report.height / like.report.seconds : speeds[model];
  return speed && media.frames ? media.frames * media.width * media.height / speed : null;
}

export function follow(media, callback) {
  let source = null, stopped = false;
  const connect = () => {
    if (stopped) return;
    source = new EventSource(`api/jobs/${media.id}/events`);
    source.addEventListener("status", (event) => callback(seen(JSON.parse(event.data))));
    source.addEventListener("deleted", () => { source.close(); callback({state: "deleted"}); });
    source.onerror = async () => {
      source.close();
      const error = await json(`api/jobs/${media.id}`).then(() => null, (reason) => reason);
      if (stopped) return;
      if (error?.status === 404) callback({state: "deleted"});
      else {
        if (error) callback({state: "away"});
        setTimeout(connect, 1000);
      }
    };
  };
  connect();
  return () => { stopped = true; source.close(); };
}

function seen(job) {
  const {progress} = job;
  return {state: job.state, error: sentence(job.error), ahead: job.queue_position, report: job.report, progress: progress && {
    frames: progress.frames, total: progress.total, fps: progress.fps, bound: progress.bound_by,
    left: progress.remaining_seconds, joining: progress.phase === "joining", copying: progress.phase === "copying",
  }};
}

/** Whether the first frame has to wait for the network. */
export const loading = () => !facts?.weights;

/** Whether the server is there. */
export async function answers() {
  const response = await fetch("api/server").catch(() => null);
  return response !== null && response.status < 500;
}

export const cancel = (media) => json(`api/jobs/${media.id}/cancel`, {method: "POST"}).catch(() => null);

export async function result(media) {
  const job = await json(`api/jobs/${media.id}`);
  const address = `api/jobs/${media.id}/result`;
  const [before, after] = job.report.copied ? ["before", "after"].map((side) => `${address}?copy=${side}`)
    : [`api/jobs/${media.id}/source`, address];
  return {before, after, download: `${address}?download=true`, name: job.result_name};
}

export const history = () => json("api/jobs");

export const thumbnail = (id) => `api/jobs/${id}/frame?side=144`;

export const remove = (id) => json(`api/jobs/${id}`, {method: "DELETE"});

export async function openCamera() {
  let camera = await json("api/cameras", {method: "POST"});
  const send = (raw, strength) => request(`api/cameras/${camera.id}/frames?strength=${strength}`, {method: "POST", raw});
  return {
    side: 640,
    async restore(canvas, strength) {
      const jpeg = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.85));
      const response = await send(jpeg, strength).catch(async (error) => {
        if (error.status !== 404) throw error;
        camera = await json("api/cameras", {method: "POST"}); // the server forgets one that was silent for a minute
        return send(jpeg, strength);
      });
      const time = /dur=([\d.]+)/.exec(response.headers.get("server-timing") || "");
      return {image: await createImageBitmap(await response.blob()), milliseconds: time ? Number(time[1]) : null};
    },
    close: () => json(`api/cameras/${camera.id}`, {method: "DELETE"}).catch(() => null),
  };
}

async function image(address, signal) {
  return createImageBitmap(await (await request(address, {signal})).blob());
}

async function json(address, options = {}) {
  const response = await request(address, options);
  return response.status === 204 ? null : response.json();
}

async function request(address, {method = "GET", body, raw, signal} = {}) {
  const headers = body ? {"content-type": "application/json"} : raw ? {"content-type": "application/octet-stream"} : {};
  const response = await fetch(address, {method, headers, signal, body: body ? JSON.stringify(body) : raw}).catch((error) => {
    if (signal?.aborted) throw error;
    throw Object.assign(new Error("The server does not answer."), {away: true});
  });
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw Object.assign(new Error(sentence(answer.error || `The server answered ${response.status}.`)), {status: response.status});
  }
  return response;
}

const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const megabytes = (bytes) => bytes < 1e9 ? `${(bytes / 1e6).toFixed(0)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
const length = (seconds) => seconds === 60 ? "1 minute" : `${seconds % 60 ? minutes(seconds) : seconds / 60} minutes`;
const minutes = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
const lastFew = (known) => Object.fromEntries(Object.entries(known).slice(-20));

function sentence(text) {
  if (!text) return "";
  const capital = text[0].toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}
