// Runs the published MAXIM graph in TensorFlow.js (WebAssembly), for comparison with our torch runner of the same graph.
// npm install @tensorflow/tfjs @tensorflow/tfjs-backend-wasm in this folder's copy, then there:
// node second_runtime.mjs FOLDER_OF_MODEL_JSON IN.bin HEIGHT WIDTH OUT.bin
// IN.bin and OUT.bin hold height x width x 3 float32 values. The sizes must be multiples of 64.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const require = createRequire(join(process.cwd(), "package.json"));
const tf = require("@tensorflow/tfjs");
const wasm = require("@tensorflow/tfjs-backend-wasm");
wasm.setWasmPaths(dirname(require.resolve("@tensorflow/tfjs-backend-wasm")) + "/");

// The WebAssembly backend has no Einsum. These are the three that the graph contains, as matrix products.
tf.registerKernel({
  kernelName: "Einsum",
  backendName: "wasm",
  kernelFunc: ({ inputs, attrs }) => {
    const [a, b] = [inputs[0], inputs[1]];
    const last = (x, m) => tf.reshape(tf.matMul(tf.reshape(x, [-1, m.shape[0]]), m), [...x.shape.slice(0, -1), m.shape[1]]);
    if (attrs.equation === "abcg,gf->abcf") return last(a, b);
    if (attrs.equation === "abgd,gf->abdf") return last(tf.transpose(a, [0, 1, 3, 2]), b);
    if (attrs.equation === "gb,cgef->bcef") return tf.transpose(last(tf.transpose(b, [0, 2, 3, 1]), a), [3, 0, 1, 2]);
    throw new Error(`unexpected equation ${attrs.equation}`);
  },
});

const [folder, input, height, width, output] = process.argv.slice(2);
const description = JSON.parse(readFileSync(join(folder, "model.json"), "utf8"));
const whole = Buffer.concat(description.weightsManifest[0].paths.map((name) => readFileSync(join(folder, name))));
await tf.setBackend("wasm");
await tf.ready();
const model = await tf.loadGraphModel({
  load: async () => ({
    modelTopology: description.modelTopology,
    weightSpecs: description.weightsManifest[0].weights,
    weightData: whole.buffer.slice(whole.byteOffset, whole.byteOffset + whole.byteLength),
    format: description.format,
    signature: description.signature,
  }),
});
const bytes = readFileSync(input);
const values = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
const frame = tf.tensor4d(values, [1, Number(height), Number(width), 3]);
const begin = Date.now();
const restored = await model.predict(frame).data();
writeFileSync(output, Buffer.from(restored.buffer, restored.byteOffset, restored.byteLength));
console.log(`tfjs ${tf.version.tfjs} wasm: ${height}x${width} in ${((Date.now() - begin) / 1000).toFixed(1)} s`);
