// The page: what is shown, and when. What computes is behind `engine.js`: a server, or this browser itself.

import * as engine from "./engine.js";
import {startCamera} from "./camera.js";
import {askTwice} from "./confirm.js";
import {acceptFiles} from "./drop.js";
import {setUpTabs, setUpTheme} from "./header.js";
import {makeHistory} from "./history.js";
import {makeHistogram} from "./histogram.js";
import {makePlayer} from "./player.js";
import {makePresets} from "./presets.js";
import {attachWipe} from "./wipe.js";
import {makeZoom} from "./zoom.js";

const $ = (id) => document.getElementById(id);
const [before, after] = $("wipe").querySelectorAll("canvas");
const player = makePlayer($("wipe"), $);
const wipe = attachWipe($("wipe"));
const histogram = makeHistogram($);
const zoom = makeZoom($, () => { if (Math.max(media.width, media.height) > engine.features.previewSide && $("player").hidden) look(); });
attachWipe($("welcome-wipe"));
const RIGHT = {result: "After", split: "", side: "", haze: "Haze: bright is dense", removed: "Removed: bright is much",
  confidence: "Seen: dark is guessed"};
const FORMATS = {h264: "H.264", hevc: "HEVC", vp9: "VP9", av1: "AV1", prores: "ProRes", mjpeg: "JPEG"};
let media = null;
let opening = null;
let looking = null;
let stopFollowing = () => {};
let exact = null; // {before, after, strength}: samples of the frame that the engine restored last
let lookFailed = false;
let stopping = false;
let finished = null; // {settings, status}: the result that the engine has

async function describe() {
  const facts = await engine.describe().catch((error) => ({promise: "", about: "", error}));
  if (facts.error) complain(facts.error);
  $("promise").textContent = facts.promise;
  $("accepts").textContent = facts.accepts || "";
  if (facts.models && $("models").children.length !== facts.models.length) {
    setUpChoices("models", "model", facts.models);
    $("models-row").hidden = facts.models.length < 2;
  }
  $("about").textContent = facts.about;
  if (facts.link) {
    const link = Object.assign(document.createElement("a"), {textContent: facts.link[0], href: facts.link[1]});
    $("about").append(" · ", link);
  }
  document.documentElement.dataset.ready = "true";
}

// Opening

$("choose").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => { if ($("file").files[0]) take([...$("file").files]); $("file").value = ""; });
$("example").addEventListener("click", () => show((how) => engine.example(how)));
$("other").addEventListener("click", () => { reset(); $("choose").focus(); });
$("stop").addEventListener("click", reset);

async function take(given) {
  const [first, ...others] = given;
  $("tab-file").click();
  const opened = openFile(first);
  if (others.length && !engine.features.history) complain(`One file at a time: this is ${first.name}, the first of ${given.length}.`);
  if (!engine.features.history) return;
  await opened;
  for (const file of others) { // the list shows them; whoever opens another file meanwhile does not stop them
    await engine.open(file, {report: () => {}, signal: new AbortController().signal})
      .catch((error) => complain(`${file.name}: ${error.message}`));
    listHistory();
  }
}

const openFile = (file) => show((how) => engine.open(file, how));

async function show(open) {
  reset();
  const mine = opening = new AbortController();
  busy("Opening");
  for (const id of ["choose", "example"]) $(id).disabled = true;
  try {
    const found = await open({report: (text) => { if (opening === mine) busy(text, "Stop"); }, signal: mine.signal});
    if (mine.signal.aborted) return;
    media = found;
    remember(media.id);
    describeMedia();
    applySettings(media.settings);
    await describe(); // the network may have been loaded meanwhile
    await look();
    if (document.activeElement === document.body) $("facts").focus({preventScroll: true}); // the welcome screen is gone
    if (media === found && ["queued", "running", "done"].includes(media.state)) follow();
  } catch (error) {
    if (!mine.signal.aborted) { remember(""); complain(error); }
  } finally {
    if (opening === mine) {
      for (const id of ["choose", "example"]) $(id).disabled = false;
      busy("");
    }
  }
  listHistory();
}

function reset() {
  opening?.abort();
  looking?.abort();
  stopFollowing();
  player.clear();
  media = exact = finished = opening = null;
  remember("");
  complain("");
  busy("");
  running(false);
  for (const id of ["choose", "example"]) $(id).disabled = false;
  for (const id of ["controls", "wipe", "zoom", "download", "fullscreen"]) $(id).hidden = true;
  $("welcome").hidden = false;
  $("stage").classList.add("empty");
  offerStart();
}

// The address names the file on the server: a reload, or a link, comes back to it.

function remember(id) {
  if (engine.features.history && (id || location.hash)) history.replaceState(null, "", id ? `#${id}` : location.pathname);
}

