// The page: what is shown, and when. What computes is behind `engine.js`: a server, or this browser itself.

import * as engine from "./engine.js";
import {startCamera} from "./camera.js";
import {makePlayer} from "./player.js";
import {attachWipe} from "./wipe.js";

const $ = (id) => document.getElementById(id);
const [before, after] = $("wipe").querySelectorAll("canvas");
const player = makePlayer($("wipe"), $);
let media = null;
let opening = null;
let looking = null;
let stopFollowing = () => {};
let exact = null; // {before, after, strength}: samples of the frame that the engine restored last

attachWipe($("wipe"));
setUpTheme();
setUpTabs();
setUpChoices("views", "view", engine.features.views);
setUpChoices("models", "model", engine.features.models);
setUpChoices("sizes", "size", engine.features.sizes || []);
$("models-row").hidden = engine.features.models.length < 2;
$("more").hidden = !engine.features.adjust;
startCamera(engine, $);
describe();
listHistory();

async function describe() {
  const facts = await engine.describe().catch((error) => ({promise: error.message, about: ""}));
  $("promise").textContent = facts.promise;
  $("about").textContent = facts.about;
  if (facts.link) {
    const link = Object.assign(document.createElement("a"), {textContent: facts.link[0], href: facts.link[1]});
    $("about").append(" · ", link);
  }
  document.documentElement.dataset.ready = "true";
}

// Opening

$("choose").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => { if ($("file").files[0]) openFile($("file").files[0]); $("file").value = ""; });
$("example").addEventListener("click", () => show((how) => engine.example(how)));
$("other").addEventListener("click", reset);
for (const kind of ["dragenter", "dragover"]) {
  $("stage").addEventListener(kind, (event) => { event.preventDefault(); $("stage").classList.add("drop"); });
}
for (const kind of ["dragleave", "drop"]) $("stage").addEventListener(kind, () => $("stage").classList.remove("drop"));
$("stage").addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files[0]) openFile(event.dataTransfer.files[0]);
});
addEventListener("paste", (event) => { if (event.clipboardData.files[0]) openFile(event.clipboardData.files[0]); });

const openFile = (file) => show((how) => engine.open(file, how));

async function show(open) {
  reset();
  const mine = opening = new AbortController();
  busy("Opening");
  for (const id of ["choose", "example"]) $(id).disabled = true;
  try {
    const found = await open({report: busy, signal: mine.signal});
    if (mine.signal.aborted) return;
    media = found;
    describeMedia();
    applySettings(media.settings);
    await look();
    if (["queued", "running", "done"].includes(media.state)) follow();
  } catch (error) {
    if (!mine.signal.aborted) complain(error.message);
  } finally {
    for (const id of ["choose", "example"]) $(id).disabled = false;
    if (opening === mine) busy("");
  }
  listHistory();
}

function reset() {
  opening?.abort();
  looking?.abort();
  stopFollowing();
  player.clear();
  media = exact = null;
  complain("");
  busy("");
  for (const id of ["controls", "wipe", "running", "download"]) $(id).hidden = true;
  $("welcome").hidden = $("idle-actions").hidden = $("start").hidden = false;
  $("stage").classList.add("empty");
}

function describeMedia() {
  const parts = [media.name, `${media.width}×${media.height}`];
  if (media.kind === "video") {
    if (media.seconds) parts.push(clock(media.seconds));
    if (media.rate) parts.push(`${Number(media.rate.toFixed(2))} fps`);
  }
  $("facts").textContent = [...parts, media.format].join(" · ");
  $("moment-row").hidden = !(media.kind === "video" && media.seconds);
  $("sizes-row").hidden = !(media.kind === "video" && engine.features.sizes);
  $("moment").max = Math.max(0, (media.seconds || 0) - 1 / (media.rate || 25));
  $("moment").value = 0;
  showValues();
}

// Settings

