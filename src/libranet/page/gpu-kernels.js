// The network's operations as WGSL. Values lie in planes of four channels, [channels / 4][height][width], as vec4f.
// tests/web/test_gpu.py holds them to PyTorch.

const GROUPS = 8;
const EPSILON = 1e-5;
const SINGULAR = 1e-6; // as in kernels/color_field

const bind = (at, kind, name, type) => `@group(0) @binding(${at}) var<${kind}> ${name}: ${type};\n`;
const read = (at, name) => bind(at, "storage, read", name, "array<vec4f>");
const write = (at, name) => bind(at, "storage, read_write", name, "array<vec4f>");
const SIZE = bind(0, "uniform", "size", "vec4u"); // width and height of the output, then of the input
const times = (count, make) => Array.from({length: count}, (_, index) => make(index)).join("\n");

// The error function by Abramowitz and Stegun, 7.1.26: within 1.5e-7.
const GELU = `
fn gelu(x: vec4f) -> vec4f {
  let a = abs(x) * 0.70710678;
  let t = 1.0 / (1.0 + 0.3275911 * a);
  let tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * exp(-a * a);
  return 0.5 * x * (1.0 + sign(x) * (1.0 - tail));
}
`;

// The frame continues by reflection to whole cells of the refiner.
const TEXEL = `
@group(0) @binding(1) var frame: texture_2d<f32>;
fn texel(x: i32, y: i32) -> vec4f {
  let last = vec2i(textureDimensions(frame)) - 1;
  return textureLoad(frame, last - abs(vec2i(x, y) - last), 0);
}
`;

/** A convolution of 3x3 or 1x1. Each thread computes `px` places in a row of `q` planes; `into` is the first to write. */
export function conv({taps, stride = 1, inputs, outputs, px, q, into = 0, bias, gelu, normed, add, sums}) {
  const pad = (taps - 1) / 2, columns = (px - 1) * stride + taps;
  const each = (make) => times(px, (p) => times(q, (o) => make(`s${p}_${o}`, p, o)));
  return SIZE + read(1, "input") + bind(2, "storage, read", "weights", "array<mat4x4f>") + write(3, "output")
    + (bias ? read(4, "bias") : "") + (sums ? write(5, "sums") : "") + (normed ? read(6, "norms") : "") + (add ? read(7, "added") : "")
    + (gelu || normed ? GELU : "") + (sums ? `var<workgroup> parts: array<vec4f, ${128 * q}>;` : "") + `
@compute @workgroup_size(8, 8)
fn main(@builtin(workgroup_id) tile: vec3u, @builtin(num_workgroups) tiles: vec3u,
    @builtin(local_invocation_id) local: vec3u, @builtin(local_invocation_index) place: u32) {
  let x = (tile.x * 8 + local.x) * ${px};
  let y = tile.y * 8 + local.y;
  let last = i32(size.z) - 1;
  ${each((s) => `var ${s} = vec4f();`)}
  for (var i = 0u; i < ${inputs}; i++) {
    ${normed ? "let gain = norms[2 * i]; let offset = norms[2 * i + 1];" : ""}
    for (var ky = 0; ky < ${taps}; ky++) {
      let row = i32(y * ${stride}) + ky - ${pad};
      if (row < 0 || row >= i32(size.w)) { continue; }
      let start = i32(i * size.z * size.w) + row * i32(size.z);
      ${times(columns, (c) => `let at${c} = i32(x * ${stride}) + ${c - pad};
      let v${c} = select(vec4f(), ${normed ? "gelu(gain * " : "("}input[start + clamp(at${c}, 0, last)]${normed ? " + offset" : ""}), at${c} >= 0 && at${c} <= last);`)}
      let w = ((tile.z * ${inputs} + i) * ${taps} + u32(ky)) * ${taps * q};
      ${times(taps, (kx) => times(q, (o) => `{ let m = weights[w + ${kx * q + o}];
        ${times(px, (p) => `s${p}_${o} += m * v${p * stride + kx};`)} }`))}
    }
  }
  ${sums ? times(q, (o) => `var t${o} = vec4f(); var u${o} = vec4f();`) : ""}
  ${each((s, p, o) => `if (x + ${p} < size.x && y < size.y) {
    let plane = tile.z * ${q} + ${o};
    let to = (plane * size.y + y) * size.x + x + ${p};
    ${bias ? `${s} += bias[plane];` : ""} ${gelu ? `${s} = gelu(${s});` : ""} ${add ? `${s} += added[to];` : ""}
    output[to${into ? ` + ${into} * size.x * size.y` : ""}] = ${s};
    ${sums ? `t${o} += ${s}; u${o} += ${s} * ${s};` : ""}
  }`)}
  ${sums ? `
  ${times(q, (o) => `parts[${128 * o} + place] = t${o}; parts[${128 * o + 64} + place] = u${o};`)}
  for (var half = 32u; half > 0; half /= 2) {
    workgroupBarrier();
    if (place < half) { for (var k = 0u; k < ${2 * q}; k++) { parts[64 * k + place] += parts[64 * k + place + half]; } }
  }
  workgroupBarrier();
  if (place < ${2 * q}) { sums[((tile.y * tiles.x + tile.x) * ${outputs} + tile.z * ${q}) * 2 + place] = parts[64 * place]; }` : ""}
}`;
}