function reopen() {
  const id = location.hash.slice(1);
  if (engine.features.history && /^[\w-]{22}$/.test(id)) show((how) => engine.resume(id, how));
}

function describeMedia() {
  const parts = [media.name, `${media.width}×${media.height}`];
  if (media.kind === "video") {
    if (media.seconds) parts.push(clock(media.seconds));
    if (media.rate) parts.push(`${Number(media.rate.toFixed(2))} fps`);
  }
  $("facts").textContent = [...parts, FORMATS[media.format] || media.format].join(" · ");
  showMoment();
  $("codec-row").hidden = !(media.kind === "video" && engine.features.codecs);
  offerStart();
  zoom.reset(media.width);
  $("sizes-row").hidden = !(media.kind === "video" && engine.features.sizes);
  $("moment").max = Math.max(0, (media.seconds || 0) - 1 / (media.rate || 25));
  $("moment").value = 0;
  showValues();
}

// The frame of the preview is chosen while there is no result that plays.
function showMoment() {
  $("moment-row").hidden = !(media?.kind === "video" && media.seconds && $("player").hidden);
}

// Settings

function settings() {
  return {
    strength: Number($("strength").value),
    view: checked("view") || "result",
    save: $("save").value,
    codec: $("codec").value || undefined,
    exposure: $("keep-exposure").checked ? "keep" : "network",
    protect_sky: Number($("protect-sky").value),
    protect_shadows: Number($("protect-shadows").value),
    color: Number($("color").value),
    model: checked("model"),
    size: checked("size"),
    whole: zoom.enlarged(),
  };
}

/** What the file depends on, for the engine: the view under the divider is no part of it. */
function runSettings() {
  const {whole, ...chosen} = settings();
  return {...chosen, view: chosen.save};
}

const runKey = () => JSON.stringify(runSettings());
const shownBy = (save) => (["haze", "removed", "confidence"].includes(save) ? save : "result");

function applySettings(given) {
  const values = {strength: 1, protect_sky: 0, protect_shadows: 0, color: 1, view: "result", exposure: "network", ...given};
  $("strength").value = values.strength;
  $("protect-sky").value = values.protect_sky;
  $("protect-shadows").value = values.protect_shadows;
  $("color").value = values.color;
  $("keep-exposure").checked = values.exposure === "keep";
  $("save").value = values.view;
  if (engine.features.codecs) $("codec").value = values.codec || "same";
  for (const [name, value] of [["view", shownBy(values.view)], ["model", values.model]]) {
    const choice = document.querySelector(`input[name="${name}"][value="${value}"]`);
    if (choice) choice.checked = true;
  }
  showValues();
}

function showValues() {
  for (const output of document.querySelectorAll(".slider output")) {
    const input = $(output.htmlFor[0]);
    output.textContent = input.id === "moment" ? clock(input.value, true) : `${Math.round(100 * input.value)} %`;
    input.setAttribute("aria-valuetext", output.textContent);
  }
}

document.addEventListener("input", (event) => {
  if (media && event.target.closest("#controls") && !event.target.closest("#presets")) settingsChanged(event);
});

function settingsChanged(event) {
  showValues();
  estimate();
  const same = finished?.settings === runKey();
  if (same && event.target !== $("moment") && settings().view === shownBy(settings().save)) {
    looking?.abort();
    clearTimeout(timer);
    busy("");
    showResult();
    return;
  }
  player.clear();
  showMoment();
  if (same) offerDownload(); else offerStart();
  if (["save", "codec"].includes(event.target.id)) return;
  if (event.target === $("strength")) blend();
  later(look);
}

// Start is the main button until there is a result; then it is Download, as long as the settings are those of the result.

function offerStart() {
  $("start").hidden = false;
  $("start").textContent = `Dehaze ${media?.kind === "image" ? "photo" : "video"}${finished ? " again" : ""}`;
  estimate();
  $("download").textContent = finished ? "Download the last result" : "Download";
  $("download").classList.remove("primary");
}

function offerDownload() {
  $("start").hidden = true;
  $("estimate").textContent = "";
  $("download").hidden = false;
  $("download").textContent = "Download";
  $("download").classList.add("primary");
}