function settings() {
  return {
    strength: Number($("strength").value),
    view: checked("view") || "result",
    exposure: $("keep-exposure").checked ? "keep" : "network",
    protect_sky: Number($("protect-sky").value),
    protect_shadows: Number($("protect-shadows").value),
    color: Number($("color").value),
    model: checked("model"),
    size: checked("size"),
  };
}

function applySettings(given) {
  const values = {strength: 1, protect_sky: 0, protect_shadows: 0, color: 1, view: "result", exposure: "network", ...given};
  $("strength").value = values.strength;
  $("protect-sky").value = values.protect_sky;
  $("protect-shadows").value = values.protect_shadows;
  $("color").value = values.color;
  $("keep-exposure").checked = values.exposure === "keep";
  const view = document.querySelector(`input[name="view"][value="${values.view}"]`);
  if (view) view.checked = true;
  showValues();
}

function showValues() {
  for (const output of document.querySelectorAll(".slider output")) {
    const input = $(output.htmlFor[0]);
    output.textContent = input.id === "moment" ? clock(input.value, true) : `${Math.round(100 * input.value)} %`;
  }
}

document.addEventListener("input", (event) => {
  if (!media || !event.target.closest("#controls")) return;
  showValues();
  player.clear();
  $("download").hidden = true;
  $("start").hidden = false;
  if (event.target === $("strength")) blend();
  later(look);
});

// The preview: at once by mixing what is known, exactly as soon as the engine has restored the frame.

function blend() {
  if (!exact || settings().view !== "result") return;
  const share = settings().strength / Math.max(exact.strength, 0.01);
  const mixed = after.getContext("2d").createImageData(after.width, after.height);
  const from = exact.before.data, to = exact.after.data, target = mixed.data;
  for (let i = 0; i < target.length; i++) target[i] = from[i] + share * (to[i] - from[i]);
  after.getContext("2d").putImageData(mixed, 0, 0);
  after.dataset.strength = `about ${settings().strength}`;
}

async function look() {
  looking?.abort();
  const mine = looking = new AbortController();
  const chosen = settings(), at = Number($("moment").value);
  busy("Restoring a frame");
  try {
    const original = await engine.frame(media, at, mine.signal);
    if (mine.signal.aborted) return;
    reveal(original.width / original.height);
    draw(before, original);
    if ($("controls").hidden || !exact) draw(after, original);
    $("controls").hidden = false;
    const restored = await engine.preview(media, chosen, at, mine.signal);
    if (mine.signal.aborted) return;
    draw(after, restored);
    after.dataset.strength = String(chosen.strength);
    after.dataset.view = chosen.view;
    const same = original.width === restored.width && original.height === restored.height && chosen.strength > 0.04;
    exact = same ? {before: samples(before), after: samples(after), strength: chosen.strength} : exact;
    complain("");
  } catch (error) {
    if (!mine.signal.aborted) complain(error.message);
  } finally {
    if (looking === mine) busy("");
  }
}

function reveal(ratio) {
  $("wipe").style.setProperty("--ratio", ratio);
  $("wipe").hidden = false;
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
    await engine.start(media, settings());
    follow();
  } catch (error) {
    complain(error.message);
  }
});
$("cancel").addEventListener("click", () => engine.cancel(media));

function follow() {
  stopFollowing();
  const mine = media;
  running(true);
  showProgress({state: "queued"});
  stopFollowing = engine.follow(media, async (status) => {
    if (media !== mine) return;
    if (["queued", "running"].includes(status.state)) return showProgress(status);
    stopFollowing();
    running(false);
    if (status.state === "done") await finish(status);
    if (status.state === "failed") complain(status.error);
    listHistory();
  });
}

function running(yes) {
  $("running").hidden = !yes;
  $("idle-actions").hidden = yes;
  for (const input of document.querySelectorAll("#controls input")) input.disabled = yes;
}