/** From sums of values and squares, [tile][planes][2], to the gain and the offset of a GroupNorm, [planes][2]. */
export function groupNorm({planes}) {
  const width = 4 * planes / GROUPS, slices = Math.floor(256 / planes);
  return SIZE + read(1, "sums") + read(2, "affine") + write(3, "norms") + `
var<workgroup> parts: array<vec4f, 512>;
var<workgroup> totals: array<f32, ${8 * planes}>;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) place: u32) {
  let plane = place % ${planes};
  var total = vec4f(); var squares = vec4f();
  if (place < ${slices * planes}) {
    for (var tile = place / ${planes}; tile < size.z; tile += ${slices}) {
      total += sums[(tile * ${planes} + plane) * 2];
      squares += sums[(tile * ${planes} + plane) * 2 + 1];
    }
  }
  parts[2 * place] = total; parts[2 * place + 1] = squares;
  workgroupBarrier();
  if (place < ${planes}) {
    for (var slice = 1u; slice < ${slices}; slice++) {
      total += parts[2 * (slice * ${planes} + plane)]; squares += parts[2 * (slice * ${planes} + plane) + 1];
    }
    for (var k = 0u; k < 4; k++) { totals[8 * plane + k] = total[k]; totals[8 * plane + 4 + k] = squares[k]; }
  }
  workgroupBarrier();
  if (place < ${planes}) {
    let count = f32(size.x * size.y * ${width});
    var gain = vec4f(); var offset = vec4f();
    for (var k = 0u; k < 4; k++) {
      let first = (4 * plane + k) / ${width} * ${width};
      var sum = 0.0; var square = 0.0;
      for (var c = first; c < first + ${width}; c++) { sum += totals[c / 4 * 8 + c % 4]; square += totals[c / 4 * 8 + 4 + c % 4]; }
      let mean = sum / count;
      gain[k] = inverseSqrt(max(square / count - mean * mean, 0.0) + ${EPSILON}) * affine[2 * plane][k];
      offset[k] = affine[2 * plane + 1][k] - mean * gain[k];
    }
    norms[2 * plane] = gain; norms[2 * plane + 1] = offset;
  }
}`;
}

/** Normalise; then GELU, or add the block's input. */
export function applyNorm({gelu, add}) {
  return SIZE + read(1, "input") + read(2, "norms") + write(3, "output") + (add ? read(4, "added") : "") + GELU + `
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let count = size.x * size.y;
  if (id.x >= count) { return; }
  let at = id.y * count + id.x;
  let value = norms[2 * id.y] * input[at] + norms[2 * id.y + 1];
  output[at] = ${gelu ? "gelu(value)" : "value"}${add ? " + added[at]" : ""};
}`;
}

/** Reduce the frame with a triangle filter as wide as the step. `signed` is the encoders' range, -1 to 1. */
export function reduce({signed}) {
  return SIZE + TEXEL + write(2, "output") + `
@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= size.x || id.y >= size.y) { return; }
  let step = vec2f(size.zw) / vec2f(size.xy);
  let support = max(step, vec2f(1.0));
  let centre = (vec2f(id.xy) + 0.5) * step;
  let first = max(vec2i(floor(centre - support)), vec2i(0));
  let end = min(vec2i(ceil(centre + support)), vec2i(size.zw));
  var sum = vec3f(); var mass = 0.0;
  for (var y = first.y; y < end.y; y++) {
    let wy = max(0.0, 1.0 - abs(f32(y) + 0.5 - centre.y) / support.y);
    for (var x = first.x; x < end.x; x++) {
      let weight = wy * max(0.0, 1.0 - abs(f32(x) + 0.5 - centre.x) / support.x);
      sum += weight * texel(x, y).rgb; mass += weight;
    }
  }
  let value = clamp(sum / mass, vec3f(0.0), vec3f(1.0));
  output[id.y * size.x + id.x] = vec4f(${signed ? "2.0 * value - 1.0" : "value"}, 0.0);
}`;
}

