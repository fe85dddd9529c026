// The camera tab: a frame goes through the network as soon as the one before is back.

import {attachWipe} from "./wipe.js";

export function startCamera(engine, $) {
  const [before, after] = $("camera-wipe").querySelectorAll("canvas");
  const video = Object.assign(document.createElement("video"), {muted: true, playsInline: true});
  let stream = null;

  attachWipe($("camera-wipe"));
  $("camera-start").addEventListener("click", start);
  $("camera-stop").addEventListener("click", stop);
  $("camera-strength").addEventListener("input", (event) => {
    document.querySelector('output[for="camera-strength"]').textContent = `${Math.round(100 * event.target.value)} %`;
  });

  async function start() {
    complain("");
    $("camera-start").disabled = true;
    try {
      if (!navigator.mediaDevices) throw new Error("A browser gives its camera to https and localhost only.");
      stream = await navigator.mediaDevices.getUserMedia({video: {width: {ideal: 1280}, height: {ideal: 720}}});
      video.srcObject = stream;
      await video.play();
      const camera = await engine.openCamera();
      run(stream, camera).catch((error) => { complain(error.message); stop(); });
    } catch (error) {
      complain(error.name === "NotAllowedError" ? "The camera was not allowed: allow it in the browser's address bar."
        : error.name === "NotFoundError" ? "This device has no camera." : error.message);
      stop();
    } finally {
      $("camera-start").disabled = false;
    }
  }

  async function run(mine, camera) {
    const scale = Math.min(1, camera.side / Math.max(video.videoWidth, video.videoHeight));
    const [width, height] = [video.videoWidth, video.videoHeight].map((side) => Math.max(16, Math.round(side * scale)));
    for (const canvas of [before, after]) Object.assign(canvas, {width, height});
    $("camera-wipe").style.setProperty("--ratio", width / height);
    $("camera-wipe").hidden = $("camera-controls").hidden = false;
    $("camera-welcome").hidden = true;
    $("camera-stage").classList.remove("empty");
    const grabbed = Object.assign(document.createElement("canvas"), {width, height});
    let rate = 0, last = performance.now();
    try {
      while (stream === mine) {
        const begin = performance.now();
        grabbed.getContext("2d", {willReadFrequently: true}).drawImage(video, 0, 0, width, height);
        const {image, milliseconds} = await camera.restore(grabbed, Number($("camera-strength").value));
        if (stream !== mine) break;
        before.getContext("2d").drawImage(grabbed, 0, 0); // both halves show one moment
        after.getContext("2d").drawImage(image, 0, 0, width, height);
        const now = performance.now();
        rate = rate ? 0.8 * rate + 0.2 * (1000 / (now - last)) : 1000 / (now - last);
        last = now;
        $("latency").textContent = `${Math.round(now - begin)} ms`;
        $("network-time").textContent = milliseconds == null ? "–" : `${Math.round(milliseconds)} ms`;
        $("camera-fps").textContent = `${rate.toFixed(1)} fps`;
        await new Promise(requestAnimationFrame);
      }
    } finally {
      camera.close();
    }
  }

  function stop() {
    for (const track of stream?.getTracks() || []) track.stop();
    stream = video.srcObject = null;
    $("camera-wipe").hidden = $("camera-controls").hidden = true;
    $("camera-welcome").hidden = false;
    $("camera-stage").classList.add("empty");
  }

  function complain(text) {
    $("camera-alert").hidden = !text;
    $("camera-alert").textContent = text;
  }
}
