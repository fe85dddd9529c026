// Two videos in step under one divider: the result leads and has the sound, the original follows.

const SMALL = 0.04; // seconds: about one frame
const LARGE = 0.4;

export function makePlayer(wipe, $) {
  const [before, after] = wipe.querySelectorAll("video");
  const canvases = wipe.querySelectorAll("canvas");
  let shown = false;

  $("play").addEventListener("click", () => { if (after.paused) play(); else pause(); });
  $("seek").addEventListener("input", () => { after.currentTime = before.currentTime = Number($("seek").value); tell(); });
  $("mute").addEventListener("click", () => {
    after.muted = !after.muted;
    $("mute").setAttribute("aria-pressed", after.muted);
    $("mute").textContent = after.muted ? "Sound off" : "Sound on";
  });
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=range]), button, a, summary, select");
    if (event.key === " " && shown && !typing) { event.preventDefault(); $("play").click(); }
  });
  after.addEventListener("timeupdate", tell);

  async function play() {
    await Promise.all([after.play(), before.play()]);
    label();
    requestAnimationFrame(keepInStep);
  }

  function pause() {
    after.pause();
    before.pause();
    before.currentTime = after.currentTime;
    label();
  }

  function keepInStep() {
    if (after.paused || !shown) return;
    const drift = before.currentTime - after.currentTime;
    if (Math.abs(drift) > LARGE) before.currentTime = after.currentTime; // also when the result begins again
    before.playbackRate = Math.abs(drift) > SMALL ? 1 - Math.sign(drift) * 0.1 : 1;
    if (before.paused && !before.ended) before.play().catch(() => {});
    if (before.ended) { before.currentTime = after.currentTime; before.play().catch(() => {}); }
    wipe.dataset.drift = drift.toFixed(3);
    requestAnimationFrame(keepInStep);
  }

  function label() {
    $("play").textContent = after.paused ? "▶" : "❚❚";
    $("play").setAttribute("aria-label", after.paused ? "Play" : "Pause");
  }

  function tell() {
    $("seek").value = after.currentTime;
    $("clock").textContent = `${time(after.currentTime)} / ${time(after.duration)}`;
  }

  return {
    async show({before: original, after: result}, media) {
      await Promise.all([[before, original], [after, result]].map(([video, address]) => new Promise((done, fail) => {
        video.onloadeddata = done;
        video.onerror = () => fail(new Error("not playable"));
        video.src = address;
      })));
      shown = true;
      wipe.style.setProperty("--ratio", after.videoWidth / after.videoHeight);
      for (const canvas of canvases) canvas.hidden = true;
      for (const video of [before, after]) video.hidden = false;
      $("seek").max = after.duration;
      $("player").hidden = false;
      $("mute").hidden = !media.sound;
      tell();
      await play().catch(() => label()); // a browser may not let a page play by itself
    },
    clear() {
      if (!shown) return;
      shown = false;
      for (const video of [before, after]) { video.pause(); video.removeAttribute("src"); video.load(); video.hidden = true; }
      for (const canvas of canvases) canvas.hidden = false;
      $("player").hidden = true;
    },
  };
}

function time(seconds) {
  const whole = Math.floor(seconds || 0);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