/** The pixels of each cell of 4x4 as channels: plane 4 c + dy holds a row of colour c. */
export const unshuffle = () => SIZE + TEXEL + write(2, "output") + `
@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= size.x || id.y >= size.y) { return; }
  for (var dy = 0u; dy < 4; dy++) {
    var row: array<vec4f, 4>;
    for (var dx = 0u; dx < 4; dx++) { row[dx] = texel(i32(4 * id.x + dx), i32(4 * id.y + dy)); }
    for (var c = 0u; c < 3; c++) {
      output[((4 * c + dy) * size.y + id.y) * size.x + id.x] = vec4f(row[0][c], row[1][c], row[2][c], row[3][c]);
    }
  }
}`;

/** Add the position of each frame of the window, and LayerNorm. The window's frames lie in slots of a ring. */
export function windowNorm({planes, window}) {
  return SIZE + read(1, "features") + read(2, "position") + read(3, "affine") + bind(4, "storage, read", "slots", "array<u32>")
    + write(5, "normed") + write(6, "centre") + write(7, "kept") + `
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let cells = size.x * size.y; let t = id.y;
  if (id.x >= cells) { return; }
  let start = slots[t] * ${planes} * cells + id.x;
  var sum = 0.0;
  for (var c = 0u; c < ${planes}; c++) { sum += dot(features[start + c * cells] + position[t * ${planes} + c], vec4f(1.0)); }
  let mean = sum / ${4 * planes};
  var square = 0.0;
  for (var c = 0u; c < ${planes}; c++) {
    let off = features[start + c * cells] + position[t * ${planes} + c] - mean;
    square += dot(off, off);
  }
  let gain = inverseSqrt(square / ${4 * planes} + ${EPSILON});
  for (var c = 0u; c < ${planes}; c++) {
    let value = features[start + c * cells] + position[t * ${planes} + c];
    let result = (value - mean) * gain * affine[2 * c] + affine[2 * c + 1];
    normed[(c * ${window} + t) * cells + id.x] = result;
    if (t == ${(window - 1) / 2}) { kept[c * cells + id.x] = value; centre[c * cells + id.x] = result; }
  }
}`;
}

export const layerNorm = ({planes}) => SIZE + read(1, "input") + read(2, "affine") + write(3, "output") + `
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let cells = size.x * size.y;
  if (id.x >= cells) { return; }
  var sum = 0.0;
  for (var c = 0u; c < ${planes}; c++) { sum += dot(input[c * cells + id.x], vec4f(1.0)); }
  let mean = sum / ${4 * planes};
  var square = 0.0;
  for (var c = 0u; c < ${planes}; c++) { let off = input[c * cells + id.x] - mean; square += dot(off, off); }
  let gain = inverseSqrt(square / ${4 * planes} + ${EPSILON});
  for (var c = 0u; c < ${planes}; c++) {
    output[c * cells + id.x] = (input[c * cells + id.x] - mean) * gain * affine[2 * c] + affine[2 * c + 1];
  }
}`;

/** Attention of the centre frame to its window, per cell and head. Keys lie before values. */
export function attend({planes, window, heads}) {
  const head = planes / heads;
  return SIZE + read(1, "query") + read(2, "keyValue") + write(3, "output") + `
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let cells = size.x * size.y; let first = id.y * ${head};
  if (id.x >= cells) { return; }
  var scores: array<f32, ${window}>;
  var most = -1e30;
  for (var t = 0u; t < ${window}; t++) {
    var score = 0.0;
    for (var c = first; c < first + ${head}; c++) {
      score += dot(query[c * cells + id.x], keyValue[(c * ${window} + t) * cells + id.x]);
    }
    scores[t] = score * ${1 / Math.sqrt(4 * head)};
    most = max(most, scores[t]);
  }
  var mass = 0.0;
  for (var t = 0u; t < ${window}; t++) { scores[t] = exp(scores[t] - most); mass += scores[t]; }
  for (var c = first; c < first + ${head}; c++) {
    var mixed = vec4f();
    for (var t = 0u; t < ${window}; t++) { mixed += scores[t] * keyValue[((c + ${planes}) * ${window} + t) * cells + id.x]; }
    output[c * cells + id.x] = mixed / mass;
  }
}`;
}

