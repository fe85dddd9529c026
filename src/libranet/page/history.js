// The files that the server keeps: open one again, or delete it. The list changes in place, so that focus stays.

import {askTwice} from "./confirm.js";

const FEW = 6;
const REFRESH = 3000;
const UNDER_WAY = ["checking", "queued", "running", "uploading"];

export function makeHistory(engine, $, {open, removed, complain, settings}) {
  const items = new Map();
  let all = false, timer = 0;

  $("more-jobs").addEventListener("click", () => { all = true; list(); });
  $("start-all").addEventListener("click", async () => {
    for (const job of (await engine.history()).filter(({state}) => state === "ready").reverse()) {
      await engine.start({id: job.id, ...job.media}, settings()).catch((error) => complain(`${job.name}: ${error.message}`));
    }
    list();
  });
  askTwice($("delete-all"), "Really delete all?", async () => {
    for (const job of await engine.history()) {
      removed(job.id);
      await engine.remove(job.id).catch((error) => complain(error.message));
    }
    await list();
    $("choose").focus();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) list(); });

  async function list() {
    if (!engine.features.history) return;
    clearTimeout(timer);
    const jobs = await engine.history().catch(() => null);
    clearTimeout(timer);
    if (jobs === null) return; // the page says that the server is away
    const shown = all ? jobs : jobs.slice(0, FEW);
    for (const [id, item] of items) {
      if (!shown.some((job) => job.id === id)) { item.row.remove(); items.delete(id); }
    }
    shown.forEach((job, index) => {
      if (!items.has(job.id)) items.set(job.id, make(job));
      const {row, update} = items.get(job.id);
      update(job);
      if ($("jobs").children[index] !== row) $("jobs").insertBefore(row, $("jobs").children[index] || null);
    });
    $("history").hidden = jobs.length === 0;
    const ready = jobs.filter(({state}) => state === "ready").length;
    $("start-all").hidden = ready < 2;
    $("start-all").textContent = `Dehaze all ${ready}`;
    $("more-jobs").hidden = shown.length === jobs.length;
    $("more-jobs").textContent = `Show ${jobs.length - shown.length} more`;
    if (!document.hidden && jobs.some((job) => UNDER_WAY.includes(job.state))) timer = setTimeout(list, REFRESH);
  }

  function make(job) {
    const row = document.createElement("li");
    const picture = Object.assign(document.createElement("img"), {alt: "", loading: "lazy", hidden: true});
    const name = element("span", "name", job.name);
    name.title = job.name;
    const why = element("small", "", "");
    name.append(why);
    const badge = element("span", "badge", "");
    const look = element("button", "quiet", "Open");
    look.setAttribute("aria-label", `Open ${job.name}`);
    look.addEventListener("click", () => {
      open(job.id);
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
      scrollTo({top: 0, behavior: still ? "auto" : "smooth"});
    });
    const bin = element("button", "quiet", "Delete");
    bin.setAttribute("aria-label", `Delete ${job.name}`);
    askTwice(bin, "Really delete?", async () => {
      const next = (row.nextElementSibling || row.previousElementSibling)?.querySelector("button:last-child");
      bin.disabled = true;
      removed(job.id);
      await engine.remove(job.id).catch((error) => complain(error.message));
      await list();
      (next?.isConnected ? next : $("choose")).focus();
    });
    row.append(picture, name, badge, look, bin);
    return {row, update: (now) => {
      badge.textContent = describe(now);
      badge.className = `badge ${{done: "good", failed: "bad"}[now.state] || ""}`;
      why.textContent = now.state === "uploading" ? "choose the same file again to go on" : now.error;
      look.hidden = picture.hidden = !now.media;
      if (now.media && !picture.src) picture.src = engine.thumbnail(job.id);
    }};
  }

  return list;
}

function describe(job) {
  if (job.state === "uploading") return `${Math.floor(100 * job.received / job.size)} % sent`;
  const {progress} = job;
  if (job.state === "running" && progress?.total) return `${Math.floor(100 * progress.frames / progress.total)} %`;
  return job.state === "ready" ? "not started" : job.state;
}

function element(kind, className, textContent) {
  return Object.assign(document.createElement(kind), {className, textContent});
}
