// Runs the published MAXIM graph in TensorFlow.js, for comparison with our torch runner of the same graph.
// npm install @tensorflow/tfjs, then: node second_runtime.mjs FOLDER_OF_MODEL_JSON IN.bin HEIGHT WIDTH OUT.bin
// IN.bin and OUT.bin hold height x width x 3 float32 values.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "package.json"));
const tf = require("@tensorflow/tfjs");
const [folder, input, height, width, output] = process.argv.slice(2);
const description = JSON.parse(readFileSync(join(folder, "model.json"), "utf8"));
const shards = description.weightsManifest[0].paths.map((name) => readFileSync(join(folder, name)));
const whole = Buffer.concat(shards);

await tf.setBackend("cpu");
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
writeFileSync(output, Buffer.from(restored.buffer));
console.log(`tfjs ${tf.version.tfjs}: ${height}x${width} in ${((Date.now() - begin) / 1000).toFixed(1)} s`);