function showProgress({state, ahead, progress}) {
  const bar = $("progress");
  if (!progress) {
    bar.removeAttribute("value");
    const wait = ahead ? `${ahead} ${ahead === 1 ? "file is" : "files are"} before this one` : "Starting";
    $("progress-text").textContent = state === "running" ? "Working" : wait;
    for (const id of ["fps", "left", "bound"]) $(id).textContent = "–";
    return;
  }
  if (progress.total) bar.value = Math.min(1, progress.frames / progress.total); else bar.removeAttribute("value");
  $("progress-text").textContent = progress.joining ? "Writing the file"
    : `Frame ${progress.frames}${progress.total ? ` of ${progress.total}` : ""}`;
  $("fps").textContent = progress.fps ? `${progress.fps < 10 ? progress.fps.toFixed(1) : Math.round(progress.fps)} fps` : "–";
  $("left").textContent = progress.left == null ? "–" : clock(progress.left);
  $("bound").textContent = progress.bound || "–";
}

async function finish(status) {
  const made = await engine.result(media);
  Object.assign($("download"), {href: made.download, download: made.name});
  $("download").hidden = false;
  $("start").hidden = true;
  const notes = [status.report?.partial, ...(status.report?.warnings || [])].filter(Boolean);
  if (notes.length) complain(notes.join(" · "));
  try {
    if (media.kind === "video") await player.show(made, media);
    else await showPhotos(made);
  } catch {
    complain(`This browser cannot show ${made.name || "the result"} here: download it to see it.`);
  }
}

async function showPhotos(made) {
  const images = await Promise.all([made.before, made.after].map(async (address) =>
    createImageBitmap(await (await fetch(address)).blob())));
  draw(before, images[0]);
  draw(after, images[1]);
}

// Earlier files

async function listHistory() {
  if (!engine.features.history) return;
  const jobs = await engine.history().catch(() => []);
  $("history").hidden = jobs.length === 0;
  $("jobs").replaceChildren(...jobs.map((job) => {
    const item = document.createElement("li");
    const name = Object.assign(document.createElement("span"), {className: "name", textContent: job.name, title: job.name});
    const badge = Object.assign(document.createElement("span"), {className: `badge ${{done: "good", failed: "bad"}[job.state] || ""}`, textContent: job.state});
    const look = Object.assign(document.createElement("button"), {className: "quiet", textContent: "Open", disabled: !job.media});
    look.setAttribute("aria-label", `Open ${job.name}`);
    look.addEventListener("click", () => { show((how) => engine.resume(job.id, how)); scrollTo({top: 0, behavior: "smooth"}); });
    const bin = Object.assign(document.createElement("button"), {className: "quiet", textContent: "Delete"});
    bin.setAttribute("aria-label", `Delete ${job.name}`);
    bin.addEventListener("click", async () => {
      if (media?.id === job.id) reset();
      await engine.remove(job.id).catch((error) => complain(error.message));
      listHistory();
    });
    item.append(name, badge, look, bin);
    return item;
  }));
}

// Small things

function busy(text) {
  $("busy").hidden = !text;
  $("busy-text").textContent = text;
}

function complain(text) {
  $("alert").hidden = !text;
  $("alert").textContent = text;
}

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

function setUpTabs() {
  const tabs = [$("tab-file"), $("tab-camera")];
  const choose = (tab) => {
    for (const each of tabs) {
      each.setAttribute("aria-selected", each === tab);
      each.tabIndex = each === tab ? 0 : -1;
      $(each.getAttribute("aria-controls")).hidden = each !== tab;
    }
    if (tab !== tabs[1]) $("camera-stop").click();
  };
  for (const tab of tabs) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = tabs[1 - tabs.indexOf(tab)];
      choose(other);
      other.focus();
    });
  }
}

function setUpTheme() {
  const names = {auto: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"]};
  const order = Object.keys(names);
  const apply = (name) => {
    document.documentElement.dataset.theme = name;
    $("theme").textContent = names[name][0];
    $("theme").setAttribute("aria-label", `Theme: ${names[name][1]}`);
  };
  $("theme").addEventListener("click", () => {
    const next = order[(order.indexOf(document.documentElement.dataset.theme) + 1) % order.length];
    localStorage.setItem("libranet-theme", next);
    apply(next);
  });
  apply(localStorage.getItem("libranet-theme") || "auto");
}