async function estimate() {
  const mine = media, key = runKey();
  const seconds = mine && engine.estimate ? await engine.estimate(mine, settings()).catch(() => null) : null;
  if (media !== mine || key !== runKey()) return;
  const text = seconds < 100 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`;
  $("estimate").textContent = seconds && !$("start").hidden ? `Takes about ${text}.` : "";
}

// The preview: at once by mixing what is known, exactly as soon as the engine has restored the frame.

function blend() {
  if (!exact || settings().view !== "result") return;
  const share = settings().strength / Math.max(exact.strength, 0.01);
  const mixed = after.getContext("2d").createImageData(after.width, after.height);
  const from = exact.before.data, to = exact.after.data, target = mixed.data;
  for (let i = 0; i < target.length; i++) target[i] = from[i] + share * (to[i] - from[i]);
  after.getContext("2d").putImageData(mixed, 0, 0);
  after.dataset.strength = `about ${settings().strength}`;
  histogram.show(exact.before, mixed);
}

async function look() {
  looking?.abort();
  const mine = looking = new AbortController();
  const chosen = settings(), at = Number($("moment").value);
  busy(engine.loading() ? "Loading the network" : "Restoring a frame");
  try {
    const original = await engine.frame(media, at, mine.signal, chosen.whole);
    if (mine.signal.aborted) return;
    reveal(original.width / original.height);
    draw(before, original);
    if ($("controls").hidden || !exact) draw(after, original);
    $("controls").hidden = false;
    const restored = await engine.preview(media, chosen, at, mine.signal);
    if (mine.signal.aborted) return;
    draw(after, restored);
    wipe.name(RIGHT[chosen.view]);
    after.dataset.strength = String(chosen.strength);
    after.dataset.view = chosen.view;
    const same = original.width === restored.width && original.height === restored.height && chosen.strength > 0.04;
    exact = same ? {before: samples(before), after: samples(after), strength: chosen.strength} : exact;
    if (same) histogram.show(exact.before, exact.after);
    announce("The preview is ready.");
    estimate();
    if (lookFailed) complain("");
    lookFailed = false;
  } catch (error) {
    if (!mine.signal.aborted) { lookFailed = true; complain(error); }
  } finally {
    if (looking === mine) busy("");
  }
}

function reveal(ratio) {
  $("wipe").style.setProperty("--ratio", ratio);
  $("wipe").hidden = $("zoom").hidden = false;
  $("fullscreen").hidden = !document.fullscreenEnabled;
  $("welcome").hidden = true;
  $("stage").classList.remove("empty");
}

function draw(canvas, image) {
  Object.assign(canvas, {width: image.width, height: image.height});
  canvas.getContext("2d", {willReadFrequently: true}).drawImage(image, 0, 0);
}

const samples = (canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);

// Running

$("start").addEventListener("click", async () => {
  try {
    complain("");
    await engine.start(media, runSettings());
    finished = null;
    $("download").hidden = true;
    offerStart();
    follow();
    $("cancel").focus({preventScroll: true}); // the button that was pressed is gone
  } catch (error) {
    complain(error);
  }
});
const calmCancel = askTwice($("cancel"), "Really stop?", () => {
  stopping = true;
  $("cancel").ariaDisabled = "true"; // not `disabled`: that would drop the focus
  $("cancel").textContent = $("progress-text").textContent = "Stopping…";
  announce("Stopping.");
  engine.cancel(media);
});

function follow() {
  stopFollowing();
  const mine = media;
  running(true);
  showProgress({state: "queued"});
  stopFollowing = engine.follow(media, async (status) => {
    if (media !== mine) return;
    if (status.state === "away") return serverAway();
    if (["queued", "running"].includes(status.state)) return showProgress(status);
    stopFollowing();
    const focus = $("running").contains(document.activeElement);
    running(false);
    if (status.state === "done") await finish(status);
    if (focus && media === mine) $($("start").hidden ? "download" : "start").focus({preventScroll: true});
    if (status.state === "failed") complain(status.error);
    if (status.state === "cancelled") announce("Cancelled.");
    if (status.state === "deleted") { reset(); complain("The file was deleted."); }
    listHistory();
  });
}

function running(yes) {
  calmCancel();
  stopping = false;
  $("cancel").ariaDisabled = "false";
  announced = 0;
  $("running").hidden = !yes;
  $("idle-actions").hidden = yes;
  for (const input of document.querySelectorAll("#controls :is(input, select)")) input.disabled = yes;
}

function showProgress({state, ahead, progress}) {
  if (stopping) return;
  const bar = $("progress");
  $("away").hidden = true;
  if (!progress) {
    bar.removeAttribute("value");
    const wait = ahead ? `${ahead} ${ahead === 1 ? "file is" : "files are"} before this one` : "Starting";
    $("progress-text").textContent = state === "running" ? "Working" : wait;
    for (const id of ["fps", "left"]) $(id).textContent = "–";
    return;
  }
  if (progress.total) bar.value = Math.min(1, progress.frames / progress.total); else bar.removeAttribute("value");
  $("progress-text").textContent = progress.joining ? "Writing the file" : progress.copying ? "Preparing what this browser plays"
    : `Frame ${progress.frames}${progress.total ? ` of ${progress.total}` : ""}`;
  $("fps").textContent = progress.fps ? `${progress.fps < 10 ? progress.fps.toFixed(1) : Math.round(progress.fps)} fps` : "–";
  $("left").textContent = progress.left == null ? "–" : clock(progress.left);
  tellQuarters(progress);
}

// Screen readers hear every quarter, not every frame.
let announced = 0;
function tellQuarters({frames, total, left}) {
  const quarter = total ? Math.floor(4 * frames / total) : 0;
  if (quarter <= announced || quarter > 3) return;
  announced = quarter;
  announce(`${25 * quarter} % done${left == null ? "" : `, ${clock(left)} left`}.`);
}

async function finish(status) {
  finished = {settings: runKey(), status};
  announce("Done. The result is ready to download.");
  await showResult();
}

async function showResult() {
  const {status} = finished;
  const made = await engine.result(media);
  Object.assign($("download"), {href: made.download, download: made.name});
  offerDownload();
  wipe.name(RIGHT[settings().save]);
  const notes = [status.report?.partial, ...(status.report?.warnings || [])].filter(Boolean);
  if (notes.length) complain(notes.join(" · "));
  try {
    if (media.kind === "video") await player.show(made, media);
    else await showPhotos(made);
  } catch {
    complain(`This browser cannot show ${made.name || "the result"} here: download it to see it.`);
  }
  showMoment();
}

async function showPhotos(made) {
  const images = await Promise.all([made.before, made.after].map(async (address) =>
    createImageBitmap(await (await fetch(address)).blob())));
  draw(before, images[0]);
  draw(after, images[1]);
}

// When the server is away: say so, and go on when it is back.

let waiting = false;
async function serverAway() {
  $("away").textContent = "The server does not answer. This page goes on when it is back.";
  $("away").hidden = false;
  if (waiting) return;
  waiting = true;
  while (!await engine.answers()) await new Promise((done) => setTimeout(done, 1500));
  waiting = false;
  $("away").hidden = true;
  await describe();
  listHistory();
  if (media && $("running").hidden && !opening?.signal.aborted && $("player").hidden) look();
}

// Small things

function busy(text, stop = "") {
  $("busy").hidden = !text;
  $("busy-text").textContent = text;
  $("stop").hidden = !stop;
}

function complain(problem) {
  if (problem?.away) return serverAway();
  const text = problem?.message ?? problem;
  $("alert").hidden = !text;
  $("alert").textContent = text;
}

function announce(text) {
  $("announce").textContent = text;
}

$("fullscreen").addEventListener("click", () => {
  if (document.fullscreenElement) document.exitFullscreen(); else $("stage").requestFullscreen();
});
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=range]), select, textarea");
  const plain = !(event.ctrlKey || event.metaKey || event.altKey);
  if (event.key.toLowerCase() === "f" && plain && !typing && !$("fullscreen").hidden) $("fullscreen").click();
});

const checked = (name) => document.querySelector(`input[name="${name}"]:checked`)?.value;

let timer = 0;
function later(work) {
  clearTimeout(timer);
  timer = setTimeout(work, 180);
}

export function clock(seconds, exactly = false) {
  const whole = Math.max(0, exactly ? Number(seconds) : Math.round(seconds));
  const minutes = Math.floor(whole / 60), rest = whole - 60 * minutes;
  return `${minutes}:${exactly ? rest.toFixed(1).padStart(4, "0") : String(rest).padStart(2, "0")}`;
}

function setUpChoices(id, name, choices) {
  $(id).replaceChildren(...choices.map(([value, text], index) => {
    const label = document.createElement("label");
    const input = Object.assign(document.createElement("input"), {type: "radio", name, value, checked: index === 0});
    label.append(input, text);
    return label;
  }));
}

// Begin

setUpTheme($);
setUpTabs($);
setUpChoices("views", "view", engine.features.views);
setUpChoices("models", "model", engine.features.models);
setUpChoices("sizes", "size", engine.features.sizes || []);
$("views-row").hidden = engine.features.views.length < 2;
for (const [id, choices] of [["save", engine.features.saves], ["codec", engine.features.codecs || []]]) {
  $(id).append(...choices.map(([value, text]) => new Option(text, value)));
}
$("codec-row").hidden = !engine.features.codecs;
$("models-row").hidden = engine.features.models.length < 2;
$("more").hidden = !engine.features.adjust;
const listHistory = makeHistory(engine, $, {
  open: (id) => show((how) => engine.resume(id, how)),
  removed: (id) => { if (media?.id === id) reset(); },
  complain,
  settings: runSettings,
});
makePresets($, {settings: runSettings, apply: (values) => { applySettings(values); settingsChanged({target: $("presets")}); }, announce});
acceptFiles(take);
startCamera(engine, $);
describe();
listHistory();
reopen();