// The filter over time (kernels/grid_filter). Rings of `slots` frames; `clock` has a factor for each slot, which is 0
// for the present one, then the mass of the first frame, which stands for those before it, then the present slot.
const CLOCK = (at) => bind(at, "storage, read", "clock", "array<f32>");

/** How a frame looks in each cell, and how much the frames of the ring count there. */
export const weigh = ({slots, halfSquared}) => SIZE + read(1, "small") + CLOCK(2) + write(3, "looks")
  + bind(4, "storage, read_write", "weights", "array<f32>") + `
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let cells = size.x * size.y;
  if (id.x >= cells) { return; }
  let side = size.z / size.x; let corner = vec2u(id.x % size.x, id.x / size.x) * side;
  var look = vec3f();
  for (var y = 0u; y < side; y++) { for (var x = 0u; x < side; x++) { look += small[(corner.y + y) * size.z + corner.x + x].rgb; } }
  look /= f32(side * side);
  let present = u32(clock[${slots + 1}]);
  for (var slot = 0u; slot < ${slots}; slot++) {
    let off = looks[slot * cells + id.x].rgb - look;
    weights[slot * cells + id.x] = select(clock[slot] / (1.0 + dot(off, off) / 3.0 / ${halfSquared}), 0.0, slot == present);
  }
  looks[present * cells + id.x] = vec4f(look, 0.0);
}`;

/** Filter values of cells, [planes][cells], and keep the unfiltered ones. `change` returns what the filter adds. */
export const steady = ({slots, planes, change}) => SIZE + read(1, "values") + CLOCK(2)
  + bind(3, "storage, read", "weights", "array<f32>") + write(4, "ring") + write(5, "output") + `
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let cells = size.x * size.y; let at = id.y * cells + id.x;
  if (id.x >= cells) { return; }
  let now = values[at];
  var total = vec4f(); var mass = 1.0;
  for (var slot = 0u; slot < ${slots}; slot++) {
    let weight = weights[slot * cells + id.x];
    total += weight * (ring[slot * ${planes} * cells + at] - now);
    mass += weight;
  }
  output[at] = ${change ? "total / mass" : `now + total / (mass + clock[${slots}])`};
  ring[u32(clock[${slots + 1}]) * ${planes} * cells + at] = now;
}`;

/** Read the grids at each pixel, fuse them in the Lie algebra, map to GL(3) by Cayley, apply. */
export const applyField = ({bins}) => SIZE + read(1, "low") + read(2, "grids") + bind(3, "storage, read", "strength", "array<f32>")
  + write(4, "small") + write(5, "correction") + `
@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= size.x || id.y >= size.y) { return; }
  let here = id.y * size.x + id.x; let cells = size.z * size.w;
  let colour = low[here].rgb;
  let place = clamp((vec2f(id.xy) + 0.5) * vec2f(size.zw) / vec2f(size.xy) - 0.5, vec2f(0.0), vec2f(size.zw) - 1.0);
  let p0 = vec2u(place); let p1 = min(p0 + 1, size.zw - 1); let f = fract(place);
  var at = array<u32, 4>(p0.y * size.z + p0.x, p0.y * size.z + p1.x, p1.y * size.z + p0.x, p1.y * size.z + p1.x);
  var w = array<f32, 4>((1 - f.x) * (1 - f.y), f.x * (1 - f.y), (1 - f.x) * f.y, f.x * f.y);
  var c: array<vec4f, 3>;
  for (var guide = 0u; guide < 2; guide++) {
    let z = clamp(colour[guide] * ${bins} - 0.5, 0.0, ${bins - 1});
    let z0 = u32(z); let z1 = min(z0 + 1, ${bins - 1}); let fz = fract(z);
    for (var k = 0u; k < 3; k++) {
      let below = ((guide * ${bins} + z0) * 3 + k) * cells; let above = ((guide * ${bins} + z1) * 3 + k) * cells;
      for (var n = 0u; n < 4; n++) { c[k] += 0.5 * w[n] * mix(grids[below + at[n]], grids[above + at[n]], fz); }
    }
  }
  for (var k = 0u; k < 3; k++) {
    for (var n = 0u; n < 4; n++) { c[k] += w[n] * grids[(${6 * bins} + k) * cells + at[n]]; }
    c[k] *= strength[0];
  }
  // N = I - M / 2 in rows; A = 2 N^-1 - I by cofactors.
  let a = vec3f(1.0, 0.0, 0.0) - 0.5 * c[0].xyz;
  let b = vec3f(0.0, 1.0, 0.0) - 0.5 * vec3f(c[0].w, c[1].xy);
  let d = vec3f(0.0, 0.0, 1.0) - 0.5 * vec3f(c[1].zw, c[2].x);
  let bd = cross(b, d); let det = dot(a, bd);
  var result = colour;
  if (abs(det) >= ${SINGULAR}) {
    result = (2.0 / det) * (bd * colour.r + cross(d, a) * colour.g + cross(a, b) * colour.b) - colour;
  }
  let restored = clamp(result + c[2].yzw, vec3f(0.0), vec3f(1.0));
  small[here] = vec4f(restored, 0.0);
  correction[here] = vec4f(restored - colour, 0.0);
}`;

