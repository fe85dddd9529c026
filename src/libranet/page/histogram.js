// How the brightness of a frame is spread, before and after.

const LEVELS = 256;

export function makeHistogram($) {
  const canvas = $("histogram-plot");
  let last = null;
  $("histogram").addEventListener("toggle", draw);
  $("theme").addEventListener("click", draw);

  function draw() {
    if (!last || !$("histogram").open) return;
    const curves = last.map(measure), context = canvas.getContext("2d"), {width, height} = canvas;
    const highest = Math.max(...curves.flatMap(({share}) => [...share].slice(1, -1))); // clipped levels may tower
    const style = getComputedStyle(canvas);
    context.clearRect(0, 0, width, height);
    for (const [index, {share}] of curves.entries()) {
      context.beginPath();
      context.moveTo(0, height);
      for (let n = 0; n < LEVELS; n++) context.lineTo((n + 0.5) / LEVELS * width, height * (1 - Math.min(1, share[n] / highest)));
      context.lineTo(width, height);
      context.strokeStyle = context.fillStyle = index ? style.color : style.outlineColor;
      context.globalAlpha = 0.35;
      context.fill();
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.stroke();
    }
    const [before, after] = curves;
    $("histogram-text").textContent = `Before, grey: mean brightness ${describe(before)}. After, green: ${describe(after)}.`;
  }

  return {
    /** Show two frames' samples, RGBA. */
    show(before, after) {
      last = [before, after];
      draw();
    },
  };
}

function measure({data}) {
  const share = new Float64Array(LEVELS), step = 4 * Math.max(1, Math.floor(data.length / 4e6)); // a million pixels are enough
  let mean = 0, count = 0;
  for (let i = 0; i < data.length; i += step, count++) {
    const luma = 0.2126 * data[i] + 0.7152 * data[i + 1] + 0.0722 * data[i + 2];
    share[Math.round(luma)] += 1;
    mean += luma;
  }
  for (let n = 0; n < LEVELS; n++) share[n] /= count;
  return {share, mean: mean / count / 255, black: share[0], white: share[LEVELS - 1]};
}

const describe = ({mean, black, white}) => `${percent(mean)}, black ${percent(black, 1)}, white ${percent(white, 1)}`;
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