/** The mean of the refiner's residual over each cell of the grids: one workgroup a cell. */
export const cellMeans = () => SIZE + read(1, "residual") + write(2, "means") + `
var<workgroup> parts: array<vec4f, 64>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) cell: vec3u, @builtin(local_invocation_index) place: u32) {
  let step = vec2f(size.zw) / vec2f(size.xy);
  let support = max(step, vec2f(1.0));
  let centre = (vec2f(cell.xy) + 0.5) * step;
  let first = max(vec2i(floor(centre - support)), vec2i(0));
  let end = min(vec2i(ceil(centre + support)), vec2i(size.zw));
  let width = end.x - first.x; let plane = size.z * size.w;
  var sum = vec4f();
  for (var n = i32(place); n < width * (end.y - first.y); n += 64) {
    let x = first.x + n % width; let y = first.y + n / width;
    let weight = max(0.0, 1.0 - abs(f32(y) + 0.5 - centre.y) / support.y) * max(0.0, 1.0 - abs(f32(x) + 0.5 - centre.x) / support.x);
    var value = vec3f();
    for (var k = 0u; k < 12; k++) { value[k / 4] += dot(residual[k * plane + u32(y) * size.z + u32(x)], vec4f(0.0625)); }
    sum += weight * vec4f(clamp(value, vec3f(-1.0), vec3f(1.0)), 1.0);
  }
  parts[place] = sum;
  for (var half = 32u; half > 0; half /= 2) {
    workgroupBarrier();
    if (place < half) { parts[place] += parts[place + half]; }
  }
  workgroupBarrier();
  if (place == 0) { means[cell.y * size.x + cell.x] = vec4f(parts[0].rgb / parts[0].a, 0.0); }
}`;

const BILINEAR = (name) => `
fn ${name}_at(place: vec2f, width: u32, height: u32) -> vec4f {
  let at = clamp(place, vec2f(0.0), vec2f(f32(width - 1), f32(height - 1)));
  let p0 = vec2u(at); let p1 = min(p0 + 1, vec2u(width, height) - 1); let f = fract(at);
  return mix(mix(${name}[p0.y * width + p0.x], ${name}[p0.y * width + p1.x], f.x),
    mix(${name}[p1.y * width + p0.x], ${name}[p1.y * width + p1.x], f.x), f.y);
}
`;

/** Move the correction by the change of the cells' means. */
export const shift = () => SIZE + read(1, "change") + bind(2, "storage, read", "strength", "array<f32>") + write(3, "correction")
  + BILINEAR("change") + `
@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= size.x || id.y >= size.y) { return; }
  let place = (vec2f(id.xy) + 0.5) * vec2f(size.zw) / vec2f(size.xy) - 0.5;
  correction[id.y * size.x + id.x] += strength[0] * change_at(place, size.z, size.w);
}`;

/** Add the correction and the residual to the frame. Canvases, `shared` with the browser, hold colours times their alpha. */
export const addBack = ({shared}) => SIZE + TEXEL + read(2, "correction") + read(3, "residual")
  + bind(4, "storage, read", "strength", "array<f32>") + "@group(0) @binding(5) var image: texture_storage_2d<rgba8unorm, write>;\n"
  + BILINEAR("correction") + `
@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= size.x || id.y >= size.y) { return; }
  let given = texel(i32(id.x), i32(id.y));
  let cell = id.xy / 4; let plane = size.z * size.w; let at = (id.y % 4) * plane + cell.y * size.z + cell.x;
  let residual_here = vec3f(residual[at][id.x % 4], residual[4 * plane + at][id.x % 4], residual[8 * plane + at][id.x % 4]);
  let moved = correction_at((vec2f(id.xy) + 0.5) / 4.0 - 0.5, size.z, size.w).rgb;
  let value = clamp(given.rgb + moved + strength[0] * residual_here, vec3f(0.0), vec3f(1.0));
  textureStore(image, id.xy, vec4f(value${shared ? " * given.a" : ""}, given.a));
}`;
